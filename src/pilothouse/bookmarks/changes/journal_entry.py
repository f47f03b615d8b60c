"""What the journal knows of one call that changed bookmarks, and how that stands on its lines.

An entry's lines are, in this order: who did it and how many changes it has; each step before it is
begun, with the node as it was; what came of each step; how the entry ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.bookmarks.changes.change import Create, from_json, method_of, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.model import Node
    from pilothouse.machine.jsonl import Line

type State = Literal["begun", "done", "refused", "left"]
type Outcome = Literal["", "done", "taken back", "partly taken back"]

_KEPT = ("id", "parentId", "index", "title", "url")


@dataclass(slots=True)
class ChromeCall:
    """One call of Chrome's."""

    change: Change
    """Change with the ids that Chrome had then."""
    was: Node | None
    """The node before; a removed folder with all that was in it."""
    at: float
    """Time at which it was begun, in epoch ms."""
    back: int | None = None
    """The step that this one takes back, if it does."""
    state: State = "begun"
    made: Node = field(default_factory=dict)
    """The node after."""
    why: str = ""
    """Why it was left."""


@dataclass(slots=True)
class JournalEntry:
    """One call of a tool."""

    id: str
    at: float
    tool: str
    session: str
    of: int
    """Number of changes that it has."""
    undoes: str = ""
    """The entry that it undoes, if it does."""
    steps: list[ChromeCall] = field(default_factory=list)
    outcome: Outcome = ""
    """Outcome of the entry, empty while it is open."""
    undone_by: str = ""
    bytes: int = 0
    """Bytes on file."""

    @property
    def in_flight(self) -> int | None:
        """The number of the step of which it is not known whether it was carried out."""
        last = len(self.steps) - 1
        return last if last >= 0 and self.steps[last].state == "begun" else None

    @property
    def done(self) -> list[tuple[int, ChromeCall]]:
        """The steps that were carried out, without those that take others back."""
        return [
            (number, step)
            for number, step in enumerate(self.steps)
            if step.back is None and step.state == "done"
        ]

    @property
    def is_whole(self) -> bool:
        """Tell whether all changes were carried out and none was taken back."""
        return len(self.done) == self.of and all(step.back is None for step in self.steps)

    @property
    def is_undoable(self) -> bool:
        return self.outcome == "done" and not self.undone_by

    @property
    def left(self) -> list[str]:
        """Parts that could not be taken back, and why."""
        return [step.why for step in self.steps if step.state == "left"]

    @property
    def id_map(self) -> dict[str, str]:
        """Ids of removed nodes → of those that were made in their place."""
        return {
            step.change.restores: step.made["id"]
            for step in self.steps
            if isinstance(step.change, Create) and step.change.restores and step.state == "done"
        }

    @property
    def taken_back(self) -> dict[int, int | None]:
        """Number of calls done to take back each step; None: it is not taken back further."""
        ways: dict[int, int | None] = {}
        for step in self.steps:
            if step.back is None or step.state not in ("done", "left"):
                continue
            done = ways.get(step.back, 0)
            ways[step.back] = None if step.state == "left" or done is None else done + 1
        return ways


def image(node: Node) -> Node:
    """Return what is kept of a node: enough to make it again. Chrome sets its dates anew."""
    kept = {name: node[name] for name in _KEPT if name in node}
    if node.get("children"):
        kept["children"] = [image(child) for child in node["children"]]
    return kept


def ids_in(entry: JournalEntry) -> Iterator[str]:
    """Yield every id that an entry names."""
    for step in entry.steps:
        for name in ("id", "parent_id"):
            if found := getattr(step.change, name, None):
                yield found
        waiting = [step.made, step.was or {}]
        while waiting:
            node = waiting.pop()
            yield from (node[name] for name in ("id", "parentId") if name in node)
            waiting.extend(node.get("children", ()))


def head(entry: JournalEntry) -> Line:
    line = {"e": entry.id, "at": entry.at, "tool": entry.tool, "session": entry.session}
    return {**line, "of": entry.of, **({"undoes": entry.undoes} if entry.undoes else {})}


def begun(entry: JournalEntry, number: int) -> Line:
    step = entry.steps[number]
    line: Line = {"e": entry.id, "k": number, "at": step.at, "change": to_json(step.change)}
    if step.was is not None:
        line["was"] = step.was
    if step.back is not None:
        line["back"] = step.back
    return line


def ended(entry: JournalEntry, number: int) -> Line:
    step = entry.steps[number]
    line: Line = {"e": entry.id, "k": number, "state": step.state}
    if step.made:
        line["made"] = step.made
    if step.why:
        line["why"] = step.why
    return line


def closed(entry: JournalEntry) -> Line:
    return {"e": entry.id, "outcome": entry.outcome}


def lines_of(entry: JournalEntry) -> Iterator[Line]:
    """Yield all lines of an entry, for a file that is written anew."""
    yield head(entry)
    for number, step in enumerate(entry.steps):
        yield begun(entry, number)
        if step.state != "begun":
            yield ended(entry, number)
    if entry.outcome:
        yield closed(entry)


def take(entries: dict[str, JournalEntry], line: Mapping[str, Any]) -> None:
    """Read one line into the entries; what does not fit is left out: a line may be lost.

    Raises:
        KeyError, TypeError, IndexError, ValueError: it is no line of a journal.
    """
    if "of" in line:
        entries[line["e"]] = JournalEntry(
            id=line["e"],
            at=float(line["at"]),
            tool=line["tool"],
            session=line["session"],
            of=int(line["of"]),
            undoes=line.get("undoes", ""),
        )
        return
    entry = entries[line["e"]]
    if "change" in line:
        if line["k"] != len(entry.steps):
            raise IndexError("a line before it is missing")
        entry.steps.append(
            ChromeCall(
                from_json(line["change"]), line.get("was"), float(line["at"]), line.get("back")
            )
        )
    elif "state" in line:
        step = entry.steps[line["k"]]
        step.state, step.made = line["state"], line.get("made", {})
        step.why = line.get("why", "")
    else:
        entry.outcome = line["outcome"]
        if entry.undoes in entries and entry.outcome == "done":
            entries[entry.undoes].undone_by = entry.id


def summary(entry: JournalEntry) -> list[str]:
    """Return what an entry did, a few words for each change."""
    said = []
    for _, step in entry.done[:3]:
        node = step.was or step.made
        words = f"{method_of(step.change)} {str(node.get('title', ''))[:60]}".rstrip()
        inside = _count(node) - 1
        said.append(f"{words} with {inside} in it" if inside else words)
    more = len(entry.done) - len(said)
    return [*said, f"and {more} more"] if more > 0 else said


def _count(node: Node) -> int:
    count, waiting = 0, [node]
    while waiting:
        count += 1
        waiting.extend(waiting.pop().get("children", ()))
    return count
