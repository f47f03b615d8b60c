"""What the app's requests meet on their way, and logins that outlive a session."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Example, tool
from pilothouse.core.regex import BadPattern
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.model import (
    STEP_FAULTS,
    ActionFailed,
    DialogOpen,
    FileNotAllowed,
    StepTimeout,
)
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools.shared import E2E, InSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from pathlib import Path

    from pilothouse.e2e.browser.playwright import BrowserContext
    from pilothouse.e2e.browser.routes import BrowserRoutes, Edit, HarAnswers, MockReply, RouteRule
    from pilothouse.e2e.session import E2eSession

MOST_RULES = 50
MOST_HAR_BYTES = 100_000_000
STATE_S = 20
ROUTED = (
    "While there are rules, the HTTP cache is off and CORS preflights are answered for the app."
    " Requests of service workers are not routed."
)
_STATE_NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[^\x00\r\n]*")
_ACTIONS = ("respond", "block", "edit", "har")


class Respond(Args):
    status: int = Field(default=200, ge=200, le=599, description="Status")
    body: str = Field(default="", max_length=10_000_000, description="Body")
    content_type: str = Field(default="", description="Default: JSON or text, as the body is")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers")

    def reply(self) -> MockReply:
        from pilothouse.e2e.browser.routes import MockReply, content_type_of

        kind = self.content_type or content_type_of(self.body)
        headers = {"content-type": kind, **{k.lower(): v for k, v in self.headers.items()}}
        return MockReply(self.status, self.body.encode(), headers)


class Replacement(Args):
    from_: str = Field(alias="from", min_length=1, description="Old text")
    to: str = Field(description="New text")


class EditResponse(Args):
    status: int | None = Field(default=None, ge=200, le=599, description="Status")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers")
    body_replace: list[Replacement] = Field(default_factory=list, description="In the body")
    json_set: dict[str, Any] = Field(default_factory=dict, description='{"cart.items.0.price": 1}')

    def edit(self) -> Edit:
        from pilothouse.e2e.browser.routes import Edit

        replace = tuple((each.from_, each.to) for each in self.body_replace)
        return Edit(self.status, self.headers, replace, self.json_set)


class Route(InSession):
    action: Literal["add", "list", "remove"] = Field(default="add", description="What to do")
    id: str | None = Field(default=None, description="For remove; without it, all")
    url: str = Field(default="", description="Part of the URL, or glob")
    method: str = Field(default="", description="Default: any")
    respond: Respond | None = Field(default=None, description="Answer it without the server")
    block: Literal["failed", "timedout", "connectionrefused", "internetdisconnected"] | None = (
        Field(default=None, description="Network error")
    )
    edit: EditResponse | None = Field(default=None, description="Change the server's answer")
    har: str | None = Field(default=None, description="HAR file to answer from")
    delay_ms: int = Field(default=0, ge=0, le=600_000, description="Wait first")
    fail_nth: int = Field(default=0, ge=0, description="Only the Nth: fail, or respond or block")
    times: int = Field(default=0, ge=0, description="At most so often")


class RuleEntry(Result):
    id: str = Field(description="For remove")
    url: str = Field(description="Which URLs")
    method: str = Field(description="Which method, empty for any")
    does: str = Field(description="What it does")
    matched: int = Field(description="Requests that it matched")
    hits: int = Field(description="Requests that it acted on")


class RuleList(Result):
    rules: list[RuleEntry] = Field(description="Newest first; the first that applies wins")
    added: str = Field(default="", description="Id of the new rule")
    removed: list[str] = Field(default_factory=list, description="Ids of those taken out")
    note: str = Field(default="", description="What else is different while there are rules")


@tool(
    E2E,
    effect="write",
    raises=(*STEP_FAULTS, FileNotAllowed),
    examples=(
        Example(title="Mock", args={"url": "/api/cart", "respond": {"body": '{"items": []}'}}),
        Example(title="Fail the second", args={"url": "/api/pay", "failNth": 2}),
        Example(title="Edit", args={"url": "/api/me", "edit": {"jsonSet": {"role": "admin"}}}),
        Example(title="See the rules", args={"action": "list"}),
    ),
)
async def route(args: Route, sessions: Sessions) -> RuleList:
    """Mock, block, delay, fail or edit requests of all tabs. The newest matching rule wins."""
    async with sessions.using(args.session_id) as session:
        session.check_alive()
        routes = _routes(session)
        added, removed = "", list[str]()
        if args.action == "add":
            rule = await _rule(session, routes, args)
            await routes.add(rule)
            added = rule.id
            asked = args.model_dump(by_alias=True, exclude_defaults=True, exclude={"session_id"})
            session.record("route", **asked)
        elif args.action == "remove":
            taken_out = await routes.remove(args.id)
            removed = [rule.id for rule in taken_out]
            if taken_out:
                session.record("unroute", urls=[rule.url for rule in taken_out])
            if args.id is not None and not removed:
                held = ", ".join(rule.id for rule in routes.rules) or "none"
                raise _wrong("id", f"there is no rule {args.id}", f"one of: {held}", args.id)
        return RuleList(
            rules=[_entry(rule) for rule in reversed(routes.rules)],
            added=added,
            removed=removed,
            note=ROUTED if routes.rules else "",
        )


def _routes(session: E2eSession) -> BrowserRoutes:
    from pilothouse.e2e.browser.routes import BrowserRoutes

    if session.routes is None:
        assert session.browser is not None
        assert session.browser.context is not None
        assert session.policy is not None
        session.routes = BrowserRoutes(
            session.browser.context,
            session.policy,
            session.note,
            lambda request: _is_ours(session, request),
        )
    return session.routes


def _is_ours(session: E2eSession, request: Any) -> bool:
    """Tell whether a request is the session's business: a joined browser has tabs of others."""
    assert session.browser is not None
    if not session.browser.is_users:
        return True
    try:
        return any(tab.page == request.frame.page for tab in session.tabs.values())
    except Exception as error:
        if not error_name(error):
            raise
        return False  # a page that is just opening, or a service worker


async def _rule(session: E2eSession, routes: BrowserRoutes, args: Route) -> RouteRule:
    """Make the rule of a call. Raises InvalidInput, FileNotAllowed."""
    from pilothouse.e2e.browser.routes import RouteRule

    given = [name for name in _ACTIONS if getattr(args, name) is not None]
    if len(given) > 1:
        raise _wrong(
            given[1], f"{' and '.join(given)} cannot be used together", "one of them", given
        )
    if not (given or args.delay_ms or args.fail_nth):
        raise _wrong(
            "respond",
            "a rule needs something to do",
            "respond, block, edit, har, delayMs or failNth",
            "none of them",
        )
    if args.fail_nth and {"edit", "har"} & {*given}:
        raise _wrong("failNth", "it goes with respond or block", "respond or block", given[0])
    if not (args.url or args.har):
        raise _wrong("url", "a rule needs a url", "a part of the URL, or a glob", "nothing")
    for kind in (args.respond, args.edit):
        for name, value in (kind.headers if kind else {}).items():
            # The browser would leave such an answer, and the request would wait for ever.
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                field = f"{'respond' if kind is args.respond else 'edit'}.headers"
                expected = "names of letters, digits and dashes, values of one line"
                raise _wrong(field, f"{name!r} cannot be sent", expected, {name: value})
    if len(routes.rules) >= MOST_RULES:
        raise _wrong("action", f"there are {MOST_RULES} rules", "action remove first", "add")
    try:
        return RouteRule(
            routes.next_id(),
            args.url,
            args.method,
            reply=args.respond.reply() if args.respond else None,
            block=args.block or "",
            edit=args.edit.edit() if args.edit else None,
            har=await _har(session, args.har) if args.har else None,
            delay_ms=args.delay_ms,
            fail_nth=args.fail_nth,
            times=args.times,
        )
    except BadPattern as error:
        raise _wrong("url", str(error), "a shorter URL, or fewer wildcards", args.url) from None


async def _har(session: E2eSession, path: str) -> HarAnswers:
    from pilothouse.e2e.browser.routes import HarAnswers

    file = session.readable(path)
    if file.stat().st_size > MOST_HAR_BYTES:
        raise _wrong(
            "har", "the file is too large", f"a file of {MOST_HAR_BYTES} bytes at most", path
        )
    try:
        return await asyncio.to_thread(lambda: HarAnswers(file.read_bytes()))
    except ValueError as error:
        raise _wrong(
            "har", f"{path} is no HAR file: {error}", "a HAR 1.2 file, as JSON", path
        ) from None


def _entry(rule: RouteRule) -> RuleEntry:
    does = []
    if rule.delay_ms:
        does.append(f"waits {rule.delay_ms} ms")
    if rule.reply is not None:
        does.append(f"responds with {rule.reply.status}, {len(rule.reply.body)} bytes")
    elif rule.edit is not None:
        does.append("edits the response")
    elif rule.har is not None:
        does.append(f"answers from a HAR file with {len(rule.har)} entries")
    elif rule.block or rule.fail_nth:
        does.append(f"fails with {rule.block or 'failed'}")
    if rule.fail_nth:
        does.append(f"only request {rule.fail_nth}")
    if rule.times:
        does.append(f"{max(0, rule.times - rule.hits)} times more")
    return RuleEntry(
        id=rule.id,
        url=rule.url,
        method=rule.method,
        does=", ".join(does),
        matched=rule.seen,
        hits=rule.hits,
    )


def _wrong(field: str, message: str, expected: str, received: object) -> InvalidInput:
    return InvalidInput(
        f"{field}: {message}",
        hint=f"pass {expected}",
        field=field,
        expected=expected,
        received=received,
    )


# Saved states


class StateName(InSession):
    name: str = Field(description="Such as admin")


class StateCounts(Result):
    name: str = Field(description="Its name")
    cookies: int = Field(description="How many cookies")
    origins: int = Field(description="How many origins with local storage or databases")
    message: str = Field(default="", description="What the file holds")


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Keep a login", args={"name": "admin"}),),
)
async def save_state(args: StateName, sessions: Sessions) -> StateCounts:
    """Save the session's cookies and local storage by name, for loadState or startSession."""
    file = state_file(sessions.state_folder, args.name)
    message = f"{file} holds cookies and tokens as they are, not masked; only you can read it"
    async with sessions.using(args.session_id) as session:
        context = _own_context(session)
        try:
            state = await _in_time(context.storage_state(indexed_db=True))
        except ActionFailed:
            # A database may hold what cannot be written down; a login seldom lives there.
            message += "; without IndexedDB"
            state = await _in_time(context.storage_state())
        await asyncio.to_thread(_write_private, file, json.dumps(state).encode())
    return _counts(args.name, state, message)


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Log in again", args={"name": "admin"}),),
)
async def load_state(args: StateName, sessions: Sessions) -> StateCounts:
    """Replace the session's cookies and local storage by saved ones; navigate afterwards."""
    file = saved_state(sessions.state_folder, args.name)
    async with sessions.using(args.session_id) as session:
        context = _own_context(session)
        state = json.loads(await asyncio.to_thread(file.read_bytes))
        await _in_time(context.set_storage_state(state))
        session.record("loadState", name=args.name)
    return _counts(args.name, state)


def _own_context(session: E2eSession) -> BrowserContext:
    """Return the context of our own browser. Raises BrowserCrashed, DialogOpen, InvalidInput."""
    session.check_alive()
    assert session.browser is not None
    assert session.browser.context is not None
    if session.browser.is_users:
        raise InvalidInput(
            "this is your own Chrome: saving would copy all its logins, loading would end them",
            hint="use a session that was started without cdp",
        )
    for tab in session.tabs.values():
        if tab.dialog is not None:
            raise DialogOpen(
                f"a dialog is open in {tab.id}, which cannot tell what it has stored until then",
                hint="call handleDialog first",
                tabId=tab.id,
            )
    return session.browser.context


async def _in_time[T](work: Awaitable[T]) -> T:
    """Wait for the browser's answer. Raises StepTimeout, ActionFailed."""
    try:
        async with asyncio.timeout(STATE_S):
            return await work
    except TimeoutError:
        raise StepTimeout(
            f"the browser did not answer in {STATE_S} s", hint="close tabs that hang, or reload"
        ) from None
    except Exception as error:
        if not error_name(error):
            raise
        raise ActionFailed(str(error).split("\n", 1)[0], hint="check getSessionStatus") from None


def state_file(folder: Path, name: str) -> Path:
    """Return where a saved state of that name is kept, or would be.

    Raises:
        InvalidInput: it is no name.
    """
    if not _STATE_NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} is no name for a saved state",
            hint="use letters, digits, dots, dashes and underscores, as in admin-login",
            field="name",
            expected="1 to 64 of A-Z a-z 0-9 . _ -, no dot first",
            received=name[:80],
        )
    return folder / f"{name}.json"


def saved_state(folder: Path, name: str) -> Path:
    """Return the file of a saved state. Raises InvalidInput: there is none under that name."""
    path = state_file(folder, name)
    if path.is_symlink() or not path.is_file():
        raise InvalidInput(
            f"there is no saved state {name}",
            hint="save one with saveState first",
            field="name",
            expected="the name of a saved state",
            received=name,
        )
    return path


def _write_private(file: Path, content: bytes) -> None:
    """Write a file whole or not at all, and never readable by others."""
    descriptor, part = tempfile.mkstemp(dir=file.parent, prefix=".")
    try:
        with open(descriptor, "wb") as opened:
            opened.write(content)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def _counts(name: str, state: Mapping[str, Any], message: str = "") -> StateCounts:
    cookies, origins = (len(state.get(kind) or ()) for kind in ("cookies", "origins"))
    return StateCounts(name=name, cookies=cookies, origins=origins, message=message)


TOOLS = (route, save_state, load_state)
