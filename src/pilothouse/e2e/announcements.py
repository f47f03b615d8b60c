"""What a step set off that comes a moment after it: a tab, a download, or the answer of which of
them it is. The page's own events announce it before the browser tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.failure.digest import CANCELLED, exchanges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CERTAIN_S = 2.0
"""For what surely comes, which takes a fraction of this unless the machine is busy."""
PERHAPS_S = 0.3
"""For a document that may turn out to be a download."""
LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Announced:
    """Counts of what the events of a step announce."""

    tabs: int
    downloads: int
    is_undecided: bool
    """A document was asked for that is neither shown nor saved so far."""

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]]) -> Announced:
        """Read the events of a step."""
        kinds = [event.get("type") for event in events]
        documents = [e for e in exchanges(events) if e.kind == "Document"]
        newest = documents[-1] if documents else None
        return cls(
            tabs=kinds.count("windowOpened"),
            downloads=kinds.count("downloadBegun"),
            is_undecided=newest is not None
            and (newest.error == CANCELLED or not (newest.status or newest.ended_at)),
        )

    def limit(self, noted: Sequence[str]) -> float:
        """Return for how many seconds after a step to wait, given what the browser has told since
        it began."""
        tabs = sum(text.startswith("tab opened") for text in noted)
        downloads = sum(text.startswith("download") for text in noted)
        if tabs < self.tabs or downloads < self.downloads:
            return CERTAIN_S
        return PERHAPS_S if self.is_undecided else 0.0
