"""A real Chromium behind the filtering proxy, its own app, and canaries that must not be reached.

Playwright is used directly, so that nothing of the product stands between the browser and the
proxy but the flags under test.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from playwright.async_api import Error, async_playwright

from pilothouse.core.net.url_policy import Policy, Verdict
from pilothouse.e2e.browser.flags import bypass_list, feature_flag, policy_flags
from pilothouse.e2e.egress_proxy.proxy import FilteringProxy, PolicyRefusal, open_proxy
from pilothouse.machine.chromium.finder import find_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from playwright.async_api import Browser, BrowserContext, Page

    from pilothouse.core.net.url_policy import Address, Origin

GUARD_S = 30
STAND_IN = "127.0.0.5"
"""Takes the part of a public server: nothing outside this machine is ever asked."""


CANARIES = ("127.0.0.1", "127.0.0.2", "::1")


class Simulated(Policy):
    """The real policy, to which one address of this machine looks public."""

    def check_address(
        self, host: str, address: Address, port: int, scheme: str | None = None
    ) -> Verdict:
        if str(address) == STAND_IN and host != STAND_IN:
            address = ip_address("93.184.216.34")
        return super().check_address(host, address, port, scheme)


@dataclass
class Server:
    """Answers whatever the query asks for, with every connection and path counted."""

    connections: int = 0
    paths: list[str] = field(default_factory=list)
    datagrams: int = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            first = await reader.readexactly(1)
            if not first.isalpha():
                self.paths.append("not HTTP")
                return
            target = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ", 2)[1]
            self.paths.append(target)
            writer.write(_answer(target))
            await writer.drain()
        except (OSError, ValueError, IndexError, asyncio.IncompleteReadError):
            pass  # a preconnection that asks for nothing, or no HTTP at all: it counts as well
        finally:
            writer.close()

    def datagram(self) -> asyncio.DatagramProtocol:
        """A UDP endpoint that counts."""
        server = self

        class Counting(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: object) -> None:
                server.datagrams += 1

        return Counting()

    def clear(self) -> None:
        self.connections = self.datagrams = 0
        self.paths.clear()


def _answer(target: str) -> bytes:
    asked = dict(parse_qsl(urlsplit(target).query))
    body = asked.get("body", "good").encode()
    head = [
        f"HTTP/1.1 {asked.get('status', '200')} Here",
        f"Content-Type: {asked.get('type', 'text/html')}",
        f"Content-Length: {len(body)}",
        "Access-Control-Allow-Origin: *",
        "Cache-Control: no-store",
        "Connection: close",
        *(f"{name}: {asked[name]}" for name in ("Location", "Content-Security-Policy", "Refresh")
          if name in asked),
    ]  # fmt: skip
    return "\r\n".join([*head, "", ""]).encode() + body


class World:
    """One browser and what stands around it."""

    browser: Browser
    proxy: FilteringProxy
    own_port: int
    canary_port: int
    udp_port: int

    def __init__(self) -> None:
        self.own = Server()
        self.canary = Server()
        self.public = Server()
        self.policy = Policy()
        self.refused: list[PolicyRefusal] = []
        self.names: dict[str, list[str]] = {}
        """Each name's addresses, one per lookup; the last one again and again."""
        self.asked: list[str] = []
        """Names that somebody wanted to be led to."""

    @property
    def own_origins(self) -> frozenset[Origin]:
        hosts = ("localhost", "127.0.0.1", "::1")
        return frozenset(("http", host, self.own_port) for host in hosts)

    def app(self, path: str = "/") -> str:
        return f"http://localhost:{self.own_port}{path}"

    async def resolve(self, name: str) -> Sequence[Address]:
        self.asked.append(name)
        answers = self.names.get(name, [])
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return (ip_address(answers.pop(0) if len(answers) > 1 else answers[0]),)

    def clear(self, policy: Policy) -> None:
        self.policy = policy
        for server in (self.own, self.canary, self.public):
            server.clear()
        self.refused.clear()

    @asynccontextmanager
    async def context(self) -> AsyncIterator[BrowserContext]:
        """A context as a session has it: own origins go direct, all else through the proxy."""
        context = await self.browser.new_context(
            proxy={
                "server": f"http://127.0.0.1:{self.proxy.port}",
                "bypass": bypass_list(self.own_origins),
            },
            permissions=[],
        )
        try:
            yield context
        finally:
            await context.close()


async def visit(page: Page, url: str) -> str:
    """Go there: the text of the page, or the name of the error."""
    try:
        response = await page.goto(url, wait_until="commit", timeout=GUARD_S * 1000)
    except Error as error:
        if "net::ERR" in error.message and "ERR_ABORTED" not in error.message:
            # The error page comes a moment later, and would end the next navigation.
            await page.wait_for_url("chrome-error://**", wait_until="commit")
        return error.message.splitlines()[0]
    blocked = response.headers.get("x-pilothouse-blocked") if response else None
    return f"blocked: {blocked}" if blocked else await page.inner_text("body")


async def _listen(
    stack: AsyncExitStack, server: Server, hosts: Iterable[str], port: int = 0
) -> int:
    """The same port on several addresses; a free one if none is given."""
    for host in hosts:
        listener = await asyncio.start_server(server.handle, host, port)
        stack.push_async_callback(listener.wait_closed)
        stack.callback(listener.abort_clients)
        stack.callback(listener.close)
        port = listener.sockets[0].getsockname()[1]
    return port


@asynccontextmanager
async def open_world(*, flags: bool = True, extra: Sequence[str] = ()) -> AsyncIterator[World]:
    """Without flags the browser goes where it likes: to prove that a canary can count."""
    world = World()
    async with AsyncExitStack() as stack:
        world.own_port = await _listen(stack, world.own, ("127.0.0.1", "::1"))
        # The stand-in and the canary share a port, as the two answers of a rebinding name must: one
        # that is free where everybody else on the machine takes theirs, too.
        world.canary_port = await _listen(stack, world.canary, CANARIES)
        await _listen(stack, world.public, (STAND_IN,), world.canary_port)
        loop = asyncio.get_running_loop()
        udp, _ = await loop.create_datagram_endpoint(
            world.canary.datagram, local_addr=("127.0.0.1", 0)
        )
        stack.callback(udp.close)
        world.udp_port = udp.get_extra_info("sockname")[1]
        world.proxy = await stack.enter_async_context(
            open_proxy(lambda: world.policy, world.refused.append, resolve=world.resolve)
        )
        playwright = await stack.enter_async_context(async_playwright())
        program = find_browser(os.environ)
        assert program is not None, "these tests need a Chromium"
        world.browser = await playwright.chromium.launch(
            executable_path=program.path,
            args=[feature_flag(), *(policy_flags(world.proxy.port) if flags else ()), *extra],
        )
        stack.push_async_callback(world.browser.close)
        yield world
