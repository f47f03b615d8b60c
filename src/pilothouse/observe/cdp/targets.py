"""Kinds of targets, which of them a session attaches by itself, and how they are told apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pilothouse.observe.record.observation import Observation

WORKERS = frozenset({"worker", "shared_worker", "service_worker", "worklet"})
ORIGIN_WORKERS = frozenset({"shared_worker", "service_worker"})
"""Kinds of workers that belong to an origin and not to a page."""
NO_AUTO_ATTACH = {"autoAttach": False, "flatten": True, "waitForDebuggerOnStart": False}


@dataclass(eq=False, slots=True)
class Attached:
    """One CDP session and the observations that its events go to."""

    target_id: str
    type: str
    url: str
    observations: list[Observation] = field(default_factory=list)
    next_url: str = ""
    """Address that a page is on its way to."""


def auto_attach(kinds: list[dict[str, str]]) -> dict[str, Any]:
    """Attach to these kinds, paused until we let them run, and to nothing else."""
    return {
        "autoAttach": True,
        "flatten": True,
        "waitForDebuggerOnStart": True,
        "filter": [*kinds, {"exclude": True}],
    }


def own_title(title: str, url: str) -> str:
    """Return a title; empty if it is the address from the host on, shown for a page without one."""
    host = urlsplit(url).netloc.removeprefix("www.")
    return "" if title in url and host in title else title


def origin_of(url: str) -> str:
    """Return the origin of an address; of one that has none, the address itself."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else url
