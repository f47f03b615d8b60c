"""Tabs, the viewport and what the browser pretends to be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.tool import Example, tool
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.model import STEP_FAULTS
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools.act import full_url
from pilothouse.e2e.tools.shared import E2E, Acted, InSession, InTab, acted, step

if TYPE_CHECKING:
    from typing import Self

    from pilothouse.e2e.browser.playwright import CDPSession
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.tab import Tab

TITLE_S = 1.0
"""Seconds that a page may take to give its title."""
_SPEEDS = {
    "offline": (True, 0, 0),
    "slow3g": (False, 2_000, 50_000),
    "fast3g": (False, 560, 180_000),
    "none": (False, 0, -1),
}


class Tabs(InSession):
    action: Literal["list", "new", "select", "close"] = Field(
        default="list", description="What to do"
    )
    tab_id: str | None = Field(default=None, description="For select and close")
    url: str | None = Field(default=None, description="For new")


class TabEntry(Result):
    id: str = Field(description="Stable id, never used twice")
    url: str = Field(description="Where it is")
    title: str = Field(description="Its title")
    current: bool = Field(description="Where tools act that name no tab")
    target_id: str = Field(description="For cdp_ tools")
    opener: str = Field(default="", description="The tab that opened it")


class TabList(Result):
    tabs: list[TabEntry] = Field(description="The open tabs")


@tool(
    E2E,
    effect="write",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="See them", args={}),),
)
async def tabs(args: Tabs, sessions: Sessions) -> TabList:
    """List, open, select or close tabs. A popup becomes a tab but never the current one."""
    async with sessions.using(args.session_id) as session:
        session.check_alive()
        if args.action == "new":
            await _open(session, args.url)
        elif args.action != "list":
            if args.tab_id is None:
                raise InvalidInput(
                    f"{args.action} needs tabId",
                    hint="call tabs for the ids",
                    field="tabId",
                    expected="the id of a tab",
                    received="nothing",
                )
            tab = session.tab(args.tab_id)
            if args.action == "select":
                session.current = tab.id
                await tab.page.bring_to_front()
            else:
                await tab.page.close()
                session.record("tabs", tab.id, action="close")
        entries = (_entry(session, tab) for tab in session.tabs.values())
        return TabList(tabs=await asyncio.gather(*entries))


async def _open(session: E2eSession, url: str | None) -> None:
    address = await full_url(session, url) if url else ""
    tab = await session.new_tab()
    session.current = tab.id
    if address:
        await session.perform(
            "navigate",
            lambda opened: opened.page.goto(address),
            tab_id=tab.id,
            target=address,
            args={"url": address},
            tells=False,
        )


async def _entry(session: E2eSession, tab: Tab) -> TabEntry:
    await session.wait_adopted(tab, TITLE_S)
    return TabEntry(
        id=tab.id,
        url=session.mask(tab.url),
        title=session.mask(await _title(tab)),
        current=tab.id == session.current,
        target_id=tab.target_id,
        opener=tab.opener,
    )


async def _title(tab: Tab) -> str:
    if tab.dialog is not None or tab.crashed:
        return ""
    try:
        async with asyncio.timeout(TITLE_S):
            return await tab.page.title()
    except TimeoutError:
        # A script keeps the page busy; the browser knows the title of before.
        return (await tab.recording.title() or "") if tab.recording else ""
    except Exception as error:
        if not error_name(error):
            raise
        return ""  # it is just going somewhere else, or has been closed


class Resize(InTab):
    width: int = Field(ge=100, le=10_000, description="Pixels")
    height: int = Field(ge=100, le=10_000, description="Pixels")


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="A phone", args={"width": 390, "height": 844}),),
)
async def resize(args: Resize, sessions: Sessions) -> Acted:
    """Set the size of the page's viewport."""

    async def do(tab: Tab) -> None:
        await tab.page.set_viewport_size({"width": args.width, "height": args.height})

    return Acted(**acted(await step(sessions, args, "resize", do)))


class Emulate(InTab):
    color_scheme: Literal["light", "dark", "no-preference"] | None = Field(
        default=None, description="prefers-color-scheme"
    )
    reduced_motion: Literal["reduce", "no-preference"] | None = Field(
        default=None, description="prefers-reduced-motion"
    )
    media: Literal["screen", "print"] | None = Field(default=None, description="CSS media")
    network: Literal["none", "offline", "slow3g", "fast3g"] | None = Field(
        default=None, description="Throttling"
    )
    cpu_slowdown: float | None = Field(default=None, ge=1, le=20, description="Times slower")
    latitude: float | None = Field(default=None, ge=-90, le=90, description="Geolocation")
    longitude: float | None = Field(default=None, ge=-180, le=180, description="Geolocation")
    user_agent: str | None = Field(default=None, max_length=1_000, description="User-Agent")
    timezone: str | None = Field(default=None, max_length=60, description="Such as Asia/Tokyo")

    @model_validator(mode="after")
    def _whole_place(self) -> Self:
        if (self.latitude is None) != (self.longitude is None):
            raise ValueError("latitude and longitude are a place only together")
        return self


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Dark and slow", args={"colorScheme": "dark", "network": "slow3g"}),),
)
async def emulate(args: Emulate, sessions: Sessions) -> Acted:
    """Pretend: colours, motion, network, CPU, place, user agent, time zone."""

    async def do(tab: Tab) -> None:
        if args.timezone:
            # Chromium checks only the first time zone that it is told.
            await tab.page.evaluate(
                "timeZone => { new Intl.DateTimeFormat('en', {timeZone}) }", args.timezone
            )
        media: dict[str, Any] = {
            "color_scheme": args.color_scheme,
            "reduced_motion": args.reduced_motion,
            "media": args.media,
        }
        media = {name: value for name, value in media.items() if value}
        if media:
            await tab.page.emulate_media(**media)
        for method, params in _cdp_commands(args):
            await (await _chromium(tab)).send(method, params)
        if args.latitude is not None and args.longitude is not None:
            context = tab.page.context
            await context.grant_permissions(["geolocation"])
            await context.set_geolocation({"latitude": args.latitude, "longitude": args.longitude})

    return Acted(**acted(await step(sessions, args, "emulate", do)))


def _cdp_commands(args: Emulate) -> list[tuple[str, dict[str, Any]]]:
    commands: list[tuple[str, dict[str, Any]]] = []
    if args.network:
        offline, latency, speed = _SPEEDS[args.network]
        commands.append(
            (
                "Network.emulateNetworkConditions",
                {
                    "offline": offline,
                    "latency": latency,
                    "downloadThroughput": speed,
                    "uploadThroughput": speed,
                },
            )
        )
    if args.cpu_slowdown is not None:
        commands.append(("Emulation.setCPUThrottlingRate", {"rate": args.cpu_slowdown}))
    if args.user_agent:
        commands.append(("Emulation.setUserAgentOverride", {"userAgent": args.user_agent}))
    if args.timezone:
        commands.append(("Emulation.setTimezoneOverride", {"timezoneId": args.timezone}))
    return commands


async def _chromium(tab: Tab) -> CDPSession:
    cdp = await tab.cdp()
    if cdp is None:
        raise InvalidInput("only Chromium can pretend this", hint="leave out `browser`")
    return cdp


TOOLS = (tabs, resize, emulate)
