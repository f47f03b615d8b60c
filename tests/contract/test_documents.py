"""What holds for every document: links lead somewhere, and pictures are real."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.support.documents import ROOT, anchors, documents, links
from tests.support.driving import size

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = ROOT / "docs" / "pictures"
LEAST_WIDTH = 800

each_document = pytest.mark.parametrize(
    "path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix()
)


@each_document
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        if re.match(r"(https?|mailto):", link):
            continue  # other people's pages are theirs
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_guide_is_in_the_readme() -> None:
    linked = set(links(ROOT / "README.md"))
    for guide in (ROOT / "docs" / "guides").glob("*.md"):
        assert f"docs/guides/{guide.name}" in linked, guide.name


def test_the_ways_to_install_stand_in_the_order_in_which_one_tries_them() -> None:
    text = (ROOT / "docs" / "guides" / "clients.md").read_text()
    ways = ("uvx pilothouse", "uv tool install pilothouse", "pip install pilothouse", "make setup")
    places = [text.index(way) for way in ways]
    assert places == sorted(places)
    gemini = text[text.index("Gemini CLI") :]
    assert "trust" in gemini
    workers = (ROOT / "docs" / "guides" / "gateway.md").read_text()
    assert "npm install -g @playwright/mcp" in workers


def test_every_picture_is_shown_and_can_be_looked_at() -> None:
    shown = {(path.parent / link).resolve() for path in documents() for link in links(path)}
    pictures = sorted(PICTURES.iterdir())
    assert pictures
    for picture in pictures:
        assert picture in shown, picture.name
        if picture.suffix == ".svg":
            assert ElementTree.parse(picture).getroot().get("viewBox")
        else:
            assert size(picture.read_bytes())[0] >= LEAST_WIDTH, picture.name


def test_every_screenshot_is_taken_by_a_test() -> None:
    tests = [path.read_text() for path in (ROOT / "tests" / "integration").rglob("*.py")]
    writers = [text for text in tests if "PILOTHOUSE_WRITE_PICTURES" in text]
    for picture in PICTURES.glob("*.png"):
        assert any(f'"{picture.name}"' in text for text in writers), picture.name
