"""The browsers that one session is connected to, each for as long as somebody uses it."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pilothouse.observe.cdp.browser import Browser
from pilothouse.observe.cdp.client import CdpError
from pilothouse.observe.cdp.endpoint import START_HINT, CdpEndpoint, find_endpoint
from pilothouse.observe.metrics import counted
from pilothouse.observe.model import BrowserUnreachable, SecurityBlocked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from pilothouse.core.call_priority import CallPriority
    from pilothouse.core.settings import Settings
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe

    type Key = tuple[str, int]
    """Host and port as they were asked for; of a session's own browser its id and `NO_PORT`."""

NO_PORT = 0


class CdpConnections:
    """One connection to each browser, shared by all calls."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        foreign_ports: Callable[[], frozenset[int]],
        priority: CallPriority | None,
        opened: Callable[[Key, Browser], None],
    ) -> None:
        """Call `opened` with each new connection; it serves the connection."""
        self._settings = settings
        self._environ = environ
        self._foreign_ports = foreign_ports
        self._priority = priority
        self._opened = opened
        self._browsers: dict[Key, Browser] = {}
        self.pipes: dict[Key, BrowserPipe] = {}
        """Pipes of browsers that this agent's sessions started."""
        self._connecting = asyncio.Lock()
        self._retired: Counter[str] = Counter()
        """Counts of connections that are gone."""

    @asynccontextmanager
    async def using(self, host: str | None, port: int | None) -> AsyncIterator[Browser]:
        """Hold a browser that stays connected for the block, whoever else is done with it.

        Raises:
            BrowserUnreachable: nothing answers there, or it is no browser.
            SecurityBlocked: it is not on this machine, or belongs to another session.
        """
        wanted = self._settings.cdp_port if port is None else port
        browser = await self._reached((host or self._settings.cdp_host, wanted))
        browser.callers += 1
        try:
            yield browser
        finally:
            browser.callers -= 1
            await self.close_unused((browser.endpoint.host, browser.endpoint.port))

    async def _reached(self, key: Key) -> Browser:
        if key[1] in self._foreign_ports():
            raise SecurityBlocked(
                f"port {key[1]} belongs to another session's browser",
                hint="observe your own session's tabs: cdp_list_targets with its sessionId",
                host=key[0],
                port=key[1],
            )
        async with self._connecting:
            browser = self._browsers.get(key)
            if browser is None:
                browser = self._browsers[key] = await self._open(*key)
                self._opened(key, browser)
            return browser

    async def _open(self, host: str, port: int) -> Browser:
        if port == NO_PORT:
            return await self._share(host, self.pipes.get((host, port)))
        endpoint = await find_endpoint(
            host,
            port,
            local_only=self._settings.cdp_security_localonly,
            environ=self._environ,
        )
        browser = Browser(endpoint, self._priority)
        try:
            await browser.open()
        except (OSError, TimeoutError, CdpError) as error:
            raise BrowserUnreachable(
                f"the browser on {host}:{port} refused the connection ({error})",
                hint=START_HINT,
                host=host,
                port=port,
            ) from None
        return browser

    async def _share(self, session_id: str, pipe: BrowserPipe | None) -> Browser:
        browser = Browser(CdpEndpoint(session_id, NO_PORT, ""), self._priority, pipe)
        try:
            if pipe is None:
                raise OSError("it has ended")
            await browser.open()
        except (OSError, TimeoutError) as error:
            raise BrowserUnreachable(
                f"the browser of session {session_id} cannot be reached ({error})",
                hint="call getSessionStatus, or start another session",
                sessionId=session_id,
            ) from None
        return browser

    def get(self, key: Key) -> Browser | None:
        return self._browsers.get(key)

    def retire(self, key: Key) -> None:
        """Forget a browser whose connection is gone, or about to be closed; keep its counts."""
        self._retired += counted(self._browsers.pop(key).cdp.counts)

    async def close(self, key: Key) -> None:
        browser = self._browsers.get(key)
        if browser is not None:
            self.retire(key)
            await browser.close()

    async def close_unused(self, key: Key) -> None:
        browser = self._browsers.get(key)
        if browser is not None and not browser.is_used:
            await self.close(key)

    def totals(self) -> Counter[str]:
        """Return what /metrics counts, of all connections that there ever were."""
        totals = Counter(self._retired)
        for browser in self._browsers.values():
            totals += counted(browser.cdp.counts)
        return totals
