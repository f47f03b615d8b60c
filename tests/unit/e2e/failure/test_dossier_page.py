"""The dossier as a page: everything in it is text, and it reaches for nothing."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.e2e.failure.dossier_page import POLICY, dossier_page

HOSTILE = "<script>alert(1)</script><img src=http://evil/x onerror=y>\"'&"


class Reader(HTMLParser):
    """The tags and the text of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def facts(text: str) -> dict[str, Any]:
    return {
        "message": text,
        "step": text,
        "url": text,
        "suggestion": text,
        "causes": [text],
        "overlay": text,
        "snapshotDiff": [f"+ {text}", f"- {text}"],
        "console": [{"level": "error", "text": text, "at": [text, text]}],
        "requests": [{"request": text, "sent": text, "body": text}],
        "serverLogs": {"stderr": text, "stdout": text},
        "timeline": [text],
        "snapshot": text,
        "missing": [text],
    }


def test_every_section_is_there_and_says_what_it_was_given() -> None:
    page = Reader(dossier_page("click #buy: timeout", facts("something"), b"\x89PNG"))
    for heading in (
        "Likely causes",
        "What changed since the last good step",
        "Console",
        "Requests",
        "Server log",
        "Server output",
        "Timeline",
        "Not available",
    ):
        assert heading in page.texts
    assert [tag for tag, _ in page.tags].count("img") == 1
    assert page.text.count("something") >= 14


def test_what_is_missing_has_no_heading() -> None:
    page = Reader(dossier_page("t", {"message": "only this"}))
    assert "only this" in page.texts
    assert not [tag for tag, _ in page.tags if tag in ("h2", "img", "pre", "table")]


def test_a_page_carries_a_policy_that_allows_nothing_from_outside() -> None:
    page = Reader(dossier_page("t", facts("x"), b"png"))
    policy = [a["content"] for tag, a in page.tags if a.get("http-equiv")]
    assert policy == [POLICY]
    assert "default-src 'none'" in POLICY
    assert "script" not in POLICY


def test_hostile_text_stays_text() -> None:
    page = Reader(dossier_page(HOSTILE, facts(HOSTILE), b"png"))
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "a")]
    (image,) = (attrs for tag, attrs in page.tags if tag == "img")
    assert str(image["src"]).startswith("data:image/png;base64,")
    assert HOSTILE in page.text


@given(st.text(max_size=80))
@settings(deadline=None)
def test_no_text_opens_a_tag(text: str) -> None:
    ours = {tag for tag, _ in Reader(dossier_page("t", facts("plain"))).tags}
    page = Reader(dossier_page("t", facts(text)))
    assert {tag for tag, _ in page.tags} <= ours
    assert not [attrs for _, attrs in page.tags if attrs.keys() & {"src", "href", "onclick"}]


def test_added_and_removed_lines_are_marked() -> None:
    page = Reader(dossier_page("t", {"snapshotDiff": ["+ came", "- went"]}))
    assert [a["class"] for tag, a in page.tags if tag == "span"] == ["added", "removed"]
