"""Parts of HTTP/1 that are seldom met: trailers, interim responses, raw bytes in an address and
bodies that are cut, through the real proxy."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_rig import GUARD_S, Rig
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
TRAILED = b"5\r\nhello\r\n0\r\nX-Sum: 42\r\nx-more: a b\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
async def port(rig: Rig) -> int:
    return await rig.session("seldom")


@asynccontextmanager
async def answering(
    answer: bytes, until: bytes = b"\r\n\r\n"
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that gives every request the same answer; its port, and what it was sent."""
    seen: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                seen.append(await reader.readuntil(until))
                writer.write(answer)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


async def talk(port: int, *requests: bytes, end: bytes) -> list[bytes]:
    """Each request on one connection to the proxy, and its response up to how it must end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(GUARD_S):
            answers = []
            for request in requests:
                writer.write(request)
                answers.append(await reader.readuntil(end))
            return answers
    finally:
        writer.close()


async def test_a_response_keeps_its_trailers_and_the_connection_goes_on(
    rig: Rig, port: int
) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n" + CHUNKED + TRAILED) as (server, _):
        ask = f"GET http://127.0.0.1:{server}/trailed HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answers = await talk(port, ask, ask, end=b"x-more: a b\r\n\r\n")
        _, response = await rig.pair("/trailed")
    assert all(b"5\r\nhello\r\n0\r\nX-Sum: 42\r\n" in answer for answer in answers)
    assert (response["body"], response["trailers"]) == (b"hello", b"X-Sum: 42\r\nx-more: a b\r\n")


async def test_a_request_keeps_its_trailers(rig: Rig, port: int) -> None:
    async with answering(OK, until=b"x-more: a b\r\n\r\n") as (server, seen):
        head = f"POST http://127.0.0.1:{server}/trailing HTTP/1.1\r\nHost: x\r\n".encode()
        await talk(port, head + CHUNKED + TRAILED, end=b"ok")
        request, _ = await rig.pair("/trailing")
    assert seen[0].endswith(TRAILED)
    assert (request["body"], request["trailers"]) == (b"hello", b"X-Sum: 42\r\nx-more: a b\r\n")


@pytest.mark.parametrize("interim", [b"100 Continue", b"103 Early Hints"])
async def test_an_interim_response_is_not_taken_for_the_answer(
    rig: Rig, port: int, interim: bytes
) -> None:
    early = b"HTTP/1.1 " + interim + b"\r\nLink: </a.css>\r\n\r\n"
    path = f"/early/{interim[:3].decode()}"
    async with answering(early * 2 + OK) as (server, _):
        ask = f"GET http://127.0.0.1:{server}{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answers = await talk(port, ask, ask, end=b"ok")
        _, response = await rig.pair(path)
    assert all(answer.startswith(b"HTTP/1.1 200 OK") for answer in answers)
    assert response["status"] == 200


@pytest.mark.parametrize("path", ["/caf\u00e9/\u30c6?q=\u00e9", "/caf\udce9?q=\udcff"])
async def test_a_path_that_is_not_ascii_reaches_its_server_as_it_was_sent(
    rig: Rig, port: int, path: str
) -> None:
    sent = path.encode("utf-8", "surrogateescape")
    async with answering(OK) as (server, seen):
        ask = b"GET http://127.0.0.1:%d%b HTTP/1.1\r\nHost: x\r\n\r\n" % (server, sent)
        (answer,) = await talk(port, ask, end=b"ok")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert seen[0].startswith(b"GET %b HTTP/1.1\r\n" % sent)
    assert any(sent in row["head"] for row in await rig.packets())


async def test_what_is_no_request_leaves_a_word_in_the_log(rig: Rig, port: int) -> None:
    (answer,) = await talk(port, b"HELO proxy.example\r\n\r\n", end=b"</html>")
    assert answer.startswith(b"HTTP/1.1 400")
    told = await rig.event(
        lambda event: event["event"] == "log" and "HELO proxy.example" in event["message"]
    )
    assert told["level"] == "warn"


async def test_a_response_that_is_cut_keeps_what_came_of_it(rig: Rig, port: int) -> None:
    async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/cut"
        await talk(port, f"GET {address} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), end=b"</html>")
        _, response = await rig.pair("/cut")
    assert (response["body"], response["body_length"]) == (b"only this", 9)
    assert "received 9 bytes, expected 1000" in response["error"]


async def test_a_request_that_is_cut_keeps_what_came_of_it(rig: Rig, port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST http://127.0.0.1:9/left HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    writer.write(head + b"and then it")
    # The end of what is sent; a client that is gone before it was looked at is nobody's.
    writer.write_eof()

    async def is_recorded() -> bool:
        return any(row["url"] == "/left" for row in await rig.packets())

    await until(is_recorded)
    writer.close()
    left = [row["body"] for row in await rig.packets() if row["url"] == "/left"]
    assert left == [b"and then it"]
