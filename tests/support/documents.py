"""The project's documents, read as what they are made of: fenced blocks, links and pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_SOURCE = re.compile(r"<(?:img|source)\b[^>]*\bsrc(?:set)?=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced part of a document."""

    file: str
    """From the root of the project."""
    line: int
    kind: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, by which it is known."""
        return self.text.split("\n", 1)[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.first[:40]}"


def documents() -> list[Path]:
    """What people read: the README, how to contribute, about security, and all of docs/."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, found.start()) + 1, found[1], found[2].rstrip("\n"))
        for found in _FENCE.finditer(text)
    ]


def all_blocks(*kinds: str) -> list[Block]:
    """Of every document."""
    return [one for path in documents() for one in blocks(path) if one.kind in kinds]


def links(path: Path) -> list[str]:
    """Where a document leads to, and what it shows; not what stands in code."""
    text = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", path.read_text(encoding="utf-8")))
    return [*_LINK.findall(text), *_SOURCE.findall(text)]


def anchors(path: Path) -> set[str]:
    """The names of a document's headings, as they are made into links."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    return {_slug(heading) for heading in _HEADING.findall(text)}


def _slug(heading: str) -> str:
    words = re.sub(r"[^\w\- ]", "", heading.lower())
    return words.replace(" ", "-")


def commands(text: str) -> list[str]:
    """The commands of a shell block, one for each line that does not go on."""
    return [line for line in text.replace("\\\n", " ").split("\n") if line.strip()]
