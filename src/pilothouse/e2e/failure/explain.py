"""From a failed step to the fault that an agent gets: its type, its dossier and the next calls."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Image
from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.browser.busy_pages import Busy
from pilothouse.e2e.browser.elements.cover import Covered
from pilothouse.e2e.browser.errors import Trouble, read_error, script_message
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.browser.screenshots import FAILURE
from pilothouse.e2e.failure.digest import cut
from pilothouse.e2e.failure.dossier import compose, cut_line, next_calls, whole
from pilothouse.e2e.failure.evidence import gather
from pilothouse.e2e.failure.step_faults import STAYS_COVERED, fault_of
from pilothouse.e2e.model import (
    TabNotFound,
    browser_crashed,
)
from pilothouse.e2e.tab import Missed, NotBuilt, RefGone

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.declare.faults import Fault
    from pilothouse.e2e.failure.causes import Evidence
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.step import Step
    from pilothouse.e2e.tab import Tab

    type Page = Callable[[str, dict[str, Any], bytes], str]
    """Maker of the page that a person opens, from a title, a dossier and a picture."""


class Explainer:
    """Makes faults; `page` renders a dossier for people, `serves` knows the tools of the agent.

    `picture` says what an answer has of the page's picture: `image`, `path` or `none`.
    """

    def __init__(
        self,
        page: Page,
        mask: Callable[[Any], Any],
        serves: Callable[[str], bool],
        picture: str,
    ) -> None:
        self._page = page
        self._mask = mask
        self._serves = serves
        self._picture = picture

    async def __call__(
        self, session: E2eSession, tab: Tab, step: Step, error: BaseException
    ) -> BaseException:
        trouble = _trouble(error, tab, step)
        if trouble.kind == "syntax":
            return InvalidInput(
                f"selector: {trouble.message}",
                hint="use CSS, label=Name, placeholder=Search, a Playwright selector such as"
                " text=Save or role=button[name='Save'], or a ref of a snapshot",
                field="selector",
                expected="a CSS or Playwright selector, or a ref such as e12",
                received=step.target,
            )
        if session.browser_gone() or (tab.page.is_closed() and await session.browser_went()):
            return browser_crashed(session.id)
        if tab.page.is_closed():
            return TabNotFound(
                f"tab {tab.id} was closed during this step",
                hint="call tabs to see what is open",
                tabId=tab.id,
            )
        is_inline = bool(step.args.get("inline"))
        evidence = await gather(
            session,
            tab,
            step,
            trouble,
            pictured=is_inline or self._picture != "none",
            shown=self._picture == "image",
        )
        fault = fault_of(session, tab, step, trouble, evidence)
        now = iso(session.clock())
        frame = {
            "next": next_calls(evidence, tab.target_id, self._serves),
            "dossier": self._keep(session, step, fault, evidence, now),
        }
        # The file has all of it; an answer must be affordable.
        # Masked before it is cut: half of a secret would not be known as one.
        fault.message = cut(self._mask(fault.message), 600)
        fault.hint = cut(self._mask(fault.hint), 400)
        fault.details = _short(self._mask(fault.details), 300)
        if notices := session.take_notices():
            frame["notices"] = _short(self._mask(notices), 120)
        taken = {**fault.details, **frame, "message": fault.message, "suggestion": fault.hint}
        made = compose(evidence, session.base, now, taken)
        fault.details.update(made.inside, **frame)
        fault.beside = made.beside
        if evidence.thumbnail:
            fault.blocks = (Image(evidence.thumbnail, "image/jpeg"),)
        if is_inline and evidence.screenshot:
            fault.inline = {"screenshot": {"data": _data_url(evidence.screenshot["path"])}}
        return fault

    def _keep(
        self, session: E2eSession, step: Step, fault: Fault, evidence: Evidence, now: str
    ) -> dict[str, str]:
        """Save the page for people, as a file that can be passed on; return where it is."""
        name = f"dossier-{step.number}.html"
        picture = b""
        if evidence.screenshot:
            picture = (session.folder / FAILURE.format(step.number)).read_bytes()
        facts = {
            "type": fault.code,
            "message": fault.message,
            "suggestion": fault.hint,
            "step": f"{step.number} {step.tool} {step.target}",
            "url": step.url,
            "at": now,
            **{k: v for k, v in fault.details.items() if k in ("selector", "timeout", "reason")},
            **whole(evidence, session.base, now),
            "snapshot": evidence.snapshot,
        }
        title = f"{step.tool} {step.target}: {fault.code}"
        html = self._page(self._mask(title), self._mask(facts), picture)
        path = session.save(name, html.encode("utf-8", "replace"))
        return {"uri": session.uri(name), "path": str(path)}


def _data_url(path: str) -> str:
    return f"data:image/png;base64,{base64.b64encode(Path(path).read_bytes()).decode()}"


def _trouble(error: BaseException, tab: Tab, step: Step) -> Trouble:
    if tab.crashed:
        return Trouble("crashed", "the tab crashed")
    if isinstance(error, Missed):
        return Trouble("missed", f"{error or 'nothing'} took it", cover=str(error))
    if isinstance(error, Busy):
        return Trouble("busy", "the page answers nothing")
    if isinstance(error, Covered):
        return Trouble("timeout", f"{error} covers it", cover=str(error), obstacle=STAYS_COVERED)
    if isinstance(error, NotBuilt):
        return Trouble("not_built", str(error))
    if isinstance(error, RefGone):
        return Trouble("not_found", "no element has this ref")
    if isinstance(error, TimeoutError) and not error_name(error):
        return Trouble("timeout", f"Timeout: {error}" if str(error) else "the wait was in vain")
    trouble = read_error(error_name(error), str(error))
    if step.tool == "evaluate" and trouble.kind == "other":
        return Trouble("script", script_message(str(error)))
    return trouble


def _short(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cut_line(value, most)
    if isinstance(value, dict):
        return {key: _short(inner, most) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner, most) for inner in value]
    return value
