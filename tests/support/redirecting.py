"""Connections redirected by the kernel, as for a transparent proxy, in a network of their own.

`python -m tests.support.redirecting FOLDER` runs a transparent proxy there, sends it a plain and a
TLS request that are meant for somebody else, and prints as JSON what came of them. It exits with
`CANNOT` where the system does not let it: it takes Linux, its administrator and nftables.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from tests.support.engine_rig import Rig

CANNOT = 77
CLIENT = "127.0.0.3"
"""Only what comes from here is redirected, or the proxy would be sent back to itself."""

_NFTABLES = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 3, 6
_REQUEST, _ACK, _CREATE, _APPEND = 1, 4, 0x400, 0x800
_NESTED = 0x8000
_LOCAL_OUT, _NAT_PRIORITY = 3, -100
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2


def own_network() -> None:
    """Leave the machine's network for an empty one with a loopback device; raises OSError."""
    os.unshare(os.CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sH14x", b"lo", 1)
        fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


def redirect(ports: list[int], to: int) -> None:
    """What `CLIENT` sends to these ports comes to another one; raises OSError."""
    hook = _nested(4, _number(1, _LOCAL_OUT) + _number(2, _NAT_PRIORITY))
    messages = [
        (_NEW_TABLE, _CREATE, _text(1, "trial")),
        (_NEW_CHAIN, _CREATE, _text(1, "trial") + _text(3, "out") + hook + _text(7, "nat")),
    ]
    for port in ports:
        expressions = (
            _loaded(_NETWORK_HEADER, 12, socket.inet_aton(CLIENT))
            + _loaded(_TRANSPORT_HEADER, 2, struct.pack("!H", port))
            + _expression("immediate", _number(1, 1) + _value(2, struct.pack("!H", to)))
            + _expression("redir", _number(1, 1))
        )
        rule = _text(1, "trial") + _text(2, "out") + _nested(4, expressions)
        messages.append((_NEW_RULE, _CREATE | _APPEND, rule))
    _commit(messages)


def _loaded(base: int, offset: int, wanted: bytes) -> bytes:
    """The packet has these bytes at that place of a header."""
    place = _number(1, 1) + _number(2, base) + _number(3, offset) + _number(4, len(wanted))
    is_equal = _number(1, 1) + _number(2, 0) + _value(3, wanted)
    return _expression("payload", place) + _expression("cmp", is_equal)


def _expression(name: str, data: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, data))


def _value(kind: int, data: bytes) -> bytes:
    return _nested(kind, _attribute(1, data))


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!i", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _nested(kind: int, inner: bytes) -> bytes:
    return _attribute(kind | _NESTED, inner)


def _attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def _message(kind: int, flags: int, number: int, family: int, resource: int, data: bytes) -> bytes:
    body = struct.pack("!BBH", family, 0, resource) + data
    return struct.pack("IHHII", 16 + len(body), kind, flags, number, 0) + body


def _commit(messages: list[tuple[int, int, bytes]]) -> None:
    batch = _message(_BATCH_BEGIN, _REQUEST, 0, 0, _NFTABLES, b"")
    for number, (kind, flags, data) in enumerate(messages, 1):
        flags |= _REQUEST | _ACK
        batch += _message(_NFTABLES << 8 | kind, flags, number, socket.AF_INET, 0, data)
    batch += _message(_BATCH_END, _REQUEST, 0, 0, _NFTABLES, b"")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:
        netlink.settimeout(30)
        netlink.sendto(batch, (0, 0))
        for _ in messages:
            answer = netlink.recv(65536)
            (error,) = struct.unpack_from("i", answer, 16)
            if error:
                raise OSError(-error, os.strerror(-error))


async def ask(port: int, path: str, trust: ssl.SSLContext | None) -> str:
    """The answer of a server that the client believes to talk to."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1",
        port,
        local_addr=(CLIENT, 0),
        ssl=trust,
        server_hostname="localhost" if trust else None,
    )
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return answer.decode("latin-1")


async def trial(folder: Path) -> dict[str, Any]:
    from tests.support.engine_rig import running_engine
    from tests.support.ports import free_port
    from tests.support.upstreams import authority, http_upstream

    ca, proxy = authority(folder), free_port()
    async with (
        http_upstream() as plain,
        http_upstream(ca.context()) as secure,
        running_engine(folder / "engine", "--upstream-ca", str(ca.ca_file)) as rig,
    ):
        redirect([plain.port, secure.port], proxy)
        kinds = ("HTTP_TRANSPARENT_PROXY", "SSL_TRANSPARENT_PROXY")
        answers = []
        for kind, server, trust in zip(kinds, (plain, secure), (None, rig.trust()), strict=True):
            await rig.listen(listen=[{"port": proxy, "type": kind}])
            answers.append(await ask(server.port, "/hello", trust))
        return {"answers": answers, "ports": [plain.port, secure.port], "rows": await _rows(rig)}


async def _rows(rig: Rig) -> list[list[Any]]:
    columns = ("scheme", "server_port", "url", "status")
    return [[row[name] for name in columns] for row in await rig.packets()]


def main() -> None:
    try:
        own_network()
        redirect([1], 2)
    except (AttributeError, OSError) as error:
        sys.stderr.write(str(error))
        sys.exit(CANNOT)
    sys.stdout.write(json.dumps(asyncio.run(trial(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
