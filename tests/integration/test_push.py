"""Change push in both eras: coalesced, kept apart, and never a burden to the producer."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client import Client

from tests.support.hearing import Heard
from tests.support.servers import Server, http_server, stdio
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

pytestmark = pytest.mark.anyio

COUNTER = "test://counter"
GUARD_S = 30
type Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(params=["stdio", "http"])
def connect(request: pytest.FixtureRequest, server: Server) -> Connect:
    def client(**options: Any) -> AbstractAsyncContextManager[Client]:
        if request.param == "stdio":
            return stdio("--profile", "full", **options)
        return Client(f"{server.url}/mcp", **options)

    return client


async def value_of(client: Client) -> int:
    content = (await client.read_resource(COUNTER)).contents[0]
    return int(json.loads(content.text)["value"])  # type: ignore[union-attr]


async def test_a_2025_subscriber_hears_of_changes_coalesced(connect: Connect) -> None:
    heard = Heard()
    async with connect(mode="legacy", message_handler=heard) as client:
        await client.subscribe_resource(COUNTER)
        await client.subscribe_resource(COUNTER)
        started = time.monotonic()
        await client.call_tool("add", {"count": 1000})
        await heard.at_least(1)
        await client.call_tool("add", {"count": 1})
        await heard.at_least(2)
        took = time.monotonic() - started
        # The second batch may be told in one or two more; never one for each of the 1001.
        assert len(heard.uris) <= 2 + took * 10
        assert set(heard.uris) == {COUNTER}
        assert await value_of(client) == 1001


async def test_after_unsubscribe_nothing_is_told(connect: Connect) -> None:
    heard = Heard()
    async with connect(mode="legacy", message_handler=heard) as client:
        await client.subscribe_resource(COUNTER)
        await client.subscribe_resource("pilothouse://timeline")
        await client.unsubscribe_resource(COUNTER)
        await client.call_tool("add", {"count": 5})
        # The timeline's own push proves that pushes work and came after the unsubscribed change.
        await heard.at_least(1)
        assert COUNTER not in heard.uris


async def test_a_2026_listener_hears_of_changes(connect: Connect) -> None:
    async with connect(mode="auto") as client:
        async with client.listen(resource_subscriptions=[COUNTER]) as subscription:
            assert list(subscription.honored.resource_subscriptions or ()) == [COUNTER]
            await client.call_tool("add", {"count": 500})
            with anyio.fail_after(GUARD_S):
                event = await anext(aiter(subscription))
            assert str(getattr(event, "uri", "")) == COUNTER
        assert not (await client.call_tool("status", {})).is_error


async def test_one_session_does_not_hear_of_anothers_changes(server: Server) -> None:
    mine, other = Heard(), Heard()
    async with (
        Client(f"{server.url}/mcp", mode="legacy", message_handler=mine) as first,
        Client(f"{server.url}/mcp", mode="legacy", message_handler=other) as second,
    ):
        await first.subscribe_resource(COUNTER)
        await second.subscribe_resource(COUNTER)
        await first.call_tool("add", {"count": 3})
        await mine.at_least(1)
        assert await value_of(second) == 0
        await second.call_tool("add", {"count": 1})
        await other.at_least(1)
        assert len(other.uris) == 1


def _open_and_stop_reading(server: Server) -> socket.socket:
    """A 2025 client that subscribes, opens its event stream and never reads from it again."""

    def post(message: dict[str, Any], session: str = "") -> tuple[str, bytes]:
        body = json.dumps(message).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"{session}Content-Length: {len(body)}\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", server.port), timeout=GUARD_S) as raw:
            raw.sendall(head.encode() + body)
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        return answer.decode(), answer

    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "deaf", "version": "1"},
    }
    text, _ = post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    sid = next(line for line in text.splitlines() if line.lower().startswith("mcp-session-id:"))
    session = f"{sid}\r\n"
    post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
    subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe"}
    post({**subscribe, "params": {"uri": COUNTER}}, session)
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", server.port))
    get = (
        f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAccept: text/event-stream\r\n"
        f"{session}\r\n"
    )
    deaf.sendall(get.encode())
    call = {"name": "add", "arguments": {"count": 200_000}}
    text, _ = post({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call}, session)
    assert '"value":200000' in text.replace(" ", "")
    return deaf


async def test_a_subscriber_that_stops_reading_slows_nobody() -> None:
    with http_server("--profile", "full") as server:
        deaf = await anyio.to_thread.run_sync(_open_and_stop_reading, server)
        with deaf:
            async with Client(f"{server.url}/mcp", mode="legacy") as client:
                result = await client.call_tool("add", {"count": 100_000})
            # A guard against a producer that waits, far above the 20 ms that it takes.
            assert result.structured_content["seconds"] < 5


async def test_a_closed_client_leaves_no_subscriber(server: Server) -> None:
    import httpx

    async def subscribers() -> float:
        async with httpx.AsyncClient() as http:
            text = (await http.get(f"{server.url}/metrics")).text
        line = next(x for x in text.splitlines() if x.startswith("pilothouse_subscribers"))
        return float(line.split()[1])

    before = await subscribers()
    async with Client(f"{server.url}/mcp", mode="legacy") as client:
        await client.subscribe_resource(COUNTER)
        assert await subscribers() == before + 1

    async def is_as_before() -> bool:
        return await subscribers() == before

    await until(is_as_before)
