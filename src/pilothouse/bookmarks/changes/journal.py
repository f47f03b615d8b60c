"""The journal of one profile: what the tools change is written down before it is changed."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pilothouse.bookmarks.changes import journal_entry
from pilothouse.bookmarks.changes.change import Create
from pilothouse.bookmarks.changes.journal_entry import ChromeCall, JournalEntry
from pilothouse.bookmarks.changes.plans import Plans
from pilothouse.bookmarks.model import NothingToUndo
from pilothouse.core.declare.faults import NotAvailable
from pilothouse.machine.jsonl import JournalFile, to_line

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.changes.journal_entry import Outcome
    from pilothouse.bookmarks.model import Node
    from pilothouse.machine.jsonl import Line

KEPT_ENTRIES = 1_000
KEPT_BYTES = 8 << 20
"""The newest entries up to this much are kept; twice as much may be there for a while."""
ALWAYS_KEPT = 10
"""The newest, whatever they measure: who removed everything wants it back."""


def open_journal(
    folder: Path, profile_id: str, *, alone: bool = True, kept_s: float = 0.0
) -> Journal:
    """Open the journal of a profile, with what an earlier process left in it.

    `alone` says that no other process can be writing it right now; `kept_s` how long an entry is
    kept that is none of the newest, without a limit if it is 0.

    Raises:
        OSError: it cannot be opened.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(profile_id.encode("utf-8", "replace")).hexdigest()
    return Journal(folder / f"{name[:32]}.jsonl", tag=name[:4], alone=alone, kept_s=kept_s)


class Journal:
    """The entries of a profile, oldest first, in memory and on file."""

    def __init__(
        self,
        path: Path,
        *,
        tag: str = "0",
        kept_entries: int = KEPT_ENTRIES,
        kept_bytes: int = KEPT_BYTES,
        kept_s: float = 0.0,
        alone: bool = True,
    ) -> None:
        self._path = path
        self._tag = tag
        self._kept_entries, self._kept_bytes = kept_entries, kept_bytes
        self._kept_ms = kept_s * 1000
        self.plans = Plans()
        """What agents mean to do to this profile; not on file."""
        self._load(alone)

    def _load(self, alone: bool) -> None:
        self._entries: dict[str, JournalEntry] = {}
        self._ids: dict[str, str] = {}
        self._made: set[str] = set()
        self._last = 0
        self._file = JournalFile(self._path)
        for line, length in self._file.read(alone=alone):
            # A line that is lost or damaged costs its entry, not the others.
            with suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
                self._take(line, length)
        for entry in self._entries.values():
            for step in entry.steps:
                if step.state == "done":
                    self._learn(step)
        if alone:
            self._make_room()

    def _take(self, line: Line, length: int) -> None:
        if "ids" in line:
            self._ids.update(line["ids"])
            return
        journal_entry.take(self._entries, line)
        entry = self._entries[line["e"]]
        entry.bytes += length
        self._last = max(self._last, int(entry.id.partition("-")[0]))

    def close(self) -> None:
        self._file.close()

    def catch_up(self, *, alone: bool = True) -> None:
        """Read what another process wrote meanwhile: a profile may go from one to the other.

        Whoever has no right to write may look, but is not `alone`.

        Raises:
            NotAvailable: the file cannot be opened.
        """
        try:
            if not self._file.is_current:
                self._file.close()
                self._load(alone)
        except OSError as error:
            raise self._unusable(error) from None

    # Reading

    @property
    def entries(self) -> list[JournalEntry]:
        """Oldest first."""
        return list(self._entries.values())

    @property
    def open_entries(self) -> list[JournalEntry]:
        """Entries that have not ended, the newest first: in this order they are taken back."""
        return [entry for entry in reversed(self._entries.values()) if not entry.outcome]

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._entries

    def current(self, id: str) -> str:
        """Return the id that a removed and restored node has now; any other id as it is."""
        while id in self._ids:
            id = self._ids[id]
        return id

    def has_made(self, id: str) -> bool:
        """Tell whether a finished step is known to have made this node."""
        return id in self._made

    def undoable(self, entry_id: str | None, session: str) -> JournalEntry:
        """Return the entry of this id; without one the session's last that is no undo.

        A session that did nothing yet means the last of all: the server was started again.

        Raises:
            NothingToUndo: there is none, or it was undone.
        """
        if entry_id is not None:
            return self._named(entry_id)
        forward = [entry for entry in self._entries.values() if self._is_forward(entry)]
        own = [entry for entry in forward if entry.session == session]
        for entry in reversed(own or forward):
            if entry.is_undoable:
                return entry
        raise NothingToUndo(
            "there is nothing to undo", hint="bookmark_journal lists what was done, by whom"
        )

    def _named(self, entry_id: str) -> JournalEntry:
        entry = self._entries.get(entry_id)
        hint = "bookmark_journal lists what can be undone"
        if entry is None:
            raise NothingToUndo(f"the journal has no entry {entry_id[:40]}", hint=hint)
        if entry.undone_by:
            raise NothingToUndo(
                f"{entry_id} was undone already, by {entry.undone_by}",
                hint=f"undo {entry.undone_by} to do it again",
            )
        if not entry.is_undoable:
            raise NothingToUndo(f"{entry_id} is {entry.outcome or 'not finished'}", hint=hint)
        return entry

    def _is_forward(self, entry: JournalEntry) -> bool:
        """Tell whether an entry is no undo; an undo of an undo is none, either."""
        forward = True
        while entry.undoes:
            forward = not forward
            if entry.undoes not in self._entries:
                break
            entry = self._entries[entry.undoes]
        return forward

    # Writing

    def begin(self, tool: str, session: str, of: int, undoes: str = "") -> JournalEntry:
        """Begin a new entry. It is in the journal from its first step on."""
        self._last += 1
        return JournalEntry(f"{self._last}-{self._tag}", _now(), tool, session, of, undoes)

    def step(
        self, entry: JournalEntry, change: Change, was: Node | None, back: int | None = None
    ) -> int:
        """Write down what is about to be done; its number. Only then may it be done.

        Raises:
            NotAvailable: it cannot be written, so it must not be done.
        """
        entry.steps.append(ChromeCall(change, was and journal_entry.image(was), _now(), back))
        number = len(entry.steps) - 1
        is_new = entry.id not in self._entries
        lines = [journal_entry.head(entry)] if is_new else []
        try:
            self._append(entry, *lines, journal_entry.begun(entry, number))
        except OSError as error:
            entry.steps.pop()
            raise self._unusable(error) from None
        self._entries[entry.id] = entry
        return number

    def did(
        self, entry: JournalEntry, number: int, made: Node | None, outcome: Outcome = ""
    ) -> None:
        """Note that a step was carried out; with an outcome, the entry ended with it."""
        step = entry.steps[number]
        step.state, step.made = "done", journal_entry.image(made or {})
        entry.outcome = outcome
        self._note(entry, journal_entry.ended(entry, number), *self._closing(entry))
        self._learn(step)

    def refused(self, entry: JournalEntry, number: int) -> None:
        """Note that a step was not carried out, for certain."""
        entry.steps[number].state = "refused"
        self._note(entry, journal_entry.ended(entry, number))

    def leave(self, entry: JournalEntry, back: int, why: str) -> None:
        """Note that a step cannot be taken back."""
        change = entry.steps[back].change
        entry.steps.append(ChromeCall(change, None, _now(), back, "left", why=why))
        number = len(entry.steps) - 1
        self._note(entry, journal_entry.begun(entry, number), journal_entry.ended(entry, number))

    def end(self, entry: JournalEntry, outcome: Outcome) -> None:
        entry.outcome = outcome
        self._note(entry, *self._closing(entry))

    def _unusable(self, error: OSError) -> NotAvailable:
        return NotAvailable(
            f"the bookmarks' journal cannot be written ({error.strerror}), and nothing is changed"
            " without it",
            hint=f"make room for {self._path}, then try again",
        )

    def _closing(self, entry: JournalEntry) -> list[Line]:
        if not entry.outcome:
            return []
        if entry.outcome == "done" and entry.undoes in self._entries:
            self._entries[entry.undoes].undone_by = entry.id
        return [journal_entry.closed(entry)]

    def _learn(self, step: ChromeCall) -> None:
        made = step.made.get("id")
        if not isinstance(step.change, Create) or not made:
            return
        self._made.add(made)
        # What has just been made is there under this very id, whatever was once known of it.
        self._ids.pop(made, None)
        if step.change.restores:
            self._ids[step.change.restores] = made

    def _note(self, entry: JournalEntry, *lines: Line) -> None:
        """Write what happened. If that fails, the bookmarks tell it when the entry is settled."""
        try:
            self._append(entry, *lines)
        except OSError:
            return
        is_large = self._file.size > 2 * self._kept_bytes
        if entry.outcome and (is_large or len(self._entries) > 2 * self._kept_entries):
            self._make_room()

    # The file

    def _append(self, entry: JournalEntry, *lines: Line) -> None:
        data = b"".join(map(to_line, lines))
        self._file.append(data)
        entry.bytes += len(data)

    def _make_room(self) -> None:
        """Let the oldest finished entries go, and the file shrink, once that is worth it."""
        kept = self._newest()
        going = self._file.size - sum(entry.bytes for entry in kept)
        has_many = len(self._entries) > 2 * self._kept_entries
        has_old = any(map(self._is_old, self._entries.values())) and len(kept) < len(self._entries)
        if not going or (going * 2 < self._file.size and not has_many and not has_old):
            return
        named = {id for entry in kept for id in journal_entry.ids_in(entry)}
        ids = {id: self.current(id) for id in named if id in self._ids}
        data = [to_line({"ids": ids})] if ids else []
        for entry in kept:
            written = [to_line(line) for line in journal_entry.lines_of(entry)]
            entry.bytes = sum(map(len, written))
            data += written
        try:
            self._file.replace(data)
        except OSError:
            return  # it stays as it is, only larger than it should be
        self._entries = {entry.id: entry for entry in kept}
        self._ids = ids
        self._made &= named

    def _newest(self) -> list[JournalEntry]:
        """Return what is kept: the open, the last, and as many before as there is room for."""
        kept: list[JournalEntry] = []
        room = self._kept_bytes
        for entry in reversed(self._entries.values()):
            room -= entry.bytes
            has_room = room >= 0 and len(kept) < self._kept_entries and not self._is_old(entry)
            if not entry.outcome or len(kept) < ALWAYS_KEPT or has_room:
                kept.append(entry)
        return kept[::-1]

    def _is_old(self, entry: JournalEntry) -> bool:
        return 0 < self._kept_ms < _now() - entry.at


def _now() -> float:
    """Return wall time, not our own clock's: it is compared with the times of Chrome's nodes."""
    return time.time() * 1000
