"""Source maps (version 3): from a position in a bundle to the line somebody wrote.

The text comes from the page, so it is taken as hostile: what is wrong with it is a
`ValueError`, here or at the first look-up that reaches it, and nothing costs more than
time and memory in proportion to a capped size.
"""

from __future__ import annotations

import base64
import json
import re
from array import array
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TEXT = 64 * 1024 * 1024  # characters; the maps of large bundles have some 30 million
MAX_SEGMENTS = 4_000_000  # lines and segments together; each takes 21 bytes once decoded
MAX_SECTIONS = 50_000

_BASE64 = {digit: n for n, digit in enumerate(ascii_uppercase + ascii_lowercase + digits + "+/")}
_NOWHERE = (-1, -1, -1, -1)
_CHUNK = 1 << 16  # of the mappings are decoded at once
_BETWEEN_SEGMENTS = re.compile("[,;]")
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")
_COMMENT = re.compile(r"/[/*][#@][ \t]*sourceMappingURL=")
# With a quote or a blank in it, it is not a URL but part of the program.
_REST_OF_COMMENT = re.compile(
    r"[ \t]*((?:[^\s'\"`*]++|\*(?!/))+)[ \t]*(?:\*/|[\n\r\u2028\u2029]|\Z)"
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a source; line and column count from 1, `name` is empty if unknown."""

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
        except json.JSONDecodeError as error:
            raise ValueError(f"the map is not JSON: {error}") from None
        except RecursionError:
            raise ValueError("the map is nested too deeply") from None
        if any(one.start > other.start for one, other in pairwise(sections)):
            raise ValueError("the sections are not in order")
        if sum(section.mappings.size for section in sections) > MAX_SEGMENTS:
            raise ValueError(f"the map has more than {MAX_SEGMENTS} segments")
        return cls(sections)

    def original(self, line: int, column: int) -> Place | None:
        """The place behind a position in the bundle, both counted from 1.

        Its source is as the map names it, under the map's `sourceRoot`; `resolve_source` with
        the map's URL and no root makes a URL of it. Raises ValueError where the mappings up
        to that line cannot be decoded.
        """
        if line < 1 or column < 1:
            return None
        position = (line - 1, column - 1)
        index = bisect_right(self._sections, position, key=lambda section: section.start) - 1
        return self._sections[index].original(*position) if index >= 0 else None

    def excerpt(self, place: Place, around: int = 0) -> str | None:
        """The line of a place with `around` lines on either side, if the map has the source."""
        content = self._contents.get(place.source)
        if content is None or place.line < 1:
            return None
        lines = _LINE_END.split(content, maxsplit=place.line + around)
        shown = lines[max(0, place.line - 1 - around) : place.line + around]
        return "\n".join(shown) if place.line <= len(lines) else None

    @cached_property
    def _contents(self) -> dict[str, str]:
        return {
            name: content
            for section in self._sections
            for index, content in enumerate(section.contents[: len(section.sources)])
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

    def original(self, line: int, column: int) -> Place | None:
        skipped = self.start[1] if line == self.start[0] else 0
        index, line, column, name = self.mappings.find(line - self.start[0], column - skipped)
        source = self.source(index)
        if source is None or line < 0 or column < 0:
            return None
        known = self.names[name] if 0 <= name < len(self.names) else None
        return Place(source, line + 1, column + 1, known or "")

    def source(self, index: int) -> str | None:
        source = self.sources[index] if 0 <= index < len(self.sources) else None
        return None if source is None else resolve_source("", self.root, source)


class _Mappings:
    """The `mappings` of one map, in columns of numbers as long as what was decoded so far.

    The beginning of a line is kept as a segment that maps to nothing, and generated columns
    are summed up through all lines. So a whole chunk is decoded without a statement per
    segment, and a column is its distance from the beginning of its line.
    """

    def __init__(self, text: str) -> None:
        self.size = text.count(",") + text.count(";") + 1
        self._text = ";" + text
        self._decoded = 0
        self._lines = array("i")  # the segment with which each line begins
        self._fields = bytearray()  # how many numbers each segment has
        self._values = tuple(array("i") for _ in range(5))
        self._ascending = True
        self._orders: dict[int, array[int]] = {}

    def find(self, line: int, column: int) -> tuple[int, int, int, int]:
        """Source, line, column and name of what is mapped there, from 0; -1 is none."""
        while len(self._lines) <= line + 1 and self._decoded < len(self._text):
            self._decode_chunk()
        if line >= len(self._lines):
            return _NOWHERE
        columns, sources, source_lines, source_columns, names = self._values
        start = self._lines[line]
        end = self._lines[line + 1] if line + 1 < len(self._lines) else len(columns)
        target = columns[start] + column
        if self._ascending:
            index = bisect_right(columns, target, start + 1, end) - 1
        else:
            if line not in self._orders:
                sort = sorted(range(start + 1, end), key=columns.__getitem__)
                self._orders[line] = array("i", [start, *sort])
            order = self._orders[line]
            index = order[bisect_right(order, target, 1, key=columns.__getitem__) - 1]
        if self._fields[index] < 4:
            return _NOWHERE
        name = names[index] if self._fields[index] == 5 else -1
        return sources[index], source_lines[index], source_columns[index], name

    def _decode_chunk(self) -> None:
        cut = _BETWEEN_SEGMENTS.search(self._text, self._decoded + _CHUNK)
        end = cut.start() if cut else len(self._text)
        chunk = self._text[self._decoded : end].replace(";", ",;,")
        if segments := list(map(_deltas, filter(None, chunk.split(",")))):
            fields, *deltas = zip(*segments, strict=True)
            try:
                sums = [
                    array("i", accumulate(delta, initial=values[-1] if values else 0))[1:]
                    for values, delta in zip(self._values, deltas, strict=True)
                ]
            except OverflowError:
                raise ValueError("a mapping is out of range") from None
            # All is decoded before any is kept: a bad chunk is bad each time it is asked for.
            known = len(self._fields)
            self._lines.extend(known + n for n, count in enumerate(fields) if count == 0)
            self._fields.extend(fields)
            for values, more in zip(self._values, sums, strict=True):
                values.extend(more)
            self._ascending = self._ascending and min(deltas[0]) >= 0
        self._decoded = end


@lru_cache(maxsize=1 << 15)  # real maps are the same few thousand segments over and over
def _deltas(segment: str) -> tuple[int, int, int, int, int, int]:
    """How many numbers a segment has, and the five; `;` has none."""
    numbers = [] if segment == ";" else vlq(segment)
    if len(numbers) not in (0, 1, 4, 5):
        raise ValueError(f"a mapping has {len(numbers)} numbers, not 1, 4 or 5")
    column, source, line, source_column, name = numbers + [0] * (5 - len(numbers))
    return len(numbers), column, source, line, source_column, name


def vlq(segment: str) -> list[int]:
    """Numbers in base 64, five bits a digit and the lowest first; the lowest bit is the sign."""
    numbers: list[int] = []
    value = shift = 0
    for character in segment[:40]:  # five numbers of seven digits have fewer
        digit = _BASE64.get(character)
        if digit is None or shift > 30:
            raise ValueError(f"a mapping has a number that is not one at {character!r}")
        value |= (digit & 31) << shift
        if digit & 32:
            shift += 5
        else:
            numbers.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    if shift:
        raise ValueError("a mapping ends within a number")
    return numbers


def _collect(data: Any, start: tuple[int, int], into: list[_Section]) -> None:
    """Lays a map's sections, or the map itself, flat into a list."""
    if not isinstance(data, dict) or data.get("version") != 3:
        raise ValueError("the map is not an object of version 3")
    sections = data.get("sections")
    if sections is None:
        root, mappings = data.get("sourceRoot") or "", data.get("mappings")
        if not isinstance(root, str) or not isinstance(mappings, str):
            raise ValueError("mappings or sourceRoot is not a string")
        sources, names, contents = (_texts(data, k) for k in ("sources", "names", "sourcesContent"))
        into.append(_Section(start, root, sources, names, contents, _Mappings(mappings)))
        return
    if not isinstance(sections, list) or len(into) + len(sections) > MAX_SECTIONS:
        raise ValueError(f"sections is not a list, or of more than {MAX_SECTIONS}")
    for section in sections:
        match section:
            case {"offset": {"line": int(line), "column": int(column)}, "map": inner}:
                if line < 0 or column < 0:
                    raise ValueError("a section begins before the bundle")
                _collect(inner, (start[0] + line, column + (0 if line else start[1])), into)
            case _:
                raise ValueError("a section has no offset or no map of its own")


def _texts(data: dict[str, Any], key: str) -> list[str | None]:
    texts = data.get(key) or []
    if not isinstance(texts, list) or not all(isinstance(one, str | None) for one in texts):
        raise ValueError(f"{key} is not a list of strings")
    return texts


def map_url(script_url: str, script_text: str, headers: Mapping[str, str]) -> str | None:
    """Where the map of a script or style sheet is: as its headers say, else its last comment."""
    sent = {name.lower(): value.strip() for name, value in headers.items()}
    said = sent.get("sourcemap") or sent.get("x-sourcemap") or _comment(script_text)
    url = _resolve(script_url, said) if said else ""
    return url if _URL.match(url) else None


def _comment(text: str) -> str | None:
    # The last few suffice; trying all could take time in the square of the text.
    for mark in reversed(deque(_COMMENT.finditer(text), maxlen=8)):
        if said := _REST_OF_COMMENT.match(text, mark.end()):
            return said[1]
    return None


def inline_map(data_url: str) -> str:
    """The text of a map that stands in a `data:` URL."""
    head, comma, payload = data_url.partition(",")
    if head[:5].lower() != "data:" or not comma or len(payload) > 2 * MAX_TEXT:
        raise ValueError(f"the map is no data: URL, or of more than {2 * MAX_TEXT} characters")
    try:
        content = unquote_to_bytes(payload)
        if head.lower().endswith(";base64"):
            bare = content.rstrip(b"=")  # the padding may have been left out
            content = base64.b64decode(bare + b"=" * (-len(bare) % 4), validate=True)
        return content.decode()
    except ValueError as error:
        raise ValueError(f"the inline map cannot be decoded: {error}") from None


def resolve_source(map_url: str, source_root: str, source: str) -> str:
    """The URL of a source as browsers make it; of an inline map, `map_url` is the script's."""
    if source_root and not _URL.match(source):
        between = "" if source_root.endswith("/") or source.startswith("/") else "/"
        source = source_root + between + source
    return _resolve(map_url, source)


def _resolve(base: str, reference: str) -> str:
    """Joins URLs of any scheme; urllib's join knows neither webpack: nor chrome-extension:."""
    if absolute := _URL.match(reference):
        scheme, host, path, rest = absolute.groups()
        return reference if host is None else scheme + host + _without_dots(path) + rest
    against = _URL.match(base)
    if against is None or against[2] is None:
        return reference
    scheme, host, path, _ = against.groups()
    if reference.startswith("//"):
        return _resolve("", scheme + reference)
    folder = "" if reference.startswith("/") else path.rpartition("/")[0] + "/"
    return _resolve("", scheme + host + folder + reference)


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path.split("/")
    for part in parts:
        if part == "..":
            del kept[max(1, len(kept) - 1) :]
        elif part != ".":
            kept.append(part)
    return "/".join(kept + [""] * (parts[-1] in (".", "..")))
