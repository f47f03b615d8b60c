"""The filtering proxy judges every request, and reaches only what it judged."""

from __future__ import annotations

import asyncio
import logging
import socket
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.net.url_policy import Policy
from pilothouse.e2e.egress_proxy import proxy as proxy_module
from pilothouse.e2e.egress_proxy.app_addresses import resolve_name
from pilothouse.e2e.egress_proxy.proxy import open_proxy
from tests.support.second_user import needs_root, sent_by_another_user
from tests.support.until import until
from tests.unit.e2e.proxy_rig import DEVELOPMENT, GUARD_S, OK, PRODUCTION, Rig, head, rig, upstream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.core.net.url_policy import Address

pytestmark = pytest.mark.anyio


async def test_a_request_reaches_the_server_without_what_was_for_the_proxy() -> None:
    async with upstream(OK) as server, rig() as it:
        url = f"http://localhost:{server.port}/path?q"
        answer = await it.get(url, "Host: other", "Proxy-Authorization: Basic x", "Accept: */*")
        assert answer == OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        assert (
            bytes(server.seen)
            == (
                f"GET /path?q HTTP/1.1\r\nHost: localhost:{server.port}\r\nAccept: */*\r\n"
                "Connection: close\r\n\r\n"
            ).encode()
        )
        assert not it.noted


async def test_a_blocked_request_is_answered_noted_and_found() -> None:
    async with upstream(OK) as server, rig(PRODUCTION) as it:
        url = f"http://127.1:{server.port}/secret"
        answer = await it.get(url)
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"\r\nX-Pilothouse-Blocked: loopback\r\n" in answer
        assert b"\r\nConnection: close\r\n" in answer
        assert b"PILOTHOUSE_ENV=development" in answer
        (refusal,) = it.noted
        assert (refusal.method, refusal.host, refusal.port) == ("GET", "127.0.0.1", server.port)
        assert (refusal.rule, refusal.url, refusal.at) == ("loopback", url, 1234.5)
        assert it.proxy.find(f"http://0x7f000001:{server.port}/elsewhere") == refusal
        assert it.proxy.find("http://example.com/") is None
        assert it.proxy.find("no url") is None
        assert server.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0"])
async def test_a_blocked_tunnel_is_refused_before_any_connection(host: str) -> None:
    async with upstream(OK) as server, rig(PRODUCTION) as it:
        answer = await it.ask(head(f"CONNECT {host}:{server.port} HTTP/1.1", "", ""))
        assert answer.startswith(b"HTTP/1.1 403 ")
        found = it.proxy.find(f"https://{host}:{server.port}/")
        assert found is not None
        assert (found.method, found.url) == ("CONNECT", f"{host}:{server.port}")
        assert server.connections == 0


async def test_a_host_that_cannot_be_read_is_refused() -> None:
    async with rig() as it:
        for where in ("a..b:80", "1.2.3.4.5:80", "a%00b:80", "[::g]:80", "a.example:0", "a:99999"):
            assert b"X-Pilothouse-Blocked: malformed" in await it.get(f"http://{where}/")
            answer = await it.ask(head(f"CONNECT {where} HTTP/1.1", "", ""))
            assert b"X-Pilothouse-Blocked: malformed" in answer
        assert not it.asked


async def test_only_the_newest_refusals_are_kept() -> None:
    async with rig(PRODUCTION) as it:
        for port in range(1, proxy_module.MAX_REFUSALS + 11):
            await it.get(f"http://127.0.0.1:{port}/")
        kept = it.proxy.refusals
        assert len(kept) == proxy_module.MAX_REFUSALS
        assert (kept[0].port, kept[-1].port) == (11, proxy_module.MAX_REFUSALS + 10)


async def test_a_name_is_resolved_once_and_its_first_answer_holds() -> None:
    """Rebinding: the second answer would lead elsewhere, and nobody asks for it."""
    policy = Policy(allowed_hosts=("*.example",))
    async with upstream(OK) as allowed, upstream(OK, "127.0.0.2") as canary, rig(policy) as it:
        it.names["rebind.example"] = [["127.0.0.1"], ["127.0.0.2"]]
        assert (await it.get(f"http://rebind.example:{allowed.port}/")).startswith(b"HTTP/1.1 200")
        assert it.asked == ["rebind.example"]
        assert (allowed.connections, canary.connections) == (1, 0)


@pytest.mark.parametrize("allowed_hosts", [None, ("own.example",)])
async def test_an_own_name_leads_where_it_was_judged_and_is_not_looked_up(
    allowed_hosts: tuple[str, ...] | None,
) -> None:
    async with upstream(OK) as own, rig() as it:
        it.policy = Policy(
            own_origins=frozenset({("http", "own.example", own.port)}),
            own_addresses={"own.example": (IPv4Address("127.0.0.1"),)},
            allowed_hosts=allowed_hosts,
        )
        it.names["own.example"] = [["169.254.169.254"]]
        for _ in range(2):
            answer = await it.get(f"http://own.example:{own.port}/")
            assert answer.startswith(b"HTTP/1.1 200")
        await it.tunnel(f"own.example:{own.port}")
        assert it.asked == []
        # Another port of the same name is none of its own, and is looked up.
        assert b"Blocked: link_local" in await it.get(f"http://own.example:{own.port + 1}/")
        assert it.asked == ["own.example"]


async def test_an_own_name_that_led_nowhere_is_judged_each_time() -> None:
    async with rig() as it:
        it.policy = Policy(own_origins=frozenset({("http", "own.example", 80)}))
        it.names["own.example"] = [["169.254.169.254"], ["10.0.0.1"]]
        assert b"Blocked: link_local" in await it.get("http://own.example/")
        assert b"Blocked: private" in await it.get("http://own.example/")


async def test_a_name_that_turns_private_is_refused_the_next_time() -> None:
    """What was public a moment ago is judged anew, on what it resolves to now."""
    async with upstream(OK) as canary, rig(PRODUCTION) as it:
        it.names["rebind.example"] = [["127.0.0.1"]]
        answer = await it.get(f"http://rebind.example:{canary.port}/")
        assert b"X-Pilothouse-Blocked: loopback" in answer
        for inner in (
            "10.0.0.1",
            "169.254.169.254",
            "::1",
            "::ffff:10.0.0.1",
            "0.0.0.0",
            "fe80::1",
        ):
            it.names["rebind.example"] = [[inner]]
            assert (await it.get("http://rebind.example/")).startswith(b"HTTP/1.1 403")
        assert canary.connections == 0


async def test_only_addresses_that_passed_are_tried() -> None:
    policy = Policy(development=True, allowed_hosts=("mixed.example",))
    async with upstream(OK) as server, rig(policy) as it:
        # The first is special and never tried; the second passes but nothing listens there.
        it.names["mixed.example"] = [["0.0.0.0", "127.0.0.3", "127.0.0.1"]]
        answer = await it.get(f"http://mixed.example:{server.port}/")
        assert answer.startswith(b"HTTP/1.1 200")
        assert not it.noted
        it.names["mixed.example"] = [["0.0.0.0"]]
        answer = await it.get(f"http://mixed.example:{server.port}/")
        assert b"X-Pilothouse-Blocked: special" in answer
        assert server.connections == 1


async def test_a_name_that_may_not_be_asked_for_is_never_resolved() -> None:
    async with rig(Policy(allowed_hosts=("good.example",))) as it:
        assert b"Blocked: not_listed" in await it.get("http://secret-in-a-name.example/")
        assert b"Blocked: metadata" in await it.get("http://metadata.google.internal/")
        assert it.asked == []


async def test_localhost_names_are_this_machine_whatever_a_resolver_says() -> None:
    async with upstream(OK) as server, rig() as it:
        for host in ("localhost", "LOCALHOST", "app.localhost", "localhost."):
            assert (await it.get(f"http://{host}:{server.port}/")).startswith(b"HTTP/1.1 200"), host
        assert it.asked == []
    async with upstream(OK, "::1") as server, rig() as it:
        assert (await it.get(f"http://localhost:{server.port}/")).startswith(b"HTTP/1.1 200")


async def test_the_policy_is_asked_for_every_request() -> None:
    async with upstream(OK) as server, rig(PRODUCTION) as it:
        url = f"http://localhost:{server.port}/"
        assert (await it.get(url)).startswith(b"HTTP/1.1 403")
        it.policy = Policy(own_origins=frozenset({("http", "localhost", server.port)}))
        assert (await it.get(url)).startswith(b"HTTP/1.1 200")
        await it.tunnel(f"localhost:{server.port}")
        it.policy = Policy(development=True, blocked_ports=frozenset({server.port}))
        assert b"Blocked: blocked_port" in await it.get(url)


async def test_the_proxy_is_closed_to_pages() -> None:
    async with rig() as it:
        me = it.proxy.port
        assert (await it.ask(head("GET / HTTP/1.1", f"Host: 127.0.0.1:{me}", "", ""))).startswith(
            b"HTTP/1.1 400 "
        )
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            assert b"Blocked: blocked_port" in await it.get(f"http://{host}:{me}/")
            tunnel = head(f"CONNECT {host}:{me} HTTP/1.1", "", "")
            assert b"Blocked: blocked_port" in await it.ask(tunnel)


async def test_a_policy_that_fails_lets_nothing_out() -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

    def broken() -> Policy:
        raise RuntimeError("broken")

    async with upstream(OK) as server, open_proxy(broken, lambda _: None) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(head(f"GET http://localhost:{server.port}/ HTTP/1.1", "", ""))
        async with asyncio.timeout(GUARD_S):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        writer.close()
        assert server.connections == 0
    del proxy
    await until(lambda: failures)
    assert "broken" in str(failures[0]["exception"])


async def test_what_cannot_be_reached_is_502_and_what_takes_too_long_504(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed_port = taken.getsockname()[1]
    async with rig() as it:
        answer = await it.get("http://unknown.example/")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"could not be resolved" in answer
        answer = await it.get(f"http://127.0.0.1:{closed_port}/")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"Connection refused" in answer
        it.names["empty.example"] = [[]]
        assert (await it.get("http://empty.example/")).startswith(b"HTTP/1.1 502 ")
        assert not it.noted

    monkeypatch.setattr(proxy_module, "RESOLVE_S", 0.05)
    monkeypatch.setattr(proxy_module, "CONNECT_S", 0.05)

    async def never(name: str) -> Sequence[Address]:
        await asyncio.Event().wait()
        raise AssertionError(name)

    async with open_proxy(lambda: DEVELOPMENT, lambda _: None, resolve=never) as proxy:
        slow = Rig(DEVELOPMENT)
        slow.proxy = proxy
        assert (await slow.get("http://slow.example/")).startswith(b"HTTP/1.1 504 ")

    async def hang(address: Address, port: int) -> asyncio.Transport:
        # No address of this machine is sure to swallow connections on every platform.
        await asyncio.Event().wait()
        raise AssertionError(address)

    monkeypatch.setattr(proxy_module, "_dial", hang)
    async with rig() as it:
        assert (await it.get("http://127.0.0.1:1234/")).startswith(b"HTTP/1.1 504 ")


async def test_the_system_resolver_is_asked_without_stopping_the_loop() -> None:
    async with open_proxy(lambda: PRODUCTION, lambda _: None) as proxy:
        it = Rig(PRODUCTION)
        it.proxy = proxy
        # Every label too long for DNS: refused by the resolver itself, with no lookup.
        answer = await it.get(f"http://{'a' * 64}.invalid/")
        assert answer.startswith(b"HTTP/1.1 502 ")
    found = await resolve_name("localhost")
    assert {str(address) for address in found} <= {"127.0.0.1", "::1"}
    assert found


@pytest.mark.process
@needs_root
async def test_another_user_is_hung_up_on_before_it_is_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # What other tests have set for all of our loggers does not count here.
    caplog.set_level(logging.WARNING, proxy_module.log.name)
    async with upstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server, rig() as proxy:
        wire = head(f"GET http://127.0.0.1:{server.port}/ HTTP/1.1", "Host: x", "", "")
        for _ in range(2):
            port = proxy.proxy.port
            assert await asyncio.to_thread(sent_by_another_user, port, wire) == b""
        assert server.connections == 0
        assert proxy.noted == []
        logged = [one.getMessage() for one in caplog.records if "another user" in one.getMessage()]
        assert len(logged) == 1
        assert await proxy.get(f"http://127.0.0.1:{server.port}/")
        assert server.connections == 1
