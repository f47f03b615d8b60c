"""Tools that look at the page and leave it as it is; `evaluate` too, as far as we know."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pilothouse.core.declare.model import Block, Image, PageText, Result
from pilothouse.core.declare.tool import Example, tool
from pilothouse.e2e.browser.elements.aria_tree import (
    matching,
    refs_of_fields,
    with_values,
    within_budget,
)
from pilothouse.e2e.browser.elements.frames import by_selector, count
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.page_scripts import FIELD_VALUE, WITH_CHANGES
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.browser.screenshots import capture, shrunk, size
from pilothouse.e2e.model import STEP_FAULTS
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools.shared import (
    DEFAULT_TIMEOUT_MS,
    E2E,
    GRACE_MS,
    LOOK_TIMEOUT_MS,
    Acted,
    InTab,
    Selector,
    Timeout,
    acted,
    step,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.core.declare.fence import Story
    from pilothouse.e2e.step import StepOutcome
    from pilothouse.e2e.tab import Tab

MOST_CONTENT = 200_000
DEFAULT_SNAPSHOT_TOKENS = 6_000
MOST_FIELDS = 50
FIELD_MS = 1_000

MAX_DEPTH = 50
"""Levels of a value that a script gave; a deeper one is cut there."""


async def _look[T](
    sessions: Sessions,
    args: InTab,
    tool: str,
    do: Callable[[Tab], Awaitable[T]],
    selector: str | None = None,
) -> StepOutcome[T]:
    """Look at a page, which may be too busy to be seen."""
    limit: int = getattr(args, "timeout", LOOK_TIMEOUT_MS)
    return await step(sessions, args, tool, do, target=selector or "", look=False, within_ms=limit)


class Screenshot(InTab):
    full_page: bool = Field(default=False, description="The whole page")
    selector: Selector | None = Field(default=None, description="One element alone")
    timeout: Timeout = LOOK_TIMEOUT_MS


class Pictured(Result):
    path: str = Field(description="File with the whole picture")
    uri: str = Field(description="Resource of the same")
    width: int = Field(description="Of the file, in pixels")
    height: int = Field(description="Of the file, in pixels")
    data: str | None = Field(default=None, description="Base64 of the file, with inline")
    shown: bytes = Field(default=b"", description="For the image block", exclude=True)
    url: str = Field(description="Where the tab is")

    def unread(self) -> frozenset[str]:
        return frozenset({"data"})

    def blocks(self) -> tuple[Block, ...]:
        return (Image(self.shown),)


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Look", args={}),),
)
async def screenshot(args: Screenshot, sessions: Sessions) -> Pictured:
    """Take a picture of the page. snapshot says more for fewer tokens."""
    session = sessions.find(args.session_id)

    async def do(tab: Tab) -> tuple[bytes, bytes]:
        whole, part = args.full_page, args.selector or ""
        picture = await capture(tab, full_page=whole, selector=part, limit=args.timeout)
        return picture, await shrunk(tab, picture, full_page=whole, selector=part)

    done = await _look(sessions, args, "screenshot", do, args.selector)
    assert done.value is not None
    whole, small = done.value
    name = f"screenshot-{done.step}.unmasked.png"
    path = session.save(name, whole)
    width, height = size(whole)
    return Pictured(
        path=str(path),
        uri=session.uri(name),
        width=width,
        height=height,
        data=base64.b64encode(whole).decode() if args.inline else None,
        shown=small,
        url=done.url,
    )


class Evaluate(InTab):
    script: str = Field(description="Expression or function")
    selector: Selector | None = Field(default=None, description="Passed to the function")
    timeout: Timeout = DEFAULT_TIMEOUT_MS


class Evaluated(Acted):
    result: Any = Field(default=None, description="What the script gave")
    length: int | None = Field(
        default=None, description="Of a value that was too long: all its characters, as JSON"
    )

    def dump(self) -> dict[str, Any]:
        return {"success": True, "result": self.result, **super().dump()}


@tool(
    E2E,
    effect="write",
    open_world=True,
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Read a value", args={"script": "document.title"}),),
)
async def evaluate(args: Evaluate, sessions: Sessions) -> Evaluated:
    """Run JavaScript in the page and get its value."""
    session = sessions.find(args.session_id)

    async def do(tab: Tab) -> Any:
        if args.selector:
            found = tab.locator(args.selector).evaluate(args.script, timeout=args.timeout)
            return await within(args.timeout + GRACE_MS, "the script", found)
        return await within(args.timeout, "the script", run(tab))

    async def run(tab: Tab) -> Any:
        try:
            asked_at = session.clock()
            asked = WITH_CHANGES % args.script, list(tab.moments_in_page)
            value, changes = await tab.page.evaluate(*asked)
        except Exception as error:
            # Statements are no expression; alone they may be a sound script all the same.
            if "SyntaxError" not in str(error):
                raise
            return await tab.page.evaluate(args.script)
        tab.keep_changes(tab.read_changes(changes, asked_at))
        return value

    done = await step(
        sessions, args, "evaluate", do, target=args.selector or "", look=bool(args.selector)
    )
    value = session.mask(plain(done.value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST_CONTENT:
        return Evaluated(**acted(done), result=value)
    return Evaluated(**acted(done), result=text[:MOST_CONTENT], length=len(text))


_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: Any, around: tuple[int, ...] = ()) -> Any:
    """Return a value that JSON can hold: JavaScript values that it does not have become text that
    JavaScript would write, and so does one that holds itself."""
    if isinstance(value, dict | list):
        if id(value) in around:
            return "[circular]"
        if len(around) == MAX_DEPTH:
            return f"[deeper than {MAX_DEPTH} levels]"
        around = (*around, id(value))
        if isinstance(value, list):
            return [plain(inner, around) for inner in value]
        return {str(key): plain(inner, around) for key, inner in value.items()}
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else _NO_NUMBERS[str(value)]
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


class GetContent(InTab):
    selector: Selector | None = Field(default=None, description="Of one element alone")
    as_: Literal["html", "text"] = Field(default="html", alias="as", description="Form")
    offset: int = Field(default=0, ge=0, description="First character, to read on")
    timeout: Timeout = LOOK_TIMEOUT_MS


class Content(Result):
    content: str = Field(description="HTML or text")
    length: int = Field(description="Whole length in characters")
    next_offset: int | None = Field(default=None, description="Where to read on, if it was cut")
    url: str = Field(description="Where the tab is")


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Read the text", args={"as": "text", "selector": "main"}),),
)
async def get_content(args: GetContent, sessions: Sessions) -> Content:
    """Get the page's HTML or text."""
    session = sessions.find(args.session_id)

    async def do(tab: Tab) -> str:
        if args.selector:
            found = tab.locator(args.selector)
            if args.as_ == "text":
                return await found.inner_text(timeout=args.timeout)
            return str(await found.evaluate("e => e.outerHTML", timeout=args.timeout))
        if args.as_ == "text":
            return await tab.page.inner_text("body", timeout=args.timeout)
        return await tab.page.content()

    done = await _look(sessions, args, "getContent", do, args.selector)
    whole = str(session.mask(done.value or ""))
    part = whole[args.offset : args.offset + MOST_CONTENT]
    after = args.offset + len(part)
    return Content(
        content=part,
        length=len(whole),
        next_offset=after if after < len(whole) else None,
        url=done.url,
    )


class Exists(InTab):
    selector: Selector = Field(description="CSS, Playwright or ref")


class Existing(Result):
    exists: bool = Field(description="Whether anything matches")
    count: int = Field(description="How many elements match")
    visible: bool = Field(description="Whether one of them is visible")


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Is it there?", args={"selector": "#thanks"}),),
)
async def exists(args: Exists, sessions: Sessions) -> Existing:
    """Whether an element is there, now."""

    async def do(tab: Tab) -> tuple[int, bool]:
        if ref_of(args.selector):
            found = tab.locator(args.selector)
            many = await found.count()
            return many, bool(many) and await found.is_visible()
        return await count(tab, by_selector(args.selector))

    done = await _look(sessions, args, "exists", do, args.selector)
    many, visible = done.value or (0, False)
    return Existing(exists=many > 0, count=many, visible=visible)


class Snapshot(InTab):
    selector: Selector | None = Field(default=None, description="Only this part of the page")
    depth: int | None = Field(default=None, ge=1, le=100, description="How deep")
    max_tokens: int = Field(
        default=DEFAULT_SNAPSHOT_TOKENS, ge=200, le=200_000, description="Budget"
    )
    timeout: Timeout = LOOK_TIMEOUT_MS


class Snapped(Result):
    snapshot: PageText = Field(description="Accessibility tree; refs work as selectors")
    url: PageText = Field(description="Where the tab is")
    title: PageText = Field(description="Title of the page")
    left_out: int = Field(description="Lines that were left out")

    def tell(self, story: Story) -> None:
        story.say("Refs such as e12 work as selectors until the page changes.")
        if self.left_out:
            story.say(
                f"{self.left_out} lines were left out: pass selector, depth or a larger maxTokens,"
                " or call find."
            )
        story.quote("page", {"title": self.title, "url": self.url})
        story.quote("snapshot", self.snapshot)


@tool(
    E2E,
    effect="read",
    own=True,
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="See the page", args={}),),
)
async def snapshot(args: Snapshot, sessions: Sessions) -> Snapped:
    """See the page as an accessibility tree with refs to act on."""
    session = sessions.find(args.session_id)

    async def do(tab: Tab) -> tuple[str, str]:
        tree = await _tree(tab, args.selector, args.depth, args.timeout)
        return await _with_values(tab, tree), await tab.page.title()

    done = await _look(sessions, args, "snapshot", do, args.selector)
    tree, title = session.mask(list(done.value or ("", "")))
    kept, left = within_budget(tree.splitlines(), args.max_tokens)
    return Snapped(
        snapshot=PageText("\n".join(kept)),
        url=PageText(done.url),
        title=PageText(title),
        left_out=left,
    )


async def _tree(tab: Tab, selector: str | None, depth: int | None, limit: float) -> str:
    if selector:
        found = tab.locator(selector)
        return await found.aria_snapshot(mode="ai", depth=depth, timeout=limit)
    return await tab.page.aria_snapshot(mode="ai", depth=depth, timeout=limit)


async def _with_values(tab: Tab, tree: str) -> str:
    """Return a snapshot with the values of its fields as they are."""

    async def ask(ref: str) -> tuple[str, tuple[str, bool]] | None:
        try:
            value, is_multiline = await tab.page.get_by_ref(ref).evaluate(
                FIELD_VALUE, timeout=FIELD_MS
            )
        except Exception as error:
            if not error_name(error):
                raise
            return None  # it has gone
        return ref, (str(value), bool(is_multiline))

    asked = await asyncio.gather(*(ask(ref) for ref in refs_of_fields(tree)[:MOST_FIELDS]))
    return with_values(tree, dict(filter(None, asked)))


class Find(InTab):
    text: str = Field(min_length=1, max_length=500, description="Words to look for")
    limit: int = Field(default=10, ge=1, le=100, description="At most so many")
    timeout: Timeout = LOOK_TIMEOUT_MS


class FoundTexts(Result):
    matches: list[PageText] = Field(description="Elements with their refs")
    matched: int = Field(description="How many there are")

    def tell(self, story: Story) -> None:
        story.say(f"{self.matched} found; refs work as selectors." if self.matched else "None.")
        if self.matches:
            story.quote("matches", self.matches)


@tool(
    E2E,
    effect="read",
    own=True,
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Find a button", args={"text": "add to cart"}),),
)
async def find(args: Find, sessions: Sessions) -> FoundTexts:
    """Find elements by their text or role, with refs: the cheapest way to a selector."""
    session = sessions.find(args.session_id)

    async def do(tab: Tab) -> str:
        return await _tree(tab, None, None, args.timeout)

    done = await _look(sessions, args, "find", do)
    matches = matching(session.mask(done.value or ""), args.text)
    return FoundTexts(matches=[PageText(m) for m in matches[: args.limit]], matched=len(matches))


class Pdf(InTab):
    landscape: bool = Field(default=False, description="Landscape")


class Printed(Result):
    path: str = Field(description="The file")
    uri: str = Field(description="Resource of the same")
    bytes: int = Field(description="Size of the file")


@tool(E2E, effect="read", raises=STEP_FAULTS, examples=(Example(title="Print", args={}),))
async def pdf(args: Pdf, sessions: Sessions) -> Printed:
    """Print the page to a PDF file."""
    session = sessions.find(args.session_id)

    async def do(tab: Tab) -> bytes:
        return await tab.page.pdf(landscape=args.landscape, print_background=True)

    done = await step(sessions, args, "pdf", do, look=False)
    name = f"page-{done.step}.unmasked.pdf"
    path = session.save(name, done.value or b"")
    return Printed(path=str(path), uri=session.uri(name), bytes=len(done.value or b""))


TOOLS = (screenshot, snapshot, find, evaluate, get_content, exists, pdf)
