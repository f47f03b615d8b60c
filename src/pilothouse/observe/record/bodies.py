"""Response bodies kept by us, within a budget of bytes: the second line after the browser's own."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from pilothouse.observe.model import Body
from pilothouse.observe.record.packed_bodies import unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

BUDGET_BYTES = 32 * 1024 * 1024
"""Bytes for each observed target; the oldest bodies make room."""
MAX_BODY_BYTES = 2 * 1024 * 1024
"""Bytes of a body; a larger one is left to the browser, which keeps it while it has room."""

_TEXT_TYPES = (
    "text/",
    "application/json",
    "application/javascript",
    "application/xml",
    "application/xhtml",
    "application/x-javascript",
    "application/graphql",
    "application/ld+json",
    "application/x-www-form-urlencoded",
    "application/manifest",
    "image/svg",
)


def is_text(mime_type: str) -> bool:
    mime_type = mime_type.lower()
    return mime_type.startswith(_TEXT_TYPES) or "+json" in mime_type or "+xml" in mime_type


def body_of(mime_type: str, charset: str, text: str, *, encoded: bool) -> Body:
    """Make a body of what the browser gives; text in another encoding than UTF-8, sent as base64,
    is text all the same."""
    if encoded and is_text(mime_type) and charset:
        try:
            return Body(mime_type, unpacked(text).decode(codecs.lookup(charset).name), False)
        except (LookupError, ValueError):
            pass  # of an unknown encoding, or not in the one that it says
    return Body(mime_type, text, encoded)


class Bodies:
    """Bodies by request id, oldest first."""

    def __init__(
        self,
        budget: int = BUDGET_BYTES,
        store: Callable[[str, Body], None] = lambda _request_id, _body: None,
    ) -> None:
        """Give each body that is kept to `store`, to keep it longer."""
        self._budget = budget
        self._store = store
        self._kept: dict[str, Body] = {}
        self._bytes = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, request_id: str) -> Body | None:
        return self._kept.get(request_id)

    def keep(self, request_id: str, body: Body) -> None:
        self._store(request_id, body)
        size = len(body.text)
        old = self._kept.pop(request_id, None)
        if old is not None:
            self._bytes -= len(old.text)
        if size > self._budget:
            return
        self._kept[request_id] = body
        self._bytes += size
        while self._bytes > self._budget:
            oldest = next(iter(self._kept))
            self._bytes -= len(self._kept.pop(oldest).text)
            self.evicted += 1

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0
