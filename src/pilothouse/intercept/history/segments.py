"""Names of the tables of the text index: two for each segment of the history.

A segment begins with the packet whose id its tables bear and ends before the next one. Few large
ones are quick to search, since each is searched by itself; several let the index shrink, since its
rows cannot be deleted and only whole tables go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("url", "text")
_NAME = re.compile(rf"(?:{'|'.join(KINDS)})_(\d+)")


def segments(names: Iterable[str]) -> list[int]:
    """Return the ids of the segments' first packets, in order, from the names of all tables."""
    return sorted({int(found[1]) for name in names if (found := _NAME.fullmatch(name))})


def tables(segment: int) -> list[str]:
    return [f"{kind}_{segment}" for kind in KINDS]
