"""The HTML in which every browser exports its bookmarks.

It was never specified, and no browser writes it as valid HTML: lists are nested in unclosed items,
a folder's list follows its heading. It is read the way browsers read it: headings, lists and links
count, everything else is skipped.
"""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from pilothouse.bookmarks.files.node import DEEPEST, Saved, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HEAD = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<!-- This is an automatically generated file.
     It will be read and overwritten.
     DO NOT EDIT! -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks</H1>
<DL><p>
"""
_KINDS = {
    "personal_toolbar_folder": "bookmarks-bar",
    "unfiled_bookmarks_folder": "other",
}
_MILLISECONDS_FROM = 1e11
"""Seconds are smaller for the next thousand years, milliseconds and microseconds are larger."""


def is_netscape(text: str) -> bool:
    start = text[:2_000].lower()
    return "netscape-bookmark-file" in start or ("<dl" in text.lower() and "<dt" in text.lower())


def read_netscape(text: str) -> list[Saved]:
    """Read the bookmarks and folders of an export.

    Raises:
        InvalidInput: it is nested deeper than any browser would write.
    """
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.entries


class _Reader(HTMLParser):
    """Builds entries from headings, lists and links."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.entries: list[Saved] = []
        self._lists: list[list[Saved]] = [self.entries]
        self._heading: Saved | None = None
        """A folder whose list has yet to begin."""
        self._open: Saved | None = None
        """The link or heading whose title is being read."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("dt", "dd", "dl", "hr"):
            self._end()  # some tools close no link
        if tag == "a":
            self._begin(Saved(title="", url=given.get("href", ""), added=_time(given, "add_date")))
        elif tag == "h3":
            kind = next((_KINDS[name] for name in _KINDS if given.get(name) == "true"), "")
            self._heading = Saved(
                title="",
                added=_time(given, "add_date"),
                modified=_time(given, "last_modified"),
                kind=kind,
            )
            self._begin(self._heading)
        elif tag == "dl":
            self._lists.append(self._heading.children if self._heading else self._lists[-1])
            self._heading = None
            if len(self._lists) > DEEPEST:
                raise too_deep()

    def handle_endtag(self, tag: str) -> None:
        if tag in ("a", "h3"):
            self._end()
        elif tag == "dl" and len(self._lists) > 1:
            self._heading = None
            self._lists.pop()

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open.title += data

    def _begin(self, entry: Saved) -> None:
        self._end()
        self._open = entry
        self._lists[-1].append(entry)

    def _end(self) -> None:
        if self._open is not None:
            self._open.title = self._open.title.strip()
            self._open = None


def _time(attributes: dict[str, str], name: str) -> float | None:
    """Return epoch milliseconds; files have seconds, some tools write milli- or microseconds."""
    digits = attributes.get(name, "").strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        return None
    value = float(digits)
    while value >= _MILLISECONDS_FROM:
        value /= 1_000
    return value * 1_000 or None


def write_netscape(entries: Sequence[Saved]) -> str:
    """Return the text of a file that every browser imports."""
    lines = [HEAD]
    # The root has no title anywhere: what it holds is the file.
    for entry in entries:
        lines.extend(_lines(entry, 1))
    lines.append("</DL><p>\n")
    return "".join(lines)


def _lines(entry: Saved, depth: int) -> Iterator[str]:
    indent = "    " * depth
    title = escape(entry.title, quote=False)
    added = _seconds("ADD_DATE", entry.added)
    if entry.url is not None:
        yield f'{indent}<DT><A HREF="{escape(entry.url)}"{added}>{title}</A>\n'
        return
    kind = next((f' {name.upper()}="true"' for name in _KINDS if _KINDS[name] == entry.kind), "")
    yield f"{indent}<DT><H3{added}{_seconds('LAST_MODIFIED', entry.modified)}{kind}>{title}</H3>\n"
    yield f"{indent}<DL><p>\n"
    for child in entry.children:
        yield from _lines(child, depth + 1)
    yield f"{indent}</DL><p>\n"


def _seconds(name: str, milliseconds: float | None) -> str:
    return f' {name}="{int(milliseconds // 1000)}"' if milliseconds else ""
