"""From a failed step to the fault that an agent gets: its type, its dossier and the next calls."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Image
from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.browser.busy_pages import Busy
from pilothouse.e2e.browser.elements.cover import STAYS_S, Covered
from pilothouse.e2e.browser.errors import DOWNLOAD, Trouble, read_error, ref_of, script_message
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.browser.screenshots import FAILURE
from pilothouse.e2e.failure.causes import covering
from pilothouse.e2e.failure.digest import cut
from pilothouse.e2e.failure.dossier import compose, cut_line, next_calls, whole
from pilothouse.e2e.failure.evidence import gather
from pilothouse.e2e.model import (
    ActionFailed,
    BuildFailed,
    ClickMissed,
    ElementNotFound,
    NavigationFailed,
    ScriptError,
    SelectorAmbiguous,
    StaleRef,
    StepFault,
    StepTimeout,
    TabNotFound,
    UrlNotAllowed,
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


STAYS_COVERED = "another element keeps covering it"


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
        fault = self._fault(session, tab, step, trouble, evidence)
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

    def _fault(
        self, session: E2eSession, tab: Tab, step: Step, trouble: Trouble, evidence: Evidence
    ) -> StepFault:
        target = trouble.sought or step.target
        limit = step.args.get("timeout")
        common: dict[str, Any] = {"sessionId": session.id, "tabId": tab.id, "url": tab.url}
        match trouble.kind:
            case "not_found" | "timeout" | "busy" if evidence.awaited:
                return StepTimeout(
                    f"Timeout: the tab waits for {evidence.awaited.url}, which the server has not"
                    " answered",
                    hint="readServerLogs may say why; navigate elsewhere, or give it more time",
                    selector=step.selector or None,
                    timeout=limit,
                    **common,
                )
            case "not_found" | "timeout" | "busy" if evidence.is_silent:
                unseen = step.selector and trouble.kind != "timeout"
                return StepTimeout(
                    "Timeout: the page answers nothing, it is busy"
                    + (f', so that "{step.selector}" could not be looked for' if unseen else ""),
                    hint="a script that does not end may keep it busy: open another tab with tabs"
                    f' (action "new") and close this one (action "close", tabId "{tab.id}")',
                    selector=step.selector or None,
                    timeout=limit,
                    **common,
                )
            case "not_found" if ref_of(target):
                return StaleRef(
                    f"ref {target} is not in the page any more",
                    hint="call snapshot for fresh refs",
                    selector=target,
                    **common,
                )
            case "not_found":
                return ElementNotFound(
                    f'Element not found: "{target}"' + (f" ({limit} ms)" if limit else ""),
                    hint="Check if selector is correct or if element is dynamically loaded",
                    selector=target,
                    timeout=limit,
                    **common,
                )
            case "ambiguous":
                return SelectorAmbiguous(
                    f'"{target}" matches {trouble.found or "several"} elements',
                    hint="use one of the candidates, or a ref of a snapshot",
                    selector=target,
                    **common,
                )
            case "not_built":
                return BuildFailed(
                    f"The edit does not compile: {trouble.message}",
                    hint="fix the code, then waitFor(hmr: true)",
                    **common,
                )
            case "missed":
                return ClickMissed(
                    f'{step.tool} of "{target}" missed, twice: {trouble.message}',
                    hint="wait until the page stands still (waitFor), or act on what is there"
                    " (snapshot shows it)",
                    selector=target,
                    tookIt=trouble.cover or None,
                    **common,
                )
            case "timeout":
                why = trouble.obstacle
                cover = covering(evidence)
                if cover:
                    why = f"{cover} covers it"
                stays = trouble.obstacle == STAYS_COVERED
                if stays:
                    why, limit = f"{why}, and has for {STAYS_S:.0f} s", int(STAYS_S * 1000)
                said = f'Timeout: "{target}" is there, but {why}' if why and target else ""
                return StepTimeout(
                    said or trouble.message,
                    hint=_way_out(trouble, cover),
                    selector=step.selector or None,
                    timeout=limit,
                    covers=cover or None,
                    **common,
                )
            case "navigation":
                return self._navigation(session, step, trouble, common)
            case "script":
                hint = "correct the script; the page's own errors are in `console`"
                if "Illegal return" in trouble.message:
                    hint = "write it as a function, () => { … return … }, or as one expression"
                return ScriptError(
                    trouble.message,
                    hint=hint,
                    script=str(step.args.get("script", ""))[:500],
                    error=trouble.message,
                    **common,
                )
            case "replaced":
                kind = ScriptError if step.tool == "evaluate" else ActionFailed
                return kind(
                    f"{step.tool} did not end: {trouble.message}",
                    hint="wait for that page first (waitFor takes url, text or selector), then"
                    " try again",
                    **common,
                )
            case "crashed":
                return ActionFailed(
                    f"tab {tab.id} crashed",
                    hint="navigate revives it, or open another with tabs (action new); the session"
                    " goes on",
                    **common,
                )
        hint = "call snapshot to see what the element is and can do"
        if trouble.message.startswith("Unknown key"):
            hint = "use a name of KeyboardEvent.key, such as Enter, ArrowDown, a or Control+A"
        return ActionFailed(
            trouble.message,
            hint=hint,
            selector=step.selector or None,
            **common,
        )

    def _navigation(
        self, session: E2eSession, step: Step, trouble: Trouble, common: dict[str, Any]
    ) -> StepFault:
        url = str(step.args.get("url", "")) or common["url"]
        refused = session.proxy.find(url) if session.proxy else None
        if refused is not None and refused.at >= step.began_at:
            return UrlNotAllowed(
                refused.reason,
                hint="stay on the app's own address, or list the host in ALLOWED_HOSTS",
                **{**common, "url": url, "rule": refused.rule},
            )
        return NavigationFailed(
            f"{url} could not be loaded: {trouble.message}",
            hint=_navigation_hint(trouble.message),
            **{**common, "url": url, "reason": trouble.message},
        )


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


def _way_out(trouble: Trouble, cover: str) -> str:
    if cover:
        more = "; timeout gives it more time" if trouble.obstacle == STAYS_COVERED else ""
        return f"close or wait for what covers it ({cover}), then try again{more}"
    if trouble.obstacle == "it is disabled":
        return "fill in what the page wants first; waitFor can wait until it is enabled"
    return "look at the screenshot and the causes; waitFor waits for what must come first"


def _navigation_hint(reason: str) -> str:
    if reason == DOWNLOAD:
        return "the file is saved; getSessionStatus lists downloads with their paths"
    if "ERR_ABORTED" in reason:
        return "the answer has no page (204, a download), or another navigation came first"
    if "CONNECTION_REFUSED" in reason:
        return "nothing listens there: getSessionStatus says how the app's server is"
    if "NAME_NOT_RESOLVED" in reason or "TUNNEL" in reason:
        return "the host is not known here; check the URL"
    return "check the URL and readServerLogs"


def _short(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return cut_line(value, most)
    if isinstance(value, dict):
        return {key: _short(inner, most) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner, most) for inner in value]
    return value
