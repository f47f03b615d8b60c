"""Requests that two servers would read differently: none may bring a second one in unseen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_rig import GUARD_S, Rig, running_engine
from tests.support.ports import free_port
from tests.support.upstreams import http_upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"0\r\n\r\n" + HIDDEN
SIZE = b"%d" % len(CHUNKED)
SMALL = b"Content-Length: 5"
WHOLE = b"Content-Length: " + SIZE

HEADERS: list[bytes] = [
    # Both lengths, in every disguise of the second.
    b"Content-Length: " + SIZE + b"\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: " + SIZE,
    WHOLE + b"\r\nTransfer-Encoding : chunked",
    WHOLE + b"\r\n Transfer-Encoding: chunked",
    WHOLE + b"\r\nTransfer-Encoding: xchunked",
    WHOLE + b"\r\nTransfer-Encoding:\tchunked",
    WHOLE + b"\r\nTransfer-Encoding:\x0bchunked",
    WHOLE + b"\r\nTransfer-Encoding: chunked, identity",
    WHOLE + b"\r\nTransfer-Encoding: identity, chunked",
    WHOLE + b"\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x",
    WHOLE + b"\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked",
    WHOLE + b'\r\nTransfer-Encoding: "chunked"',
    WHOLE + b"\r\nTransfer-Encoding: 'chunked'",
    WHOLE + b"\r\nX: y\nTransfer-Encoding: chunked",
    WHOLE + b"\r\nX: y\rTransfer-Encoding: chunked",
    WHOLE + b"\r\nTransfer_Encoding: chunked",
    WHOLE + b"\r\nTransfer-Encoding\x00: chunked",
    WHOLE + b"\r\nTransfer-Encoding: \x00chunked",
    WHOLE + b"\r\nTransfer-Encoding: chunked\x00",
    WHOLE + b"\r\nTRANSFER-ENCODING: CHUNKED",
    WHOLE + b"\r\nTransfer-Encoding:\r\n chunked",
    WHOLE + b"\r\nTransfer-Encoding: chun\r\n ked",
    WHOLE + b"\r\nTransfer-Encoding: gzip, chunked",
    # Two lengths.
    SMALL + b"\r\n" + WHOLE,
    WHOLE + b"\r\n" + SMALL,
    b"Content-Length: 5, " + SIZE,
    b"Content-Length: " + SIZE + b", " + SIZE,
    # Lengths that are none.
    b"Content-Length: +5",
    b"Content-Length: -5",
    b"Content-Length: 0x5",
    b"Content-Length: 5_0",
    b"Content-Length: 5 5",
    b"Content-Length: \x0b5",
    b"Content-Length: 5\x00",
    b"Content-Length: \xb2",
    b"Content-Length:",
    b"Content-Length : 5",
    b" Content-Length: 5",
    b"Content-Length\t: 5",
    # Chunked alone: what follows the last chunk is a request of its own, and seen as one.
    b"Transfer-Encoding: chunked",
    b"X: a\r\n\r\n",
]


@pytest.fixture
def raw_requests() -> list[bytes]:
    return [
        b"POST /first HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n" + CHUNKED
        for header in HEADERS
    ]


async def exchange(port: int, raw: bytes) -> None:
    """Send and read to the end; what comes back does not matter here."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    writer.write_eof()
    with suppress(OSError):
        async with asyncio.timeout(GUARD_S):
            await reader.read()
    writer.close()


async def test_no_second_request_comes_through_unseen(
    tmp_path: Path, raw_requests: list[bytes]
) -> None:
    assert len(raw_requests) > 40
    port = free_port()
    async with running_engine(tmp_path) as rig, http_upstream() as server:
        await rig.listen(
            listen=[{"port": port, "type": "FORWARDER", "server_id": 1}],
            servers=[{"port": server.port}],
        )
        for raw in raw_requests:
            arrived = len(server.heads)
            seen = await requests_seen(rig)
            await exchange(port, raw)
            recorded = (await requests_seen(rig))[len(seen) :]
            for head in server.heads[arrived:]:
                target = head.split(b" ")[1].decode()
                assert target in recorded, f"{raw!r} brought {head!r} in unseen"
                recorded.remove(target)
                assert head.lower().count(b"content-length") <= 1, raw
                both = b"content-length" in head.lower() and b"transfer-encoding" in head.lower()
                assert not both, f"{raw!r} reached the server as {head!r}"


async def requests_seen(rig: Rig) -> list[str]:
    rows = await rig.packets()
    return [row["url"] for row in rows if not row["is_response"]]
