"""Another user of the machine as a client of the proxy: hung up on, whatever the listener is."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from pilothouse.http_token import token_at
from tests.support.engine_rig import GUARD_S, Rig, running_engine
from tests.support.ports import free_port
from tests.support.second_user import needs_root, sent_by_another_user
from tests.support.upstreams import http_upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


def asking(address: str, *headers: str) -> bytes:
    lines = [f"GET http://{address}/hello HTTP/1.1", f"Host: {address}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


async def opened(port: int, tunnel: bytes) -> bytes:
    """The head of the answer to our own user, which leaves the connection open."""
    async with asyncio.timeout(GUARD_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(tunnel)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        return head


async def refusals(rig: Rig) -> list[str]:
    """What the engine has logged of clients that it hung up on."""
    await rig.ask("state")
    logged = (event["message"] for event in rig.events if event["event"] == "log")
    return [message for message in logged if "another user" in message]


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_engine(tmp_path) as running:
        yield running


@needs_root
async def test_no_listener_serves_another_user_and_each_says_so_once(engine: Rig) -> None:
    configured, forwarder = free_port(), free_port()
    async with http_upstream() as server:
        await engine.listen(
            listen=[{"port": configured}, {"port": forwarder, "type": "FORWARDER", "server_id": 1}],
            servers=[{"port": int(server.address.rpartition(":")[2])}],
        )
        ports = [configured, forwarder, await engine.session()]
        for port in ports:
            for _ in range(2):
                answer = await asyncio.to_thread(sent_by_another_user, port, asking(server.address))
                assert answer == b""
        assert await engine.packets() == []
        for port in (configured, ports[-1]):
            async with engine.client(port) as client:
                assert (await client.get(f"http://{server.address}/hello")).status_code == 200
    assert len(await refusals(engine)) == len(ports)


@needs_root
async def test_where_all_local_users_may_come_a_proxy_asks_for_the_token(tmp_path: Path) -> None:
    file = token_at(tmp_path / "token")
    token = file.value()
    password = b64encode(f"me:{token}".encode()).decode()
    options = (f"--token-file={file.path}", "--ask-everybody")
    async with running_engine(tmp_path, *options) as rig, http_upstream() as server:
        port, forwarder = free_port(), free_port()
        await rig.listen(
            listen=[{"port": port}, {"port": forwarder, "type": "FORWARDER", "server_id": 1}],
            servers=[{"port": int(server.address.rpartition(":")[2])}],
        )
        # A mock would open any tunnel: not one of somebody who has not shown the token.
        mock = {"url": "/never", "status": 200}
        await rig.ask("mocks", session="", rules=[mock])

        async def asked(*headers: str) -> bytes:
            wire = asking(server.address, *headers)
            return await asyncio.to_thread(sent_by_another_user, port, wire)

        tunnel = f"CONNECT {server.address} HTTP/1.1\r\nHost: {server.address}\r\n\r\n".encode()
        for answer in (await asked(), await asked("Proxy-Authorization: Bearer wrong")):
            assert answer.startswith(b"HTTP/1.1 407 "), answer
            assert b"pilothouse token --http" in answer
        assert (await opened(port, tunnel)).startswith(b"HTTP/1.1 407 ")
        for good in (f"Bearer {token}", f"Basic {password}"):
            answer = await asked(f"Proxy-Authorization: {good}")
            assert answer.startswith(b"HTTP/1.1 200 "), answer
        async with rig.client(port) as client:
            assert (await client.get(f"http://{server.address}/hello")).status_code == 407
        # There is no place for a token in what a forwarder is sent.
        wire = asking(server.address, f"Proxy-Authorization: Bearer {token}")
        assert await asyncio.to_thread(sent_by_another_user, forwarder, wire) == b""
        assert token not in repr(await rig.packets())
