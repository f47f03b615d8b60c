"""Another user of the machine as a client of the proxy: hung up on, whatever the listener is."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.net.proxy_auth import credentials
from pilothouse.machine.net.http_token import token_at
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


ASKING_ALL = "--ask-everybody"


def through(address: str, auth: bytes, *, tunnel: bool) -> bytes:
    target = address if tunnel else f"http://{address}/hello"
    method = "CONNECT" if tunnel else "GET"
    head = f"{method} {target} HTTP/1.1\r\nHost: {address}\r\n".encode()
    return head + b"Proxy-Authorization: " + auth + b"\r\n\r\n"


@pytest.mark.parametrize("tunnel", [False, True])
async def test_bytes_that_are_no_text_are_no_token(tmp_path: Path, tunnel: bool) -> None:
    file = token_at(tmp_path / "token")
    password = b64encode(f"me:{file.value()}".encode())
    options = (f"--token-file={file.path}", ASKING_ALL)
    async with running_engine(tmp_path, *options) as rig, http_upstream() as server:
        port = free_port()
        await rig.listen(listen=[{"port": port}])
        for wrong in (b"Bearer \xff", b"Basic \xff", b"Basic " + password + b"\xff", b"\xff"):
            answer = await opened(port, through(server.address, wrong, tunnel=tunnel))
            assert answer.startswith(b"HTTP/1.1 407 "), (wrong, answer)
        assert server.heads == []
        answer = await opened(port, through(server.address, b"Basic " + password, tunnel=tunnel))
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("tunnel", [False, True])
async def test_where_the_token_cannot_be_read_nobody_is_let_through(
    tmp_path: Path, tunnel: bool
) -> None:
    unreadable = tmp_path / "token"
    unreadable.mkdir()
    options = (f"--token-file={unreadable}", ASKING_ALL)
    async with running_engine(tmp_path, *options) as rig, http_upstream() as server:
        port = free_port()
        await rig.listen(listen=[{"port": port}])
        answer = await opened(port, through(server.address, b"Bearer any", tunnel=tunnel))
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert server.heads == []
        await rig.ask("state")
        logged = [event["message"] for event in rig.events if event["event"] == "log"]
        assert any("IsADirectoryError" in one for one in logged)  # so it was raised in the check


async def test_a_browsers_password_goes_to_no_server(engine: Rig) -> None:
    """WebKit shows it again within its tunnel."""
    own = credentials("the-secret-of-a-session").encode()
    async with http_upstream() as server:
        port = await engine.session()
        plain = through(server.address, own, tunnel=False)
        assert (await opened(port, plain)).startswith(b"HTTP/1.1 200 ")
        async with asyncio.timeout(GUARD_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(through(server.address, own, tunnel=True))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            inner = f"GET /hello HTTP/1.1\r\nHost: {server.address}\r\n".encode()
            writer.write(inner + b"Proxy-Authorization: " + own + b"\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.close()
        assert len(server.heads) == 2
        assert b"proxy-authorization" not in b"".join(server.heads).lower()


async def test_the_token_goes_no_further_in_a_tunnel_either_whatever_name_stands_beside_it(
    tmp_path: Path,
) -> None:
    file = token_at(tmp_path / "token")
    ours, theirs = b64encode(f"me:{file.value()}".encode()), b64encode(b"me:of-the-server")
    options = (f"--token-file={file.path}",)
    async with running_engine(tmp_path, *options) as rig, http_upstream() as server:
        port = free_port()
        await rig.listen(listen=[{"port": port}])
        for shown in (ours, theirs):
            async with asyncio.timeout(GUARD_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(through(server.address, b"Basic " + ours, tunnel=True))
                await reader.readuntil(b"\r\n\r\n")
                inner = f"GET /hello HTTP/1.1\r\nHost: {server.address}\r\n".encode()
                writer.write(inner + b"Proxy-Authorization: Basic " + shown + b"\r\n\r\n")
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
                writer.close()
        assert ours not in b"".join(server.heads)
        assert theirs in b"".join(server.heads)


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
async def test_what_our_own_user_shows_the_proxy_goes_to_no_server_and_into_no_history(
    engine: Rig, scheme: str
) -> None:
    """As with HTTP_PROXY=http://x:TOKEN@127.0.0.1:PORT."""
    shown = scheme.encode() + b" " + b64encode(b"x:the-token-of-the-home")
    async with http_upstream() as server, http_upstream() as chained:
        straight, through_another = free_port(), free_port()
        proxy = {"port": int(chained.address.rpartition(":")[2]), "http_proxy": True}
        await engine.listen(
            listen=[{"port": straight}, {"port": through_another, "server_id": 1}], servers=[proxy]
        )
        for port in (straight, through_another):
            wire = through(server.address, shown, tunnel=False)
            assert (await opened(port, wire)).startswith(b"HTTP/1.1 200 ")
        # A tunnel that is refused is recorded, unlike one that is opened.
        refused = through(f"127.0.0.1:{straight}", shown, tunnel=True)
        assert not (await opened(straight, refused)).startswith(b"HTTP/1.1 200 ")
        assert len(server.heads) == len(chained.heads) == 1
        assert b"proxy-authorization" not in b"".join(server.heads + chained.heads).lower()
    packets = repr(await engine.packets())
    assert "/hello" in packets
    assert "CONNECT" in packets
    assert shown.decode() not in packets


async def test_what_is_shown_within_a_tunnel_or_to_a_forwarder_is_the_servers(engine: Rig) -> None:
    async with http_upstream() as server:
        port, forwarder = free_port(), free_port()
        await engine.listen(
            listen=[{"port": port}, {"port": forwarder, "type": "FORWARDER", "server_id": 1}],
            servers=[{"port": int(server.address.rpartition(":")[2])}],
        )
        field = "Proxy-Authorization: Basic eDp5"
        async with asyncio.timeout(GUARD_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(through(server.address, b"Basic b3V0ZXI6", tunnel=True))
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.write(
                f"GET /hello HTTP/1.1\r\nHost: {server.address}\r\n{field}\r\n\r\n".encode()
            )
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            writer.close()
        wire = f"GET /hello HTTP/1.1\r\nHost: {server.address}\r\n{field}\r\n\r\n".encode()
        assert (await opened(forwarder, wire)).startswith(b"HTTP/1.1 200 ")
        assert [head.count(field.encode()) for head in server.heads] == [1, 1]
