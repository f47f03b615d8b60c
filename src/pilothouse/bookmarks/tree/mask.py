"""Masks what is secret in the titles and addresses of many bookmarks at once.

Reading each of 20,000 texts closely takes longer than fetching them. One look at all of them
together tells which ones could hold a secret, and only those are read closely.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.tree.tree import flat
from pilothouse.core.regex import OWN_MEMORY, compile_pattern
from pilothouse.core.secrets.prefilter import NAME_HINTS
from pilothouse.core.secrets.shapes import SHAPE_HINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pilothouse.bookmarks.model import Node
    from pilothouse.core.secrets.redactor import Redactor

_SCHEMES = ("bearer", "basic", "negotiate", "dpop")
# Between a name and its secret stands one of these.
_SIGNS = frozenset("=:<\"'\\")


def mask(nodes: Sequence[Node], redactor: Redactor) -> int:
    """Mask a tree in place, and count the texts that changed. The tree is the caller's own."""
    everything = flat(nodes)
    changed = _mask_all(everything, "url", redactor.url, redactor)
    return changed + _mask_all(everything, "title", redactor.text, redactor)


def masked(node: Node, redactor: Redactor) -> Node:
    """Return a copy of a bookmark or folder, masked."""
    shown = dict(node)
    mask([shown], redactor)
    return shown


def _mask_all(
    nodes: Sequence[Node], name: str, read: Callable[[str], str], redactor: Redactor
) -> int:
    holders = [node for node in nodes if node.get(name)]
    changed = 0
    for place in suspects([node[name] for node in holders], redactor, are_urls=name == "url"):
        node = holders[place]
        safe = read(node[name])
        changed += safe != node[name]
        node[name] = safe
    return changed


def suspects(texts: Sequence[str], redactor: Redactor, *, are_urls: bool) -> Iterable[int]:
    """Return the numbers of texts to be read closely; it errs only on the side of reading."""
    if redactor.reveal:
        return ()
    lines = "\n".join(texts)
    if redactor.taught_in(lines):  # of which no hint tells
        return range(len(texts))
    if lines.count("\n") >= len(texts):
        lines = "\n".join([text.replace("\n", " ") for text in texts])
    shapes, bare, names = _patterns()
    if are_urls:
        # Without a user and without `key=value` a URL has no place for a secret but by its shape.
        placed = {at for at, url in enumerate(texts) if "=" in url or "@" in url}
        return sorted(placed | _lines_with(shapes, lines))
    # The dotted capital I is the one letter whose lower case is longer.
    lower = lines.replace("\u0130", "I").lower()
    named = {at for at in _lines_with(names, lower) if not _SIGNS.isdisjoint(texts[at])}
    return sorted(named | _lines_with(bare, lower))


def _lines_with(pattern: Any, lines: str) -> set[int]:
    """Return the numbers of the lines in which the pattern is found."""
    data = lines.encode("utf-8", "replace")
    spots = [found.start() for found in pattern.finditer(data)]
    if not spots:
        return set()
    ends = list(accumulate(len(line) + 1 for line in data.split(b"\n")))
    return {bisect_right(ends, spot) for spot in spots}


@lru_cache(maxsize=1)
def _patterns() -> tuple[Any, Any, Any]:
    """Compile shapes of secrets; what is secret in lower case without a name; names of secrets."""

    def lines_with(*hints: str) -> Any:
        return compile_pattern(rf"(?:{'|'.join(map(re.escape, hints))})[^\n]*", memory=OWN_MEMORY)

    lower = [hint.lower() for hint in SHAPE_HINTS]
    return (
        lines_with(*SHAPE_HINTS),
        lines_with(*lower, *_SCHEMES, "://"),
        lines_with(*NAME_HINTS),
    )
