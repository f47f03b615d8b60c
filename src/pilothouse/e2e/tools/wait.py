"""Tools that wait for a condition: an element, a text, an address, a request, a line, a rebuild."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.tool import Example, tool
from pilothouse.e2e.app_server.logs.hot_reload import HotReload
from pilothouse.e2e.browser.elements.frames import State, by_selector, by_text, wait
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.page_scripts import OVERLAY_TEXT
from pilothouse.e2e.model import STEP_FAULTS, BuildFailed
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tab import NotBuilt
from pilothouse.e2e.tools.shared import (
    DEFAULT_TIMEOUT_MS,
    E2E,
    Acted,
    InTab,
    Selector,
    Targeting,
    Timeout,
    acted,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.e2e.ports import Recording
    from pilothouse.e2e.tab import Tab

RELOAD_S = 3.0
"""Seconds to wait for the page after the dev server said that it wants it reloaded."""

ANEW = "then => performance.timeOrigin >= then && document.readyState === 'complete'"
"""Function that tells whether the page was loaded since."""
DOUBT_S = 2.0
"""Seconds to wait for a newer build after an update that may be of an older one."""
DRAWN = """
() => new Promise(done => {
  const frames = left => left ? requestAnimationFrame(() => frames(left - 1)) : done(0);
  setTimeout(() => frames(2), 50);
  setTimeout(done, 1000);
})
"""
"""Function that returns when React has drawn an update, which it always puts off by some ms."""


class WaitForSelector(Targeting):
    state: State = Field(default="visible", description="What to wait for")


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Wait for a toast", args={"selector": ".toast"}),),
)
async def wait_for_selector(args: WaitForSelector, sessions: Sessions) -> Acted:
    """Wait until an element is visible, or gone."""

    async def do(tab: Tab) -> None:
        await _wait(tab, args.selector, args.state, args.timeout)

    return Acted(**acted(await step(sessions, args, "waitForSelector", do, target=args.selector)))


class WaitFor(InTab):
    selector: Selector | None = Field(default=None, description="Until this is there")
    state: State = Field(default="visible", description="Of the selector")
    text: str | None = Field(default=None, description="Until this text is on the page")
    text_gone: str | None = Field(default=None, description="Until this text is gone")
    url: str | None = Field(default=None, description="Until the URL has this part")
    request: str | None = Field(default=None, description="Until a URL with this part is answered")
    console: str | None = Field(default=None, description="Until a console line has this part")
    idle: bool = Field(default=False, description="Until the network is quiet")
    hmr: bool = Field(default=False, description="Until a hot update is in")
    timeout: Timeout = DEFAULT_TIMEOUT_MS


class Waited(Acted):
    met: dict[str, Any] = Field(default_factory=dict, description="What was waited for, as it came")


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=(*STEP_FAULTS, BuildFailed),
    examples=(
        Example(title="Wait for an answer", args={"request": "/api/cart"}),
        Example(title="Wait for a rebuild", args={"hmr": True}),
    ),
)
async def wait_for(args: WaitFor, sessions: Sessions) -> Waited:
    """Wait for one or more conditions, all of them."""
    wanted = _wanted(args)
    if not wanted and not args.selector:
        raise InvalidInput(
            "waitFor needs something to wait for",
            hint="pass selector, text, textGone, url, request, console, idle or hmr",
            field="selector",
            expected="at least one condition",
            received="none",
        )

    async def do(tab: Tab) -> dict[str, Any]:
        met: dict[str, Any] = {}
        loop = asyncio.get_running_loop()
        ends = loop.time() + args.timeout / 1000
        if args.selector:
            # Under Playwright's own limit: its log says whether there was an element at all.
            await _wait(tab, args.selector, args.state, args.timeout)
            met["selector"] = True
        try:
            async with asyncio.timeout_at(ends):
                for name, wait in wanted.items():
                    met[name] = await wait(tab) or True
        except TimeoutError:
            missing = [name for name in wanted if name not in met]
            raise TimeoutError(f"{', '.join(missing)} did not come in {args.timeout} ms") from None
        return met

    done = await step(sessions, args, "waitFor", do, target=args.selector or "")
    return Waited(**acted(done), met=done.value or {})


async def _wait(tab: Tab, selector: str, state: State, limit: int) -> None:
    if ref_of(selector):
        await tab.locator(selector).wait_for(state=state, timeout=limit)
    else:
        await wait(tab, by_selector(selector), state, limit)


def _wanted(args: WaitFor) -> dict[str, Callable[[Tab], Any]]:
    found: dict[str, Callable[[Tab], Any]] = {}
    # Ours ends first, so that the answer does not depend on who was quicker.
    limit = args.timeout + 1_000
    if args.text:
        text = args.text
        found["text"] = lambda tab: wait(tab, by_text(text), "visible", limit)
    if args.text_gone:
        gone = args.text_gone
        found["textGone"] = lambda tab: wait(tab, by_text(gone), "hidden", limit)
    if args.url:
        part = args.url
        found["url"] = lambda tab: tab.page.wait_for_url(lambda url: part in url, timeout=limit)
    if args.request:
        wanted = args.request
        found["request"] = lambda tab: _event(tab, lambda e: _answers(e, wanted))
    if args.console:
        line = args.console
        found["console"] = lambda tab: _event(
            tab, lambda e: e["kind"] in ("console", "log") and line in str(e.get("text", ""))
        )
    if args.idle:
        found["idle"] = lambda tab: tab.page.wait_for_load_state("networkidle", timeout=limit)
    if args.hmr:
        found["hmr"] = _hot_updated
    return found


async def _event(tab: Tab, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait for an event since the last answer: it may have come while the agent was thinking."""
    if tab.recording is None:
        raise _not_recorded()
    event = await tab.recording.wait(tab.reported_seq, found)
    shown = ("kind", "text", "url", "status", "method", "errorText", "requestId", "seq")
    return {name: event[name] for name in shown if event.get(name)}


def _not_recorded() -> InvalidInput:
    return InvalidInput(
        "this browser is not recorded, so that only the page itself can be waited for",
        hint="use Chromium, or wait for selector, text or url",
    )


async def _hot_updated(tab: Tab) -> dict[str, Any]:
    """Wait until the page runs the code of the newest edit; return what said so.

    Raises:
        NotBuilt: the edit does not compile.
    """
    if tab.recording is None:
        raise _not_recorded()
    updates = _HotUpdates(tab, tab.recording)
    hot = updates.hot
    while True:
        await updates.read_until(lambda: hot.is_over)
        if hot.error:
            break
        met, reloaded = hot.update or {}, hot.reload_since
        if hot.needs_reload:
            hot.needs_reload, reloaded = False, met["ts"]
            await tab.page.evaluate("() => location.reload()")
        if reloaded:
            with suppress(TimeoutError):
                async with asyncio.timeout(RELOAD_S):
                    # By its own clock: the old document may still be there, loaded as it is.
                    await tab.page.wait_for_function(ANEW, arg=reloaded - 100, timeout=0)
        await tab.page.wait_for_load_state("load")
        if reloaded:
            await updates.expect_new_page(reloaded)
        await tab.page.evaluate(DRAWN)
        updates.catch_up()
        if hot.is_over and (hot.error or hot.update is met):
            break
    tab.hot_seq = updates.seq
    shown = ("kind", "text", "url", "requestId", "seq")
    if not hot.error:
        overlay = await tab.page.evaluate(OVERLAY_TEXT) if reloaded else None
        hot.error = str(overlay[1]) if overlay else ""
    if hot.error:
        raise NotBuilt(hot.error)
    found = {name: met[name] for name in shown if met.get(name)}
    return {**found, "reloaded": True} if reloaded else found


class _HotUpdates:
    """The hot updates of a tab since the last answer, read from its recording."""

    def __init__(self, tab: Tab, recording: Recording) -> None:
        self._tab = tab
        self._recording = recording
        self.hot = HotReload()
        self.seq = 0
        """Seq of the event that is read next."""
        for event in tab.events(0):
            if event["seq"] >= max(tab.reported_seq, tab.hot_seq):
                break
            self._read(event)
        self.hot.forget()
        # An error that was reported before is no answer to the edit after it.
        self.hot.error = ""

    def _read(self, event: dict[str, Any]) -> None:
        self.hot.feed(event)
        self.seq = event["seq"] + 1

    def catch_up(self) -> None:
        """Read what has come, and wait for nothing."""
        for event in self._tab.events(self.seq):
            self._read(event)

    async def read_until(self, is_enough: Callable[[], bool]) -> None:
        """Read on as events come; an update that stays in doubt for a while is trusted."""
        loop = asyncio.get_running_loop()
        trusted_at = None
        while not is_enough():
            if not self.hot.in_doubt:
                trusted_at = None
            elif trusted_at is None:
                trusted_at = loop.time() + DOUBT_S
            try:
                async with asyncio.timeout_at(trusted_at) as doubt:
                    event = await self._recording.wait(self.seq, lambda _: True)
            except TimeoutError:
                if not doubt.expired():
                    raise
                self.hot.trust()
                continue
            self._read(event)

    async def expect_new_page(self, since: float) -> None:
        """Wait a moment for the page to connect anew, and for what the server says to that."""
        hot = self.hot
        with suppress(TimeoutError):
            async with asyncio.timeout(RELOAD_S):
                await self.read_until(lambda: bool(hot.error) or hot.connected_at >= since)
                # Where a module was refused, its error is on the way.
                await self.read_until(lambda: bool(hot.error) or hot.refused_at < since)


def _answers(event: dict[str, Any], part: str) -> bool:
    return event["kind"] in ("response", "loadingFailed") and part in str(event.get("url", ""))


TOOLS = (wait_for_selector, wait_for)
