"""What a step set off that comes a moment after it: a tab, a download, or the answer of which of
them it is. The page's own events announce it before the browser tells of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.failure.digest import CANCELLED, exchanges

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pilothouse.e2e.step import Step
    from pilothouse.e2e.tab import Tab

CERTAIN_S = 2.0
"""Seconds for what surely comes; it takes a fraction of this unless the machine is busy."""
PERHAPS_S = 0.3
"""Seconds to wait for a document that may turn out to be a download."""
LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Announced:
    """Counts of what the events of a step announce."""

    tabs: int
    downloads: int
    is_undecided: bool
    """True if a document was requested that is neither shown nor saved so far."""

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
        """Return the seconds to wait after a step, given what the browser has reported since it
        began."""
        tabs = sum(text.startswith("tab opened") for text in noted)
        downloads = sum(text.startswith("download") for text in noted)
        if tabs < self.tabs or downloads < self.downloads:
            return CERTAIN_S
        return PERHAPS_S if self.is_undecided else 0.0


async def announced(
    step: Step,
    tab: Tab,
    news: asyncio.Event,
    noted: Callable[[], Sequence[tuple[float, str]]],
) -> list[dict[str, Any]]:
    """Wait for the tabs and downloads that a step's events announce, and return its events.

    Args:
        step: Was taken.
        tab: In which it was.
        news: Is set whenever the browser tells something.
        noted: Returns what the browser told, with when it did.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    events = tab.events(step.first_seq)
    while events and tab.dialog is None and not tab.page.is_closed():
        news.clear()
        came = [text for at, text in noted() if at >= step.began_at]
        rest = began + Announced.of(events).limit(came) - loop.time()
        if rest <= 0:
            break
        with suppress(TimeoutError):
            async with asyncio.timeout(min(rest, LOOK_AGAIN_S)):
                await news.wait()
        events = tab.events(step.first_seq)
    return events
