"""Fault of a failed step, by the kind of trouble that it met: type, message and hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.browser.elements.cover import STAYS_S
from pilothouse.e2e.browser.errors import DOWNLOAD, ref_of
from pilothouse.e2e.failure.causes import covering
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
    UrlNotAllowed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pilothouse.e2e.browser.errors import Trouble, TroubleKind
    from pilothouse.e2e.failure.causes import Evidence
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.step import Step
    from pilothouse.e2e.tab import Tab

STAYS_COVERED = "another element keeps covering it"


def fault_of(
    session: E2eSession, tab: Tab, step: Step, trouble: Trouble, evidence: Evidence
) -> StepFault:
    """Return the fault of a failed step, without what its dossier adds."""
    failure = _Failure(session, tab, step, trouble, evidence)
    if trouble.kind in ("not_found", "timeout", "busy"):
        if evidence.awaited:
            return _unanswered(failure, evidence.awaited.url)
        if evidence.is_silent:
            return _silent(failure)
    return _FAULTS.get(trouble.kind, _failed)(failure)


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed step, with what is known of its failure."""

    session: E2eSession
    tab: Tab
    step: Step
    trouble: Trouble
    evidence: Evidence

    @property
    def target(self) -> str:
        return self.trouble.sought or self.step.target

    @property
    def limit(self) -> Any:
        """Timeout that the call gave, in milliseconds."""
        return self.step.args.get("timeout")

    @property
    def common(self) -> dict[str, Any]:
        """Details that every fault has."""
        return {"sessionId": self.session.id, "tabId": self.tab.id, "url": self.tab.url}


def _unanswered(failure: _Failure, url: str) -> StepFault:
    return StepTimeout(
        f"Timeout: the tab waits for {url}, which the server has not answered",
        hint="readServerLogs may say why; navigate elsewhere, or give it more time",
        selector=failure.step.selector or None,
        timeout=failure.limit,
        **failure.common,
    )


def _silent(failure: _Failure) -> StepFault:
    step = failure.step
    unseen = step.selector and failure.trouble.kind != "timeout"
    return StepTimeout(
        "Timeout: the page answers nothing, it is busy"
        + (f', so that "{step.selector}" could not be looked for' if unseen else ""),
        hint="a script that does not end may keep it busy: open another tab with tabs"
        f' (action "new") and close this one (action "close", tabId "{failure.tab.id}")',
        selector=step.selector or None,
        timeout=failure.limit,
        **failure.common,
    )


def _not_found(failure: _Failure) -> StepFault:
    target, limit = failure.target, failure.limit
    if ref_of(target):
        return StaleRef(
            f"ref {target} is not in the page any more",
            hint="call snapshot for fresh refs",
            selector=target,
            **failure.common,
        )
    return ElementNotFound(
        f'Element not found: "{target}"' + (f" ({limit} ms)" if limit else ""),
        hint="Check if selector is correct or if element is dynamically loaded",
        selector=target,
        timeout=limit,
        **failure.common,
    )


def _ambiguous(failure: _Failure) -> StepFault:
    return SelectorAmbiguous(
        f'"{failure.target}" matches {failure.trouble.found or "several"} elements',
        hint="use one of the candidates, or a ref of a snapshot",
        selector=failure.target,
        **failure.common,
    )


def _not_built(failure: _Failure) -> StepFault:
    return BuildFailed(
        f"The edit does not compile: {failure.trouble.message}",
        hint="fix the code, then waitFor(hmr: true)",
        **failure.common,
    )


def _missed(failure: _Failure) -> StepFault:
    return ClickMissed(
        f'{failure.step.tool} of "{failure.target}" missed, twice: {failure.trouble.message}',
        hint="wait until the page stands still (waitFor), or act on what is there"
        " (snapshot shows it)",
        selector=failure.target,
        tookIt=failure.trouble.cover or None,
        **failure.common,
    )


def _timed_out(failure: _Failure) -> StepFault:
    target, limit, trouble = failure.target, failure.limit, failure.trouble
    why = trouble.obstacle
    cover = covering(failure.evidence)
    if cover:
        why = f"{cover} covers it"
    stays = trouble.obstacle == STAYS_COVERED
    if stays:
        why, limit = f"{why}, and has for {STAYS_S:.0f} s", int(STAYS_S * 1000)
    said = f'Timeout: "{target}" is there, but {why}' if why and target else ""
    return StepTimeout(
        said or trouble.message,
        hint=_way_out(trouble, cover),
        selector=failure.step.selector or None,
        timeout=limit,
        covers=cover or None,
        **failure.common,
    )


def _way_out(trouble: Trouble, cover: str) -> str:
    if cover:
        more = "; timeout gives it more time" if trouble.obstacle == STAYS_COVERED else ""
        return f"close or wait for what covers it ({cover}), then try again{more}"
    if trouble.obstacle == "it is disabled":
        return "fill in what the page wants first; waitFor can wait until it is enabled"
    return "look at the screenshot and the causes; waitFor waits for what must come first"


def _not_loaded(failure: _Failure) -> StepFault:
    session, step, trouble = failure.session, failure.step, failure.trouble
    url = str(step.args.get("url", "")) or failure.common["url"]
    refused = session.proxy.find(url) if session.proxy else None
    if refused is not None and refused.at >= step.began_at:
        return UrlNotAllowed(
            refused.reason,
            hint="stay on the app's own address, or list the host in ALLOWED_HOSTS",
            **{**failure.common, "url": url, "rule": refused.rule},
        )
    return NavigationFailed(
        f"{url} could not be loaded: {trouble.message}",
        hint=_navigation_hint(trouble.message),
        **{**failure.common, "url": url, "reason": trouble.message},
    )


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


def _script_failed(failure: _Failure) -> StepFault:
    message = failure.trouble.message
    hint = "correct the script; the page's own errors are in `console`"
    if "Illegal return" in message:
        hint = "write it as a function, () => { … return … }, or as one expression"
    return ScriptError(
        message,
        hint=hint,
        script=str(failure.step.args.get("script", ""))[:500],
        error=message,
        **failure.common,
    )


def _replaced(failure: _Failure) -> StepFault:
    kind = ScriptError if failure.step.tool == "evaluate" else ActionFailed
    return kind(
        f"{failure.step.tool} did not end: {failure.trouble.message}",
        hint="wait for that page first (waitFor takes url, text or selector), then try again",
        **failure.common,
    )


def _crashed(failure: _Failure) -> StepFault:
    return ActionFailed(
        f"tab {failure.tab.id} crashed",
        hint="navigate revives it, or open another with tabs (action new); the session goes on",
        **failure.common,
    )


def _failed(failure: _Failure) -> StepFault:
    message = failure.trouble.message
    hint = "call snapshot to see what the element is and can do"
    if message.startswith("Unknown key"):
        hint = "use a name of KeyboardEvent.key, such as Enter, ArrowDown, a or Control+A"
    return ActionFailed(
        message, hint=hint, selector=failure.step.selector or None, **failure.common
    )


_FAULTS: Mapping[TroubleKind, Callable[[_Failure], StepFault]] = {
    "not_found": _not_found,
    "ambiguous": _ambiguous,
    "not_built": _not_built,
    "missed": _missed,
    "timeout": _timed_out,
    "navigation": _not_loaded,
    "script": _script_failed,
    "replaced": _replaced,
    "crashed": _crashed,
}
"""Makers of the faults by their kind; `_failed` makes all others."""
