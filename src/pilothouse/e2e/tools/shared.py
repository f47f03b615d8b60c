"""What all browser tools share: their arguments, their answer, and the way a step is taken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from pilothouse.core.declare.faults import Envelope
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Group
from pilothouse.e2e.model import BrowserCrashed, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.core.declare.fence import Story
    from pilothouse.e2e.ports import Sessions
    from pilothouse.e2e.step import StepOutcome
    from pilothouse.e2e.tab import Tab

E2E = Group(
    name="e2e",
    summary="Start the app, drive it in a browser, and get the whole story when a step fails",
    envelope=Envelope.TYPE,
    camel=True,
)
FOUND = (SessionNotFound, BrowserCrashed)
"""Faults that any call for a session may answer with."""
DEFAULT_TIMEOUT_MS = 30_000
LOOK_TIMEOUT_MS = 5_000
"""Milliseconds for what a page that is not busy does at once."""
GRACE_MS = 2_000
"""Milliseconds beyond the limit: Playwright's own comes first, because it says more."""
UNTIMED_MS = 24_000
"""Milliseconds for a step whose tool has no `timeout`; clients wait for half a minute."""
WAITS = 3
"""Number of times that a step may wait for the time that it was given."""

SessionId = Annotated[
    str | None,
    Field(
        description="Session",
        json_schema_extra={"x-mcp-header": "Session"},
    ),
]
Timeout = Annotated[int, Field(ge=1, le=600_000, description="ms")]
Selector = Annotated[str, Field(min_length=1)]


class InSession(Args):
    session_id: SessionId = None


class InTab(InSession):
    tab_id: str | None = Field(default=None, description="Tab")
    inline: bool = Field(default=False, description="Picture as data")


class Acting(InTab):
    settle: int = Field(default=0, ge=0, le=30_000, description="Further wait, ms")


class Targeting(Acting):
    selector: Selector = Field(description="CSS, Playwright or ref")
    timeout: Timeout = DEFAULT_TIMEOUT_MS


class Acted(Result):
    """A step that was taken, with what it caused so far."""

    failed: ClassVar[str] = "Not done: the page asks before it is left; call handleDialog."
    success: bool = Field(default=True, description="False: a dialog keeps the page from leaving")
    url: str = Field(description="Where the tab is now")
    navigated: bool = Field(default=False, description="Whether another page was loaded")
    dom: str = Field(default="", description="What changed in the page")
    requests: list[str] = Field(default_factory=list, description="Requests it started")
    console: list[str] = Field(default_factory=list, description="Console lines, errors first")
    browser: list[str] = Field(default_factory=list, description="Dialogs, downloads, new tabs")
    earlier: list[str] = Field(
        default_factory=list, description="What came after the answer before"
    )
    notices: list[dict[str, Any]] = Field(default_factory=list, description="Such as server_exited")
    dialog: dict[str, Any] | None = Field(default=None, description="Open: call handleDialog")
    value: str | list[str] | None = Field(default=None, description="What the field has now")
    landed: str = Field(default="", description="What took the event, where not the target")
    retried: bool = Field(default=False, description="Missed at first: `landed` took it")

    def dump(self) -> dict[str, Any]:
        """Return only what there is to say; that a field is empty is one of those things."""
        shown = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        always = ("success", "value")
        return {k: v for k, v in shown.items() if v not in ("", [], False) or k in always}

    def tell(self, story: Story) -> None:
        story.say("Done." if self.success else self.failed)
        story.quote("result", {k: v for k, v in self.dump().items() if k != "success"})


def acted(done: StepOutcome[Any], **more: Any) -> dict[str, Any]:
    """Return the fields of an answer, from a step."""
    return {
        "url": done.url,
        "navigated": done.navigated,
        "dom": done.dom.line() if done.dom else "",
        "requests": done.requests,
        "console": done.console,
        "browser": done.browser,
        "earlier": done.earlier,
        "notices": done.notices,
        "dialog": done.dialog,
        **more,
    }


async def step[T](
    sessions: Sessions,
    args: InTab,
    tool: str,
    do: Callable[[Tab], Awaitable[T]],
    *,
    target: str = "",
    look: bool = True,
    tells: bool = True,
    within_ms: int | None = None,
) -> StepOutcome[T]:
    """Take a step of a tool in the session and tab that its arguments name."""
    limit: int | None = getattr(args, "timeout", None)
    if within_ms is None:
        # A page that is stuck answers nothing, also where Playwright has a limit for finding an
        # element, and the next step waits for this one.
        within_ms = UNTIMED_MS if limit is None else WAITS * limit + GRACE_MS

    async with sessions.using(args.session_id) as session:
        return await session.perform(
            tool,
            do,
            tab_id=args.tab_id,
            target=target,
            args=args.model_dump(by_alias=True, exclude_defaults=True, exclude={"session_id"})
            | ({} if limit is None else {"timeout": limit}),
            settle=getattr(args, "settle", 0),
            look=look,
            tells=tells,
            within_ms=within_ms,
        )


async def within[T](limit: int, what: str, work: Awaitable[T]) -> T:
    """Return what comes of some work within `limit` ms.

    Raises:
        TimeoutError: nothing, so far; it is waited for no more.
    """
    try:
        async with asyncio.timeout(limit / 1000) as clock:
            return await work
    except TimeoutError:
        if clock.expired():
            raise TimeoutError(f"{what} did not end within {limit} ms") from None
        raise
