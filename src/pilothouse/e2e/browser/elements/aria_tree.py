"""Reads an accessibility snapshot, as Playwright writes it: one element to a line, indented."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pilothouse.core.declare.paging import estimated_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

_REF = re.compile(r"\[ref=((?:f\d+)?e\d+)\]")
_FIELD = re.compile(r"\s*- '?(?:textbox|searchbox|combobox)\b")
_TEXT = re.compile(r"(\s*- text: )")
_PROPERTY = re.compile(r"\s*- /")
# What Playwright makes one space of, or nothing.
_SPACES = re.compile(r"[^\S ]|  |^ | $")


def refs_of_fields(tree: str) -> list[str]:
    """Return the refs of the elements that text can be typed into."""
    lines = tree.splitlines()
    return [match[1] for line in lines if _FIELD.match(line) and (match := _REF.search(line))]


def with_values(tree: str, fields: Mapping[str, tuple[str, bool]]) -> str:
    """Return the snapshot with the spaces and lines of what is typed into fields.

    Args:
        tree: A snapshot, in which runs of spaces have become one.
        fields: By ref, the value of a field and whether it takes several lines.
    """
    lines = tree.splitlines()
    for number, line in enumerate(lines):
        match = _REF.search(line) if _FIELD.match(line) else None
        if match is None or match[1] not in fields:
            continue
        value, is_multiline = fields[match[1]]
        mark = " [multiline]" if is_multiline else ""
        own = line[match.end() :]
        if _SPACES.search(value):
            attributes, colon, shown = own.partition(": ")
            if shown:
                own = f"{attributes}{colon}{json.dumps(value, ensure_ascii=False)}"
            else:
                _set_text(lines, number, value)
        lines[number] = line[: match.end()] + mark + own
    return "\n".join(lines)


def _set_text(lines: list[str], number: int, value: str) -> None:
    """Put a value in the line of its own that a field with properties has for it."""
    for at in range(number + 1, len(lines)):
        if text := _TEXT.match(lines[at]):
            lines[at] = text[1] + json.dumps(value, ensure_ascii=False)
        if not _PROPERTY.match(lines[at]):
            return


def within_budget(lines: list[str], tokens: int) -> tuple[list[str], int]:
    """Return as many whole lines as fit, the deepest given up first, and the number left out."""
    if estimated_tokens("\n".join(lines)) <= tokens:
        return lines, 0
    depths = [_depth(line) for line in lines]
    for deepest in sorted(set(depths), reverse=True):
        kept = [line for line, depth in zip(lines, depths, strict=True) if depth < deepest]
        if estimated_tokens("\n".join(kept)) <= tokens:
            return kept, len(lines) - len(kept)
    room = tokens * 4
    kept = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept, len(lines) - len(kept)


def matching(tree: str, text: str) -> list[str]:
    """Return the lines that have all the words, those with a ref of their own first.

    A text without a ref is shown with the element around it that has one.
    """
    words = [word.lower() for word in re.findall(r"\w+", text)]
    own, others = [], []
    around: list[tuple[int, str]] = []
    for line in tree.splitlines():
        while around and around[-1][0] >= _depth(line):
            around.pop()
        shown = line.strip().removeprefix("- ").rstrip(":")
        ref = _REF.search(line)
        if all(word in line.lower() for word in words):
            if ref or not around:
                own.append(shown)
            else:
                others.append(f"{shown} (in {around[-1][1]})")
        if ref:
            around.append((_depth(line), shown[: shown.index(ref[0])] + ref[0]))
    return sorted(own, key=lambda line: "[ref=" not in line) + others


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
