"""Tools that act in the page: navigate, click, type and their kin."""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pilothouse.core.declare.model import Args
from pilothouse.core.declare.tool import Example, tool
from pilothouse.e2e.browser.elements.cover import unless_covered
from pilothouse.e2e.browser.elements.field_values import (
    check_value,
    clear,
    may_refuse,
    shown,
    value_after,
)
from pilothouse.e2e.browser.elements.landing import Landing, land
from pilothouse.e2e.browser.errors import ref_of
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.model import STEP_FAULTS, FileNotAllowed, NavigationFailed, UrlNotAllowed
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools.dialog import handle_dialog
from pilothouse.e2e.tools.shared import (
    DEFAULT_TIMEOUT_MS,
    E2E,
    Acted,
    Acting,
    Selector,
    Targeting,
    Timeout,
    acted,
    step,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.step import StepOutcome
    from pilothouse.e2e.tab import Tab

    type Point = Callable[[Tab], Awaitable[Landing]]

VALUE_MS = 1_000
"""Milliseconds after which a field that has not given its value has gone, or its page is busy."""


async def full_url(session: E2eSession, url: str) -> str:
    """Return a URL in full; a path is one of the app's own.

    Raises:
        UrlNotAllowed: the policy does not let the browser go there.
    """
    if url.startswith("/") and not url.startswith(("//", "/\\")):
        url = session.base + url
    from pilothouse.e2e.egress_proxy.app_addresses import judged_addresses

    verdict = session.policy().check_url(url) if session.policy else None
    if verdict is not None and not verdict.allowed:
        raise UrlNotAllowed(
            verdict.reason,
            hint="stay on the app's own address, or list the host in ALLOWED_HOSTS",
            url=url,
            rule=verdict.rule,
        )
    if session.policy and session.browser and session.browser.is_users:
        # The user's own browser does not go through our proxy: the name is judged here.
        await judged_addresses(url, session.policy())
    return url


class Navigate(Acting):
    url: str = Field(description="URL or path of the app")
    wait_until: Literal["load", "domcontentloaded", "networkidle"] = Field(
        default="load", description="When it counts as loaded"
    )
    timeout: Timeout = DEFAULT_TIMEOUT_MS


class Navigated(Acted):
    status: int | None = Field(default=None, description="HTTP status of the page")
    title: str = Field(default="", description="Title of the page")


@tool(
    E2E,
    effect="write",
    open_world=True,
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Open a page of the app", args={"url": "/cart"}),),
)
async def navigate(args: Navigate, sessions: Sessions) -> Navigated:
    """Go to a URL."""
    session = sessions.find(args.session_id)
    url = await full_url(session, args.url)

    async def do(tab: Tab) -> tuple[int | None, str]:
        began = session.clock()
        with tab.title_asked_early() as title_now:
            answer = await tab.go(url, args.wait_until, args.timeout)
        if answer is not None:
            _check_proxy(args.url, tab.url, answer.headers)
            if answer.status == HTTPStatus.BAD_GATEWAY:
                _check_tunnel(session, tab.url, began)
        return answer.status if answer else None, await title_now()

    # What a document does until it is loaded is no change of it: there is nothing to ask then.
    look = args.wait_until != "load"
    done = await step(sessions, args, "navigate", do, target=args.url, look=look)
    status, title = done.value or (None, "")
    return Navigated(
        **acted(done), success=not done.is_held, status=status, title=session.mask(title)
    )


def _check_proxy(asked: str, reached: str, headers: dict[str, str]) -> None:
    """Check that our own proxy did not write the page, which is no page of the address then.

    Raises:
        UrlNotAllowed, NavigationFailed
    """
    if rule := headers.get("x-pilothouse-blocked"):
        raise UrlNotAllowed(
            f"{asked} led to an address that this session's browser may not visit",
            hint="stay on the app's own address, or list the host in ALLOWED_HOSTS",
            url=reached,
            rule=rule,
        )
    if reason := headers.get("x-pilothouse-failed"):
        raise NavigationFailed(
            f"{asked} could not be loaded: {reason}",
            hint="check the URL; getSessionStatus says how the app's server is",
            url=reached,
            reason=reason,
        )


def _check_tunnel(session: E2eSession, reached: str, began: float) -> None:
    """Check a 502: an interceptor says it in the server's name if our proxy refused the tunnel.

    Raises:
        UrlNotAllowed
    """
    refused = session.proxy.find(reached) if session.proxy else None
    if refused is not None and refused.at >= began:
        raise UrlNotAllowed(
            refused.reason,
            hint="stay on the app's own address, or list the host in ALLOWED_HOSTS",
            url=reached,
            rule=refused.rule,
        )


class GoBack(Acting):
    forward: bool = Field(default=False, description="Go forward instead")


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Back", args={}),),
    profile="default",
)
async def go_back(args: GoBack, sessions: Sessions) -> Acted:
    """Go back in the tab's history, or forward."""

    async def do(tab: Tab) -> None:
        await (tab.page.go_forward() if args.forward else tab.page.go_back())

    done = await step(sessions, args, "goBack", do)
    return Acted(**acted(done), success=not done.is_held)


class Click(Targeting):
    button: Literal["left", "right", "middle"] = Field(default="left", description="Mouse button")
    double: bool = Field(default=False, description="Double click")
    modifiers: list[Literal["Alt", "Control", "Meta", "Shift"]] | None = Field(
        default=None, description="Keys held down"
    )


@tool(
    E2E,
    effect="write",
    profile="default",
    raises=STEP_FAULTS,
    examples=(
        Example(title="By ref", args={"selector": "e12"}),
        Example(title="By text", args={"selector": "text=Add to cart"}),
    ),
)
async def click(args: Click, sessions: Sessions) -> Acted:
    """Click an element; says what the click caused. A covered or disabled target is an error."""

    async def do(tab: Tab) -> Landing:
        return await land(
            tab,
            args.selector,
            "double" if args.double and args.button == "left" else args.button,
            lambda: _patiently(
                args,
                tab,
                args.selector,
                tab.locator(args.selector).click(
                    button=args.button,
                    click_count=2 if args.double else 1,
                    modifiers=args.modifiers,
                    timeout=args.timeout,
                ),
            ),
        )

    return await _pointed(sessions, args, "click", do, args.selector)


async def _patiently[T](args: Acting, tab: Tab, selector: str, doing: Awaitable[T]) -> T:
    """Act on an element that may be covered: for as long as the call says, if it does."""
    if "timeout" in args.model_fields_set:
        return await doing
    return await unless_covered(tab, selector, doing)


async def _pointed(sessions: Sessions, args: Acting, tool: str, do: Point, target: str) -> Acted:
    """Take a step of the pointer; what it changed it has asked for itself."""
    done = await step(sessions, args, tool, do, target=target, look=args.settle > 0)
    session = sessions.find(args.session_id)
    return Acted(**acted(done, **_landed(session, done.value or Landing())))


def _landed(session: E2eSession, landing: Landing) -> dict[str, Any]:
    return {"landed": session.mask(landing.took), "retried": landing.retried}


class Type(Targeting):
    text: str = Field(description="Replaces what is there")
    submit: bool = Field(default=False, description="Press Enter afterwards")
    slowly: bool = Field(default=False, description="Key by key")
    secret: bool = Field(default=False, description="Never show it")


@tool(
    E2E,
    effect="write",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Log in", args={"selector": "#user", "text": "ada", "submit": True}),),
)
async def type_(args: Type, sessions: Sessions) -> Acted:
    """Type text into a field."""
    session = sessions.find(args.session_id)
    if args.secret:
        session.keep_secret(args.text)

    async def do(tab: Tab) -> str | None:
        field = tab.locator(args.selector)
        entry = FormField(selector=args.selector, value=args.text)
        try:
            if args.slowly:
                await clear(field, args.timeout)
                await field.press_sequentially(args.text, timeout=args.timeout)
            else:
                if await may_refuse(tab):
                    await check_value(field, args.text, args.selector, args.timeout)
                await field.fill(args.text, timeout=args.timeout)
        except Exception:
            await _learn_passwords(tab, [entry], session)  # its error shows what was to be typed
            raise
        if args.submit:
            await _learn_passwords(tab, [entry], session)
            await field.press("Enter", timeout=args.timeout)
            return None
        # One question tells both: what typing changed, and whether it was a password.
        changes = await tab.changes()
        if changes is None or changes.password is None:
            await _learn_passwords(tab, [entry], session)
        elif changes.password:
            tab.keep_kind(args.selector, "password")
            session.keep_secret(args.text)
        tab.keep_changes(changes)
        return await value_after(field, changes, VALUE_MS)

    done = await step(sessions, args, "type", do, target=args.selector, look=args.submit)
    value = done.value
    if value is None and done.dom is not None:
        value = done.dom.value
    if value is None and session.mask(args.text) != args.text:
        value = args.text  # a password: shown as a mask
    return Acted(**acted(done, value=shown(session, value)))


async def _kind(field: Any, limit: float) -> str:
    """Return a type such as `password`, `checkbox` or `select-one`; what is no field has none."""
    return str(await field.evaluate("element => element.type", timeout=limit))


async def _check(field: Any, entry: FormField, limit: float) -> str:
    return await check_value(field, str(entry.value), entry.selector, limit)


class FormField(Args):
    selector: Selector = Field(description="CSS, Playwright or ref")
    value: str | bool | list[str] = Field(description="Text, checked or options")


class FillForm(Acting):
    fields: list[FormField] = Field(min_length=1, description="In order")
    submit: Selector | None = Field(default=None, description="Clicked at the end")
    timeout: Timeout = DEFAULT_TIMEOUT_MS


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(
        Example(
            title="Sign up",
            args={
                "fields": [
                    {"selector": "#name", "value": "Ada"},
                    {"selector": "#terms", "value": True},
                ],
                "submit": "text=Sign up",
            },
        ),
    ),
    profile="default",
)
async def fill_form(args: FillForm, sessions: Sessions) -> Acted:
    """Fill in several fields in one call."""
    session = sessions.find(args.session_id)
    done: StepOutcome[str | None] | StepOutcome[Landing] | None = None
    landing = Landing()
    values: list[str] = []
    for entry in args.fields:

        async def fill(tab: Tab, entry: FormField = entry) -> str | None:
            if entry is args.fields[0]:
                await _learn_passwords(tab, args.fields, session)
            field = tab.locator(entry.selector)
            if isinstance(entry.value, bool):
                checking = field.set_checked(entry.value, timeout=args.timeout)
                await _patiently(args, tab, entry.selector, checking)
            elif isinstance(entry.value, list):
                await field.select_option(entry.value, timeout=args.timeout)
            else:
                kind = await _check(field, entry, args.timeout)
                tab.keep_kind(entry.selector, kind)
                if kind == "password":  # one that was not there before
                    session.keep_secret(entry.value)
                if kind.startswith("select-"):
                    await field.select_option(entry.value, timeout=args.timeout)
                else:
                    await field.fill(entry.value, timeout=args.timeout)
                if kind == "password":
                    return entry.value
            changes = await tab.changes()
            tab.keep_changes(changes)
            return await value_after(field, changes, VALUE_MS)

        is_last = entry is args.fields[-1] and not args.submit
        filled = await step(sessions, args, "fillForm", fill, target=entry.selector, tells=is_last)
        values.append(shown(session, filled.value) or "")
        done = filled
    if args.submit:
        button = args.submit

        async def press(tab: Tab) -> Landing:
            return await land(tab, button, "left", partial(click_button, tab))

        def click_button(tab: Tab) -> Awaitable[None]:
            clicking = tab.locator(button).click(timeout=args.timeout)
            return _patiently(args, tab, button, clicking)

        look = args.settle > 0
        pressed = await step(sessions, args, "fillForm", press, target=button, look=look)
        done, landing = pressed, pressed.value or landing
    assert done is not None
    return Acted(**acted(done, value=values, **_landed(session, landing)))


async def _learn_passwords(tab: Tab, fields: list[FormField], session: E2eSession) -> None:
    """Learn passwords before any field can fail: the error would show what others were to get."""

    async def learn(entry: FormField) -> None:
        try:
            found = tab.locator(entry.selector)
            if ref_of(entry.selector):  # which is not found like those of a selector
                kinds = [await _kind(found, 1_000)]
            else:
                kinds = await found.evaluate_all("all => all.map(e => e.type)")
        except Exception as error:
            if not error_name(error):
                raise
            return  # its fault comes when it is its turn
        if "password" in kinds:
            tab.keep_kind(entry.selector, "password")
            session.keep_secret(str(entry.value))

    await asyncio.gather(*(learn(entry) for entry in fields if isinstance(entry.value, str)))


class SelectOption(Targeting):
    values: list[str] = Field(min_length=1, description="Values or labels")


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Choose", args={"selector": "#size", "values": ["L"]}),),
    profile="default",
)
async def select_option(args: SelectOption, sessions: Sessions) -> Acted:
    """Choose options of a select."""

    async def do(tab: Tab) -> str | None:
        field = tab.locator(args.selector)
        await field.select_option(args.values, timeout=args.timeout)
        changes = await tab.changes()
        tab.keep_changes(changes)
        return await value_after(field, changes, VALUE_MS)

    ran = await step(sessions, args, "selectOption", do, target=args.selector, look=args.settle > 0)
    value = shown(sessions.find(args.session_id), ran.value)
    return Acted(**acted(ran, value=value))


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Open a menu", args={"selector": "text=Menu"}),),
    profile="default",
)
async def hover(args: Targeting, sessions: Sessions) -> Acted:
    """Move the mouse over an element."""

    async def do(tab: Tab) -> Landing:
        def hovering() -> Awaitable[None]:
            moving = tab.locator(args.selector).hover(timeout=args.timeout)
            return _patiently(args, tab, args.selector, moving)

        return await land(tab, args.selector, "hover", hovering)

    return await _pointed(sessions, args, "hover", do, args.selector)


class PressKey(Acting):
    key: str = Field(description="Such as Enter or Control+A")
    selector: Selector | None = Field(default=None, description="Focused first")
    timeout: Timeout = DEFAULT_TIMEOUT_MS


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Close a dialog", args={"key": "Escape"}),),
    profile="default",
)
async def press_key(args: PressKey, sessions: Sessions) -> Acted:
    """Press a key, in the focused element or in one of your choice."""

    async def do(tab: Tab) -> None:
        if args.selector:
            await tab.locator(args.selector).press(args.key, timeout=args.timeout)
        else:
            # Has no limit of its own: a page that is stuck never takes the key.
            await within(args.timeout, "pressKey", tab.page.keyboard.press(args.key))

    target = args.selector or args.key
    return Acted(**acted(await step(sessions, args, "pressKey", do, target=target)))


class Drag(Acting):
    from_: Selector = Field(alias="from", description="What is dragged")
    to: Selector = Field(description="Where it is dropped")
    timeout: Timeout = DEFAULT_TIMEOUT_MS


@tool(
    E2E,
    effect="write",
    raises=STEP_FAULTS,
    examples=(Example(title="Sort", args={"from": "#card-1", "to": "#done"}),),
    profile="default",
)
async def drag(args: Drag, sessions: Sessions) -> Acted:
    """Drag one element onto another."""

    async def do(tab: Tab) -> Landing:
        def dragging() -> Awaitable[None]:
            moving = tab.locator(args.from_).drag_to(tab.locator(args.to), timeout=args.timeout)
            return _patiently(args, tab, args.from_, moving)

        return await land(tab, args.to, "drag", dragging)

    return await _pointed(sessions, args, "drag", do, args.from_)


class UploadFile(Targeting):
    paths: list[str] = Field(description="Files under the working folder; none clears the field")


@tool(
    E2E,
    effect="write",
    raises=(*STEP_FAULTS, FileNotAllowed),
    examples=(Example(title="Attach", args={"selector": "#file", "paths": ["cat.png"]}),),
    profile="default",
)
async def upload_file(args: UploadFile, sessions: Sessions) -> Acted:
    """Give files to a file field."""
    session = sessions.find(args.session_id)
    files = [session.readable(path) for path in args.paths]

    async def do(tab: Tab) -> None:
        await tab.locator(args.selector).set_input_files(files, timeout=args.timeout)

    return Acted(**acted(await step(sessions, args, "uploadFile", do, target=args.selector)))


TOOLS = (
    navigate,
    click,
    type_,
    fill_form,
    select_option,
    press_key,
    hover,
    drag,
    upload_file,
    handle_dialog,
    go_back,
)
