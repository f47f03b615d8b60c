"""One step: what was asked for, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.model import DialogOpen

if TYPE_CHECKING:
    from pilothouse.e2e.failure.digest import DomChanges
    from pilothouse.e2e.tab import Tab

LOOKING = frozenset(("screenshot", "snapshot", "find", "getContent", "exists", "pdf"))
"""Tools that cannot cause anything; their answers have no place for what happened meanwhile."""
BEFORE_UNLOAD = "beforeunload"
"""The type of a dialog that asks whether its page may be left."""
LEAVING = frozenset(("navigate", "goBack"))
"""Tools that leave the document, and whatever it had still to do."""


def only_looks(tool: str) -> bool:
    """Tell whether a tool only looks or waits, so that nothing can come of it."""
    return tool in LOOKING or tool.startswith("wait")


def needs_rest(tool: str, last: str) -> bool:
    """Return whether a tool comes after what the last one left to the page's timers.

    Keys follow each other as fast as they like: a page that cannot bear it cannot bear a keyboard.
    """
    return not (only_looks(tool) or tool in LEAVING or tool == last == "pressKey")


@dataclass(slots=True)
class Step:
    """One call of a browser tool."""

    number: int
    tool: str
    target: str
    args: dict[str, Any]
    """Arguments of the agent's call, for the test that is written from it."""
    tab: str
    began_at: float
    first_seq: int
    ended_at: float = 0.0
    ok: bool = False
    url: str = ""
    fault: str = ""
    """The type of the fault that it failed with."""
    navigations: int = 0
    """Number of navigations that its tab had made when it ended."""
    locators: dict[str, str] = field(default_factory=dict)
    """Locators by selectors: how a test would find the same elements."""
    log_sizes: dict[str, int] = field(default_factory=dict)
    """Bytes that each log which a server writes itself had when the step began."""
    kind: str = ""
    """The `type` of the field it fills in, where that decides how: `select-one`, `password`."""

    @property
    def name(self) -> str:
        return f"{self.tool} {self.target}".strip()

    @property
    def looks(self) -> bool:
        """True if it only looks or waits, so that nothing can come of it."""
        return only_looks(self.tool)

    @property
    def selector(self) -> str:
        """The target where it is an element, not an address, a text or a key."""
        named = {self.args.get(name) for name in ("selector", "from")}
        return self.target if self.target in named or self.tool == "fillForm" else ""


def selectors_of(step: Step) -> list[str]:
    """Return the selectors of the elements that a step names."""
    if step.tool == "fillForm":
        return [step.target]
    return [step.args[name] for name in ("selector", "from", "to") if step.args.get(name)]


@dataclass(frozen=True, slots=True)
class StepOutcome[T]:
    """The value of a step, and what it caused so far."""

    value: T | None
    step: int
    """Number of the step, which names the files that it made."""
    url: str
    navigated: bool
    dom: DomChanges | None
    requests: list[str]
    console: list[str]
    browser: list[str]
    earlier: list[str]
    """Lines on what happened after the answer before."""
    notices: list[dict[str, Any]]
    dialog: dict[str, Any] | None

    @property
    def is_held(self) -> bool:
        """True if the page asks whether it may be left, and is still there."""
        return self.dialog is not None and self.dialog["type"] == BEFORE_UNLOAD


def dialog_facts(tab: Tab) -> dict[str, Any]:
    """Return what is open, and the step that may not be done: the page cannot be asked then."""
    dialog = tab.dialog
    assert dialog is not None
    facts = {"type": dialog.type, "message": dialog.message, "default": dialog.default_value or ""}
    if tab.held_up and not tab.held_up[0].looks:
        asks = "the page asks before it is left, " if dialog.type == BEFORE_UNLOAD else ""
        facts["holdsUp"] = f"{tab.held_up[0].name}: {asks}handleDialog says if it was not done"
    return facts


def dialog_open(tab: Tab) -> DialogOpen:
    facts = dialog_facts(tab)
    kind = facts["type"]
    return DialogOpen(
        f"{'an' if kind == 'alert' else 'a'} {kind} dialog is open in {tab.id}",
        hint="call handleDialog first",
        tabId=tab.id,
        dialog=facts,
    )
