"""Two listeners, one Redis: a session is served by the same worker whichever its client asks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.net.http1 import parse_request_head
from pilothouse.hub.http.forward import PEER
from pilothouse.hub.model import Key
from pilothouse.hub.notices import RESET
from pilothouse.hub.sessions import peers
from pilothouse.hub.sessions.redis_leases import GatewayRecord
from pilothouse.machine.child import start_child
from tests.support.listener_rig import (
    Raw,
    call,
    hello,
    listen,
    modern,
    own_workers,
    request,
    template_of,
)
from tests.support.redis import redis_server
from tests.support.sharing import shared_listener
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.ports import Denied
    from pilothouse.machine.child import Child
    from tests.support.listener_rig import Crew, Got, Rig
    from tests.support.redis import RedisServer
    from tests.support.sharing import Gateway

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
LEASE_S = 10.0
"""Of gateways that are processes: so long that none loses it because the machine is busy."""
LISTEN = ("Accept: text/event-stream",)


class Two:
    """Gateways a and b, each with its own workers."""

    def __init__(self) -> None:
        self.redis: RedisServer
        self.rigs: list[Rig] = []
        self.gates: list[Gateway] = []
        self.crews: list[Crew] = []


@asynccontextmanager
async def two(folder: Path, sockets: Path, **options: Any) -> AsyncIterator[Two]:
    made = Two()
    async with AsyncExitStack() as stack:
        made.redis = await stack.enter_async_context(redis_server(folder))
        for name in "ab":
            (sockets / name).mkdir()
            crew = await stack.enter_async_context(own_workers(sockets / name))
            template = await template_of(crew)
            opened = shared_listener(made.redis.url, crew, template, **options)
            rig, gate = await stack.enter_async_context(opened)
            made.crews.append(crew)
            made.rigs.append(rig)
            made.gates.append(gate)
        yield made


async def added(client: Raw, session: str) -> tuple[int, bool]:
    """The value of the session's counter after one more, and whether a reset was told."""
    client.post(call("add", count=1), f"Mcp-Session-Id: {session}")
    got = await client.answer()
    assert got.status == 200, got
    return value_of(got)


def value_of(got: Got) -> tuple[int, bool]:
    result = got.json["result"]
    texts = [block.get("text") for block in result["content"]]
    return result["structuredContent"]["value"], RESET in texts


async def test_both_listeners_lead_to_the_same_worker(tmp_path: Path, sockets: Path) -> None:
    async with two(tmp_path, sockets) as both:
        a, b = [await rig.connect() for rig in both.rigs]
        session = await a.initialize()
        told = [await added(client, session) for client in (a, b, a, b)]
        assert told == [(1, False), (2, False), (3, False), (4, False)]
        assert [crew.started for crew in both.crews] == [[Key("session", session)], []]
        b.post(request("tools/list"), f"Mcp-Session-Id: {session}")
        got = await b.answer()
        assert got.head.first("mcp-session-id") == session
        assert got.json["result"]["tools"]
        b.request("DELETE", "/mcp", f"Mcp-Session-Id: {session}")
        assert (await b.answer("DELETE")).status == 200
        a.post(request("ping"), f"Mcp-Session-Id: {session}")
        assert (await a.answer()).status == 404
        b.post(request("ping"), f"Mcp-Session-Id: {session}")
        assert (await b.answer()).status == 404


async def test_what_nobody_asked_for_is_heard_at_the_other_listener(
    tmp_path: Path, sockets: Path
) -> None:
    async with two(tmp_path, sockets) as both:
        a, b = [await rig.connect() for rig in both.rigs]
        session = await a.initialize()
        b.request("GET", "/mcp", *LISTEN, f"Mcp-Session-Id: {session}")
        assert (await b.head()).status == 200
        a.post(
            request("resources/subscribe", {"uri": "test://counter"}),
            f"Mcp-Session-Id: {session}",
        )
        assert (await a.answer()).status == 200
        await added(a, session)
        assert b"notifications/resources/updated" in await b.until(b"test://counter")


async def test_a_key_of_the_2026_era_is_served_where_it_lives(
    tmp_path: Path, sockets: Path
) -> None:
    async with two(tmp_path, sockets) as both:
        clients = [await rig.connect() for rig in both.rigs]
        values = []
        for client in [*clients, *clients]:
            message, fields = modern(call("add", count=1))
            client.post(message, *fields, path="/mcp/mine")
            values.append(value_of(await client.answer()))
        assert values == [(1, False), (2, False), (3, False), (4, False)]
        assert [len(crew.started) for crew in both.crews] == [1, 0]


async def test_a_principal_is_known_at_the_other_listener_and_nobody_elses_session_is(
    tmp_path: Path, sockets: Path
) -> None:
    async def authenticate(head: RequestHead) -> str | Denied:
        return head.one("x-who") or "nobody"

    async with two(tmp_path, sockets, authenticate=authenticate) as both:
        a, b = [await rig.connect() for rig in both.rigs]
        a.post(hello(), "X-Who: ann")
        session = (await a.answer()).head.first("mcp-session-id")
        for who, status in (("ann", 200), ("bob", 404)):
            b.post(call("add", count=1), f"Mcp-Session-Id: {session}", f"X-Who: {who}")
            assert (await b.answer()).status == status


async def test_nobody_else_can_claim_to_be_a_gateway(tmp_path: Path, sockets: Path) -> None:
    async with two(tmp_path, sockets) as both:
        a = await both.rigs[0].connect()
        session = await a.initialize()
        own, other = (gate.lease.gate for gate in both.gates)
        head = parse_request_head(f"DELETE /mcp HTTP/1.1\r\nMcp-Session-Id: {session}".encode())

        def claim(gate: GatewayRecord, at: float) -> str:
            return peers.sign(gate, head, b"", "", at)

        now = time.time()
        forged = [
            "x",
            claim(GatewayRecord(own.id, own.url, "guessed"), now),
            claim(other, now),
            claim(own, now - 120),
        ]
        for header in forged:
            a.request("DELETE", "/mcp", f"Mcp-Session-Id: {session}", f"{PEER}: {header}")
            assert (await a.answer("DELETE")).status == 421
        # Not with the right signature either for what is no MCP: that was never passed on.
        page = parse_request_head(b"GET / HTTP/1.1")
        signed = peers.sign(own, page, b"", "", now)
        a.request("GET", "/", f"{PEER}: {signed}")
        assert (await a.answer("GET")).status == 421
        a.request(
            "DELETE",
            "/mcp",
            "Host: evil.example",  # the first gateway has judged it
            f"Mcp-Session-Id: {session}",
            f"{PEER}: {claim(own, now)}",
        )
        assert (await a.answer("DELETE")).status == 200


async def test_the_second_gateway_never_passes_on_again(tmp_path: Path, sockets: Path) -> None:
    async with two(tmp_path, sockets) as both:
        a, b = [await rig.connect() for rig in both.rigs]
        session = await a.initialize()
        gate = both.gates[1].lease.gate
        head = parse_request_head(f"DELETE /mcp HTTP/1.1\r\nMcp-Session-Id: {session}".encode())
        signed = peers.sign(gate, head, b"", "", time.time())
        fields = (f"Mcp-Session-Id: {session}", f"{PEER}: {signed}")
        b.request("DELETE", "/mcp", *fields)
        assert (await b.answer("DELETE")).status == 421
        assert await added(b, session) == (1, False)


async def test_the_peers_header_means_nothing_to_a_hub_alone(sockets: Path) -> None:
    async with own_workers(sockets) as crew, listen(crew, await template_of(crew)) as rig:
        client = await rig.connect()
        client.post(hello(), f"{PEER}: x")
        assert (await client.answer()).status == 200


async def test_without_redis_a_new_session_is_told_when_to_come_again(
    tmp_path: Path, sockets: Path
) -> None:
    async with two(tmp_path, sockets, lease_s=30.0) as both:
        a, b = [await rig.connect() for rig in both.rigs]
        session = await a.initialize()
        assert await added(a, session) == (1, False)
        await both.redis.kill()
        await until(lambda: "registry_lost" in str(both.gates[0].reported))
        assert await added(a, session) == (2, False)
        for client in (a, b):
            client.post(hello())
            got = await client.answer()
            assert (got.status, got.head.first("retry-after")) == (503, "2")
            assert "registry" in got.json["error"]["message"]
        await both.redis.start()
        await until(lambda: "registry_back" in str(both.gates[0].reported))
        await until(lambda: "registry_back" in str(both.gates[1].reported))
        assert await added(b, session) == (3, False)
        assert await b.initialize()


# As processes


async def gate_process(redis: RedisServer, folder: Path) -> tuple[int, Child]:
    """A gateway's port, and its process."""
    folder.mkdir()  # noqa: ASYNC240
    argv = [sys.executable, "-m", "tests.support.sharing", redis.url, str(LEASE_S), str(folder)]
    child = await start_child(argv, cwd=ROOT, env=os.environ, stdout="pipe", stderr=2)
    assert child.stdout is not None
    async with asyncio.timeout(60):
        return int(await child.stdout.readline()), child


@asynccontextmanager
async def two_processes(
    folder: Path, sockets: Path
) -> AsyncIterator[tuple[tuple[int, int], list[Child]]]:
    """Two gateways' ports, and their processes."""
    async with redis_server(folder) as redis:
        starting = [gate_process(redis, sockets / name) for name in "ab"]
        started = await asyncio.gather(*starting)
        try:
            yield (started[0][0], started[1][0]), [child for _, child in started]
        finally:
            for _, child in started:
                await child.stop(0)


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    client = Raw(reader, writer, port)
    try:
        yield client
    finally:
        client.abort()


async def test_a_gateway_that_was_stopped_does_not_serve_with_its_old_worker(
    tmp_path: Path, sockets: Path
) -> None:
    async with (
        two_processes(tmp_path, sockets) as (ports, processes),
        client_of(ports[0]) as a,
        client_of(ports[1]) as b,
    ):
        session = await a.initialize()
        assert [await added(a, session), await added(b, session)] == [(1, False), (2, False)]
        os.kill(processes[0].pid, signal.SIGSTOP)
        try:
            # Nobody can know whether the one that was stopped has begun with this call.
            b.post(call("add", count=1), f"Mcp-Session-Id: {session}")
            assert (await b.answer()).status == 502
            assert await added(b, session) == (1, True)
        finally:
            os.kill(processes[0].pid, signal.SIGCONT)
        told = [await added(client, session) for client in (a, b, a)]
        assert told == [(2, False), (3, False), (4, False)]


async def test_the_session_of_a_gateway_that_was_killed_goes_on_at_another(
    tmp_path: Path, sockets: Path
) -> None:
    async with (
        two_processes(tmp_path, sockets) as (ports, processes),
        client_of(ports[0]) as a,
        client_of(ports[1]) as b,
        client_of(ports[1]) as listener,
    ):
        session = await a.initialize()
        assert await added(b, session) == (1, False)
        listener.request("GET", "/mcp", *LISTEN, f"Mcp-Session-Id: {session}")
        assert (await listener.head()).status == 200
        os.kill(processes[0].pid, signal.SIGKILL)
        await processes[0].wait_gone()
        # The call waits until the lease of the dead one has run out.
        assert await added(b, session) == (1, True)
        assert await added(b, session) == (2, False)
