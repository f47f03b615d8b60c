"""Source maps (version 3): from a position in a bundle to the line somebody wrote.

The text comes from the page: what is wrong with it is a ValueError, here or at the first
look-up that reaches it, and time and memory are in proportion to a capped size.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from pilothouse.observe.read.function_names import enclosing_function

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 64 * 1024 * 1024  # characters; the maps of large bundles have some 30 million
MAX_SEGMENTS = 4_000_000  # lines and segments together
MAX_SECTIONS = 50_000

# Digits are read as their values, separators as the next two numbers, all the rest as 255.
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/,;"
_CODES = bytes(_ALPHABET.find(character) & 255 for character in range(256))
_COMMA, _LINE = b"\x40", b"\x41"
_BETWEEN_CHUNKS = re.compile(b"\x40+|(?=\x41)")
_SMALL = [-(value >> 1) if value & 1 else value >> 1 for value in range(32)]
# A segment as six numbers: how many it has, and the five.
_PACK = {count: struct.Struct(f"{1 + count}i{4 * (5 - count)}x").pack for count in (1, 4, 5)}
_CHUNK = 1 << 13
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")
# With a quote or a blank in it, what follows is no URL but a string of the program.
_NOTE = re.compile(r"(?m)/[/*][#@][ \t]*sourceMappingURL=((?:[^\s'\"`*]++|\*(?!/))++)\s*(?:\*/|$)")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A position in a source; line and column count from 1. `name` is what stands there, such as
    the function that is called, and empty if unknown."""

    source: str
    line: int
    column: int
    name: str


class SourceMap:
    """A parsed map; its mappings are decoded as look-ups need them, and then kept."""

    def __init__(self, sections: list[_Section]) -> None:
        self._sections = sections

    @classmethod
    def parse(cls, text: str) -> SourceMap:
        if len(text) > MAX_TEXT:
            raise ValueError(f"the map has {len(text)} characters, more than {MAX_TEXT}")
        text = text.removeprefix("\ufeff")
        if text.startswith(")]}"):  # a guard against being loaded as a script
            text = text.partition("\n")[2]
        sections: list[_Section] = []
        try:
            _collect(json.loads(text), (0, 0), sections)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"the map is not JSON: {error}") from None
        if sum(section.mappings.size for section in sections) > MAX_SEGMENTS:
            raise ValueError(f"the map has more than {MAX_SEGMENTS} segments")
        return cls(sections)

    def original(self, line: int, column: int) -> SourcePosition | None:
        """Return the place behind a position in the bundle, both counted from 1.

        Its source stands under the map's `sourceRoot`; `resolve_source` with the map's URL and
        no root makes a URL of it. Raises ValueError where mappings cannot be decoded.
        """
        if line < 1 or column < 1:
            return None
        position = (line - 1, column - 1)
        index = bisect_right(self._sections, position, key=lambda section: section.start) - 1
        return self._sections[index].original(*position) if index >= 0 else None

    def excerpt(self, place: SourcePosition, around: int = 0) -> str | None:
        """Return a place's line with `around` lines on each side, if the map has the source."""
        content = self._contents.get(place.source)
        lines = _LINE_END.split(content, place.line + around) if content is not None else []
        shown = lines[max(0, place.line - 1 - around) : place.line + around]
        return "\n".join(shown) if 1 <= place.line <= len(lines) else None

    def enclosing(self, place: SourcePosition) -> str:
        """Return the function that a place lies in, empty if the map has not the source."""
        content = self._contents.get(place.source)
        return "" if content is None else enclosing_function(content, place.line, place.column)

    @cached_property
    def _contents(self) -> dict[str, str]:
        return {
            name: content
            for section in self._sections
            for index, content in enumerate(section.contents)
            if content is not None and (name := section.source(index)) is not None
        }


@dataclass(frozen=True, slots=True)
class _Section:
    """One map of an indexed map, from `start` (line, column) of the bundle on; or a plain map."""

    start: tuple[int, int]
    root: str
    sources: list[str | None]
    names: list[str | None]
    contents: list[str | None]
    mappings: _Mappings

    def original(self, line: int, column: int) -> SourcePosition | None:
        skipped = self.start[1] if line == self.start[0] else 0
        index, line, column, name = self.mappings.find(line - self.start[0], column - skipped)
        source = self.source(index)
        if source is None or line < 0 or column < 0:
            return None
        known = self.names[name] if 0 <= name < len(self.names) else None
        return SourcePosition(source, line + 1, column + 1, known or "")

    def source(self, index: int) -> str | None:
        source = self.sources[index] if 0 <= index < len(self.sources) else None
        return None if source is None else resolve_source("", self.root, source)


class _Mappings:
    """The `mappings` of one map, surveyed in chunks, of which those asked for are decoded.

    Most numbers add up from the very beginning, so all before a chunk is read, but only its
    sums are kept. The beginning of a line counts as a segment that maps to nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = _LINE + text.encode("ascii", "replace").translate(_CODES)
        if 255 in self._text:
            raise ValueError("the mappings have a character that is no digit of base 64")
        self.size = self._text.count(_COMMA) + self._text.count(_LINE)
        self._packed = _Packed({_LINE: bytes(6 * 4)})
        self._cuts = [0]
        self._before: list[tuple[int, ...]] = [(-1, 0, 0, 0, 0, 0)]  # line, column and sums
        self._firsts: list[int] = []  # the positions of the chunks' first segments
        self._chunks: dict[int, list[array[int]]] = {}

    def find(self, line: int, column: int) -> tuple[int, int, int, int]:
        """Return source, line, column and name of what is mapped there, from 0; -1 is none."""
        position = _position(line, column)
        while self._cuts[-1] < len(self._text) and self._firsts[-1:] <= [position]:
            self._survey()
        index = bisect_right(self._firsts, position) - 1
        if index not in self._chunks:
            self._chunks[index] = self._decode(index)
        positions, counts, *columns = self._chunks[index]
        nearest = bisect_right(positions, position) - 1
        if positions[nearest] < _position(line, -1) or counts[nearest] < 4:
            return -1, -1, -1, -1
        source, line, column, name = (values[nearest] for values in columns)
        return source, line, column, name if counts[nearest] == 5 else -1

    def _survey(self) -> None:
        start = self._cuts[-1]
        cut = _BETWEEN_CHUNKS.search(self._text, start + _CHUNK)
        end = cut.end() if cut else len(self._text)
        counts, columns, *others = self._read(start, end)
        line, column, *sums = self._before[-1]
        first = _position(line, column + columns[0]) if counts[0] else _position(line + 1, -1)
        if lines := counts.count(0):
            column = 0
            del columns[: len(counts) - counts[::-1].index(0)]
        sums = [total + sum(other) for total, other in zip(sums, others, strict=True)]
        self._firsts.append(first)
        self._before.append((line + lines, column + sum(columns), *sums))
        self._cuts.append(end)

    def _decode(self, index: int) -> list[array[int]]:
        line, column, *sums = self._before[index]
        rows = []
        for count, step, *steps in zip(*self._read(*self._cuts[index : index + 2]), strict=True):
            line, column = (line, column + step) if count else (line + 1, 0)
            sums = [total + more for total, more in zip(sums, steps, strict=True)]
            rows.append((_position(line, column if count else -1), count, *sums))
        rows.sort(key=lambda row: row[0])  # columns may go back
        return [array("q", values) for values in zip(*rows, strict=True)]

    def _read(self, start: int, end: int) -> list[array[int]]:
        chunk = self._text[start:end].replace(_LINE, _COMMA + _LINE + _COMMA)
        segments = filter(None, chunk.split(_COMMA))
        numbers = array("i", b"".join(map(self._packed.__getitem__, segments)))
        return [numbers[field::6] for field in range(6)]


def _position(line: int, column: int) -> int:
    """Return both in one number; the beginning of a line is its column -1."""
    return (line << 32) + min(column + 1, (1 << 32) - 1)


class _Packed(dict[bytes, bytes]):
    """Segments packed as numbers; real maps repeat a few thousand segments over and over."""

    def __missing__(self, segment: bytes) -> bytes:
        numbers: list[int] = []
        value = shift = 0
        # Five bits a digit, the lowest first; the lowest of all is the sign.
        for digit in segment[:36]:
            if digit > 31:
                value += (digit - 32) << shift
                shift += 5
            elif shift:
                value += digit << shift
                numbers.append(-(value >> 1) if value & 1 else value >> 1)
                value = shift = 0
            else:
                numbers.append(_SMALL[digit])
        whole = not shift and len(segment) <= 35  # five numbers of seven digits
        try:
            packed = _PACK[whole and len(numbers)](len(numbers), *numbers)
        except (KeyError, struct.error):
            raise ValueError("a mapping is not of 1, 4 or 5 numbers of 32 bits") from None
        if len(self) < 1 << 16:
            self[segment] = packed
        return packed


def _collect(data: Any, start: tuple[int, int], into: list[_Section]) -> None:
    """Lay a map's sections, or the map itself, flat into a list."""
    match data:
        case {"version": 3, "sections": list(sections)} if len(sections) <= MAX_SECTIONS:
            for section in sections:
                match section:
                    case {"offset": {"line": int(line), "column": int(column)}, "map": inner}:
                        column += 0 if line else start[1]
                        _collect(inner, (start[0] + line, column), into)
                    case _:
                        raise ValueError("a section has no offset or no map of its own")
        case {"version": 3, "mappings": str(mappings)} if len(into) < MAX_SECTIONS:
            lists = [data.get(key) or [] for key in ("sources", "names", "sourcesContent")]
            root = data.get("sourceRoot") or ""
            texts = all(type(x) is list and {*map(type, x)} <= {str, type(None)} for x in lists)
            if not texts or not isinstance(root, str):
                raise ValueError("sources, names, sourcesContent or sourceRoot is of another type")
            if start < (into[-1].start if into else (0, 0)):
                raise ValueError("the sections are not in order")
            sources, names, contents = lists
            into.append(_Section(start, root, sources, names, contents, _Mappings(mappings)))
        case _:
            raise ValueError("the map is not of version 3, without mappings, or of many sections")


def map_url(script_url: str, script_text: str, headers: Mapping[str, str]) -> str | None:
    """Return where a script's or style sheet's map is: by its headers, else its last comment."""
    sent = {name.lower(): value.strip() for name, value in headers.items()}
    last = script_text.rfind("sourceMappingURL=")
    comment = _NOTE.search(script_text, max(0, last - 16))
    said = sent.get("sourcemap") or sent.get("x-sourcemap") or (comment and comment[1])
    url = _resolve(script_url, said) if said else ""
    return url if _URL.match(url) else None


def inline_map(data_url: str) -> str:
    """Return the text of a map that stands in a `data:` URL."""
    head, comma, payload = data_url.partition(",")
    if head[:5].lower() != "data:" or not comma or len(payload) > 2 * MAX_TEXT:
        raise ValueError(f"the map is no data: URL, or of more than {2 * MAX_TEXT} characters")
    try:
        content = unquote_to_bytes(payload)
        if head.lower().endswith(";base64"):
            content = base64.b64decode(content + b"==")  # the padding may have been left out
        return content.decode()
    except ValueError as error:
        raise ValueError(f"the inline map cannot be decoded: {error}") from None


def resolve_source(map_url: str, source_root: str, source: str) -> str:
    """Return a source's URL as browsers make it; of an inline map, `map_url` is the script's."""
    if source_root and not _URL.match(source):
        between = "" if source_root.endswith("/") or source.startswith("/") else "/"
        source = source_root + between + source
    return _resolve(map_url, source)


def _resolve(base: str, reference: str) -> str:
    """Join URLs of any scheme; urllib's join knows neither webpack: nor chrome-extension:."""
    against = _URL.match(base)
    if against and against[2] is not None and not _URL.match(reference):
        scheme, host, path, _ = against.groups()
        folder = "" if reference.startswith("/") else path.rpartition("/")[0] + "/"
        reference = scheme + ("" if reference.startswith("//") else host + folder) + reference
    absolute = _URL.match(reference)
    if not absolute or absolute[2] is None:
        return reference
    scheme, host, path, rest = absolute.groups()
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[max(1, len(kept) - 1) :]
        elif part != ".":
            kept.append(part)
    return scheme + host + "/".join(kept) + rest
