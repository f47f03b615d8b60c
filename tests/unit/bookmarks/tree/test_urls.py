"""Which addresses are refused, in every spelling, and which ones count as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.model import InvalidUrl
from pilothouse.bookmarks.tree.urls import check_url, is_masked, same_key
from pilothouse.core.secrets.redactor import Redactor

RUNNING = ("javascript", "data", "vbscript", "livescript", "mocha", "jscript", "blob", "filesystem")


@given(
    st.sampled_from(RUNNING),
    st.text("\x00\x01\x1f \t\n\r", max_size=4),
    st.data(),
)
def test_no_spelling_of_a_script_gets_through(scheme: str, lead: str, data: st.DataObject) -> None:
    spelled = "".join(
        (letter.upper() if data.draw(st.booleans()) else letter)
        + data.draw(st.sampled_from(["", "", "\t", "\n", "\r"]))
        for letter in scheme
    )
    with pytest.raises(InvalidUrl, match=f"{scheme}:"):
        check_url(f"{lead}{spelled}:alert(1)")


@pytest.mark.parametrize(
    "url", ["view-source:javascript:alert(1)", "VIEW-SOURCE: data:text/html,x", "feed:jar:data:,"]
)
def test_a_script_is_not_hidden_by_a_scheme_around_it(url: str) -> None:
    with pytest.raises(InvalidUrl):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/",
        "HTTP://EXAMPLE.COM",
        "http://localhost:3000/a?b=c#d",
        "file:///home/user/a.html",
        "chrome://extensions/",
        "mailto:somebody@example.com",
        "view-source:https://example.com/",
        "https://example.com/?next=javascript:alert(1)",
        "https://例え.jp/パス",
    ],
)
def test_other_addresses_are_taken_as_they_are(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["", "example.com", "example.com:8080/a", "localhost:3000", "/a", "java%73cript:x", "://"],
)
def test_an_address_without_a_scheme_is_refused_with_how_to_write_it(url: str) -> None:
    with pytest.raises(InvalidUrl) as failed:
        check_url(url)
    assert "https://" in failed.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/?token=abcdefghij",
        "https://user:geheim@example.com/",
        "https://example.com/cb#access_token=abc123",
    ],
)
def test_what_was_shown_masked_is_not_stored(url: str) -> None:
    shown = Redactor().url(url)
    assert is_masked(shown)
    assert not is_masked(url)
    with pytest.raises(InvalidUrl) as failed:
        check_url(shown)
    assert "leave url out" in failed.value.hint


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "https:///",
        "http://[::1",
        "http://a b/",
        "http://e.com:99999/",
        "ws://?x",
        "ftp://",
        "chrome://",
        "feed:http://",
    ],
)
def test_an_address_without_a_host_is_refused_before_chrome_does(url: str) -> None:
    with pytest.raises(InvalidUrl, match="leads nowhere") as failed:
        check_url(url)
    assert "host" in failed.value.hint


@pytest.mark.parametrize(
    "other",
    [
        "http://example.com/a/",
        "https://www.example.com/a",
        "https://EXAMPLE.com:443/a",
        "https://example.com/a?utm_source=x&fbclid=y",
        "https://example.com/a#part",
        "https://example.com/%61",
    ],
)
def test_addresses_of_one_page_are_the_same(other: str) -> None:
    assert same_key(other) == same_key("https://example.com/a")
    assert same_key(other, strict=True) != same_key("https://example.com/b", strict=True)


@pytest.mark.parametrize(
    "other",
    [
        "https://example.com/A",
        "https://example.com:8443/a",
        "https://example.com/a?page=2",
        "https://example.com/a#/route",
        "https://example.com/a#!route",
        "https://sub.example.com/a",
        "https://somebody:secret@example.com/a",
    ],
)
def test_addresses_of_other_pages_are_not(other: str) -> None:
    assert same_key(other) != same_key("https://example.com/a")


def test_an_encoded_slash_parts_no_folders() -> None:
    assert same_key("https://e.com/a%2Fb") != same_key("https://e.com/a/b")
    assert same_key("https://e.com/a%2Fb") == same_key("https://e.com/a%2fb/")


def test_the_order_of_a_query_does_not_count_but_its_values_do() -> None:
    assert same_key("https://e.com/?a=1&b=2") == same_key("https://e.com/?b=2&a=1")
    assert same_key("https://e.com/?a=1&b=2") != same_key("https://e.com/?a=2&b=1")


def test_strictly_only_host_and_port_are_normalised() -> None:
    strict = same_key("https://example.com/a?x=1", strict=True)
    assert same_key("HTTPS://EXAMPLE.COM:443/a?x=1", strict=True) == strict
    for other in (
        "http://example.com/a?x=1",
        "https://example.com/a?x=1#y",
        "https://u@example.com/a?x=1",
    ):
        assert same_key(other, strict=True) != strict


@given(st.text(max_size=60))
def test_any_text_has_a_key(text: str) -> None:
    assert same_key(text) == same_key(text)
    assert same_key("http://" + text, strict=True)
