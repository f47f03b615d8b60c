"""The tool that answers dialogs; with what the page did then, and what the dialog had held up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.tool import Example, tool
from pilothouse.e2e.browser.errors import read_error
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.model import STEP_FAULTS
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools.shared import E2E, Acted, InTab, acted

if TYPE_CHECKING:
    from pilothouse.e2e.tab import Tab

GOES_ON_S = 2.0
"""Seconds to wait for what the dialog had held up."""


class HandleDialog(InTab):
    accept: bool = Field(description="OK, or Cancel if false")
    text: str | None = Field(default=None, description="What a prompt is answered with")


class DialogHandled(Acted):
    handled: bool = Field(description="Always true")
    type: str = Field(description="alert, confirm, prompt or beforeunload")
    message: str = Field(description="What the dialog said")
    dialog: dict[str, Any] | None = Field(default=None, description="The next one, open now")
    step: str = Field(default="", description="What it had held up, if that is not done")


@tool(
    E2E,
    effect="write",
    profile="default",
    raises=STEP_FAULTS,
    examples=(Example(title="Confirm", args={"accept": True}),),
)
async def handle_dialog(args: HandleDialog, sessions: Sessions) -> DialogHandled:
    """Accept or dismiss the dialog that is open in a tab; says what that caused."""
    async with sessions.using(args.session_id) as session:
        session.check_alive()
        tab = session.tab(args.tab_id)
        dialog = tab.dialog
        if dialog is None:
            raise InvalidInput(
                f"no dialog is open in {tab.id}",
                hint="an answer with `dialog` says when one is",
                field="tabId",
                expected="a tab with an open dialog",
                received=tab.id,
            )

        async def answer() -> str:
            tab.dialog = None
            navigations = tab.navigations
            if args.accept:
                await dialog.accept(args.text) if args.text is not None else await dialog.accept()
            else:
                await dialog.dismiss()
            leaves = dialog.type == "beforeunload" and args.accept
            return await _went_on(tab, navigations if leaves else None)

        done = await session.answer_dialog(tab, {"accept": args.accept, "text": args.text}, answer)
        return DialogHandled(
            **acted(done),
            handled=True,
            type=dialog.type,
            message=session.mask(dialog.message),
            step=session.mask(done.value or ""),
        )


async def _went_on(tab: Tab, left_at: int | None) -> str:
    """Wait until the page has gone on, and say what of the step that stood still is not done.

    `left_at` is how often the tab had navigated when it was allowed to leave its page.
    """
    held = tab.held_up
    task = held[1] if held else asyncio.ensure_future(tab.page.evaluate("0"))
    if not held:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    loop = asyncio.get_running_loop()
    deadline = loop.time() + GOES_ON_S
    # Neither a dialog nor a navigation ends the step that waits for it.
    while not (tab.dialog or tab.page.is_closed()) and loop.time() < deadline:
        if task.done() and (left_at is None or tab.navigations > left_at):
            break
        await asyncio.wait((task,), timeout=0.01) if not task.done() else await asyncio.sleep(0.01)
    if tab.dialog or not held:
        return ""
    tab.held_up = None
    step = held[0]
    if step.looks:
        return ""  # it was reported as not done
    if not task.done():
        return f"{step.name} is still under way"
    error = None if task.cancelled() else task.exception()
    if error is None or not error_name(error):
        return ""
    return f"{step.name} was not done: {read_error(error_name(error), str(error)).message}"
