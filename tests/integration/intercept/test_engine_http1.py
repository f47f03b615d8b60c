"""Parts of HTTP/1 that are seldom met: trailers and interim responses, through the real proxy."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_rig import GUARD_S, Rig

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
