"""Secrets in bookmarks: what is masked is the same as if each text were read by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.tree.mask import mask, masked, suspects
from pilothouse.core.regex import compile_pattern
from pilothouse.core.secrets.redactor import Redactor

PIECES = st.sampled_from(
    [
        *(
            "https://example.com/",
            "https://user:pw@example.com",
            "http://",
            "?",
            "&",
            "#",
            ";",
            "/",
        ),
        *("token=", "api-key=", "code=", "hmac=", "sig=", "ticket=", "pass", "word=", "JWT", "="),
        *("%3D", "%40", "@", ":", " ", "\n", "abc123", "eyJhbGciOi.eyJzdWIi.c2ln", "AKIA"),
        *(
            "AKIAABCDEFGHIJKLMNOP",
            "ghp_",
            "x" * 36,
            "Bearer ",
            "Authorization: ",
            "本",
            "s\u0130d=",
        ),
        *("\u212aey: ", "to\u212aen=", "\u0130"),
        *("{", '"password": ', '"', "}", "Basic ", "dXNlcjpwYXNz", "-----BEGIN PRIVATE KEY-----"),
    ]
)
TEXTS = st.lists(st.lists(PIECES, max_size=7).map("".join), max_size=12)


@given(TEXTS, TEXTS)
def test_many_at_once_are_masked_like_each_by_itself(titles: list[str], urls: list[str]) -> None:
    redactor = Redactor()
    nodes: list[dict[str, Any]] = [
        *({"id": "1", "title": title} for title in titles),
        *({"id": "2", "title": "", "url": url} for url in urls),
    ]
    by_themselves = [
        *(redactor.text(title) for title in titles),
        *(redactor.url(url) for url in urls),
    ]
    changed = mask(nodes, redactor)
    assert [node.get("url", node["title"]) for node in nodes] == by_themselves
    assert changed == sum(a != b for a, b in zip([*titles, *urls], by_themselves, strict=True))


def test_a_tree_is_masked_all_the_way_down() -> None:
    secret = "https://example.com/?access_token=abcdef"
    nodes = [
        {"title": "f", "children": [{"title": "g", "children": [{"title": "p", "url": secret}]}]}
    ]
    assert mask(nodes, Redactor()) == 1
    assert "abcdef" not in str(nodes)


def test_plain_bookmarks_are_not_read_closely() -> None:
    texts = [f"https://example.com/articles/{number}/title-of-it" for number in range(1_000)]
    assert list(suspects(texts, Redactor(), are_urls=True)) == []
    texts[500] += "?token=x"
    assert list(suspects(texts, Redactor(), are_urls=True)) == [500]
    titles = [*(f"Article {number}" for number in range(500)), "my pass-word: geheim1"]
    assert list(suspects(titles, Redactor(), are_urls=False)) == [500]


@pytest.mark.parametrize(
    "redactor", [Redactor().learn("articles"), Redactor(patterns=[compile_pattern("articles")])]
)
def test_what_the_redactor_was_taught_is_masked_too(redactor: Redactor) -> None:
    nodes = [{"title": "about articles", "url": "https://example.com/articles"}]
    assert mask(nodes, redactor) == 2
    assert "articles" not in str(nodes)


def test_revealing_changes_nothing() -> None:
    nodes = [{"title": "t", "url": "https://example.com/?token=abc"}]
    assert mask(nodes, Redactor(reveal=True)) == 0
    assert nodes[0]["url"].endswith("abc")


def test_a_copy_leaves_the_node_as_it_is() -> None:
    node = {"title": "t", "url": "https://example.com/?token=abc"}
    assert "abc" not in masked(node, Redactor())["url"]
    assert node["url"].endswith("abc")
