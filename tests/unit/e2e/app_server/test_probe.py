"""What a server's output says about its address, and when an answer counts."""

from __future__ import annotations

import asyncio
import math
import socket
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest

from pilothouse.e2e.app_server import probe
from pilothouse.e2e.app_server.probe import AppAddress, announced, patience
from pilothouse.machine.net.local_ports import free_port, is_taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  ➜  Local:   http://localhost:5173/", AppAddress(5173, main=True)),
        ("  ➜  Local:   http://localhost:5173/shop/", AppAddress(5173, path="/shop/", main=True)),
        ("   - Local:        https://localhost:3000", AppAddress(3000, "https", main=True)),
        ("┃ Local    http://localhost:4321/", AppAddress(4321, main=True)),
        (" * Running on http://127.0.0.1:5000", AppAddress(5000)),
        ("Starting development server at http://127.0.0.1:8000/", AppAddress(8000)),
        ("INFO: Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)", AppAddress(8000)),
        ("Serving HTTP on 0.0.0.0 port 8000 (http://0.0.0.0:8000/) ...", AppAddress(8000)),
        ("Serving HTTP on :: port 8000 (http://[::]:8000/) ...", AppAddress(8000)),
        ("docs are at http://localhost:8000/docs", AppAddress(8000)),
        ("listening on port 3000", AppAddress(3000)),
        ("Server listening on port: 3000", AppAddress(3000)),
        ("Example app listening on PORT 3000!", AppAddress(3000)),
        ("Listening on :8080", AppAddress(8080)),
        ("listening at [::]:4000", AppAddress(4000)),
        ("App started on 0.0.0.0:4000", AppAddress(4000)),
        ("Listening at: http://127.0.0.1:8000 (4711)", AppAddress(8000)),
        ("  ➜  Network: http://192.168.1.5:5173/", None),
        ("GET http://example.com:8080/ 200", None),
        ("compiled in 3000 ms", None),
        ("http://localhost:99999/", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_address_is_read_from_the_output(line: str, expected: AppAddress | None) -> None:
    assert announced(line) == expected


def test_an_url_names_localhost_and_keeps_a_base_path() -> None:
    assert AppAddress(5173).url == "http://localhost:5173"
    assert AppAddress(5173, "https", "/shop/").url == "https://localhost:5173/shop/"


@pytest.mark.parametrize(
    ("status", "seconds"),
    [(200, 0), (204, 0), (302, 0), (400, 0), (401, 0), (403, 0), (404, 1), (405, 1), (426, 1),
     (500, 5), (502, math.inf), (503, math.inf)],
)  # fmt: skip
def test_the_patience_depends_on_the_status(status: int, seconds: float) -> None:
    assert patience(status) == seconds


async def answering(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    host: str = "127.0.0.1",
) -> asyncio.Server:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        finally:
            writer.transport.abort()

    return await asyncio.start_server(one, host, 0)


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", 200),
        (b"HTTP/1.0 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n", 302),
        (b"HTTP/1.1 503\r\n", 503),
        (b"SSH-2.0-OpenSSH_9\r\n", None),
        (b"HTTP/1.1 999 x\r\n", None),
        (b"", None),
        (b"x" * 200_000, None),
    ],
)
async def test_only_an_http_status_counts_as_an_answer(said: bytes, status: int | None) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await answering(answer) as server:
        assert await probe.status_of(AppAddress(port_of(server)), 10) == status
        # The name is looked up by nobody: it exists nowhere.
        url = f"http://app.invalid:{port_of(server)}/"
        assert await probe.status_of_url(url, [IPv4Address("127.0.0.1")], 10) == status
        assert await probe.status_of_url(url, [], 10) is None


async def test_a_server_that_says_nothing_costs_no_more_than_the_time_given() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with await answering(answer) as server:
        async with asyncio.timeout(30):
            assert await probe.status_of(AppAddress(port_of(server)), 0.1) is None


async def test_a_server_on_the_other_loopback_address_is_found() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await reader.read()

    async with await answering(answer, "::1") as server:
        assert await probe.status_of(AppAddress(port_of(server)), 10) == 200


async def test_nobody_there_is_no_answer() -> None:
    assert await probe.status_of(AppAddress(free_port()), 10) is None


@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")],
)
def test_a_port_that_somebody_holds_is_taken(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as listening:
        listening.bind((host, 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert is_taken(port)
        assert "pid" in probe.holder_of(port)
    assert not is_taken(port)
