"""Rules for requests: which one applies, how often, and what it makes of an answer."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.regex import BadPattern, compile_pattern
from pilothouse.e2e.browser.routes import (
    Edit,
    HarAnswers,
    MockReply,
    RouteRule,
    choose,
    edited,
    url_pattern,
)
from tests.support.rounds import examples

CART = "http://localhost:3000/api/cart"


def fits(pattern: str, url: str) -> bool:
    return compile_pattern(url_pattern(pattern)).search(url) is not None


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("/api/cart", CART),
        ("", CART),
        ("cart?id=1", f"{CART}?id=1&x=2"),
        ("/api/*", CART),
        ("**/api/*", CART),
        ("**/api/**", f"{CART}/items/1"),
        ("http://localhost:3000/**/cart", CART),
        ("http://localhost:3000/api/**/cart", CART),
        ("*://localhost:*/api/cart", CART),
        ("**/*.{png,jpg}", "https://a.example/x/y.jpg"),
        ("/api/c*t", CART),
    ],
)
def test_a_part_or_glob_matches(pattern: str, url: str) -> None:
    assert fits(pattern, url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("/api/user", CART),
        ("/api/*", f"{CART}/items"),
        ("http://localhost/**", CART),
        ("**/*.{png,jpg}", "https://a.example/y.gif"),
        ("cart?id", "http://localhost:3000/api/carid"),
        ("/api/c*", "http://localhost:3000/api"),
    ],
)
def test_a_part_or_glob_does_not_match_another_url(pattern: str, url: str) -> None:
    assert not fits(pattern, url)


@settings(max_examples=examples(200))
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="*\r\n"), max_size=30),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=60),
)
def test_without_a_wildcard_it_is_a_part_and_nothing_in_it_is_special(part: str, url: str) -> None:
    assert fits(part, url) == (part in url)
    assert fits(part, f"http://a/{part}?x")


@settings(max_examples=examples(100))
@given(st.text("ab/*.{},?[(", max_size=40))
def test_every_glob_is_a_pattern(glob: str) -> None:
    compile_pattern(url_pattern(glob)).search(CART)


def test_a_pattern_that_would_cost_too_much_is_refused() -> None:
    with pytest.raises(BadPattern):
        RouteRule("r1", "*" + "a*" * 500)


def test_the_newest_matching_rule_wins_and_counts() -> None:
    old, new = RouteRule("r1", "/api"), RouteRule("r2", "/api/cart", "post")
    assert choose([old, new], "POST", CART) is new
    assert choose([old, new], "GET", CART) is old
    assert choose([old, new], "GET", "http://localhost:3000/") is None
    assert (old.seen, old.hits, new.seen, new.hits) == (1, 1, 1, 1)


def test_a_rule_that_has_run_out_leaves_the_request_to_an_older_one() -> None:
    old, new = RouteRule("r1", "/api"), RouteRule("r2", "/api", times=2)
    chosen = [choose([old, new], "GET", CART) for _ in range(4)]
    assert chosen == [new, new, old, old]
    assert (new.seen, new.hits, old.hits) == (4, 2, 2)


def test_only_the_nth_request_fails() -> None:
    rule = RouteRule("r1", "/api", fail_nth=3)
    assert [choose([rule], "GET", CART) is rule for _ in range(5)] == [
        False,
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", {"a": 9, "list": [{"n": 1}, 2]}),
        ("new.deep", {"a": {"b": 1}, "list": [{"n": 1}, 2], "new": {"deep": 9}}),
        ("a.b", {"a": {"b": 9}, "list": [{"n": 1}, 2]}),
        ("list.0.n", {"a": {"b": 1}, "list": [{"n": 9}, 2]}),
        ("list.2", {"a": {"b": 1}, "list": [{"n": 1}, 2, 9]}),
    ],
)
def test_a_place_in_json_is_set(path: str, expected: dict[str, Any]) -> None:
    body = json.dumps({"a": {"b": 1}, "list": [{"n": 1}, 2]}).encode()
    assert json.loads(edited(body, Edit(json_set={path: 9}))) == expected


@pytest.mark.parametrize(
    ("body", "path"),
    [(b"<html>", "a"), (b"", "a"), (b'{"a": 1}', "a.b"), (b"[1]", "x"), (b"[1]", "5"), (b"3", "a")],
)
def test_a_place_that_is_not_there_is_an_error(body: bytes, path: str) -> None:
    with pytest.raises(ValueError, match=r"jsonSet|Expecting"):
        edited(body, Edit(json_set={path: 9}))


def test_texts_are_replaced_in_order_before_values_are_set() -> None:
    edit = Edit(replace=(("true", "false"), ("false", '"ü"')), json_set={"b": None})
    assert json.loads(edited(b'{"a": true}', edit)) == {"a": "ü", "b": None}


def entry(url: str, text: str, status: int = 200, **content: str) -> dict[str, Any]:
    return {
        "request": {"method": "GET", "url": url},
        "response": {
            "status": status,
            "headers": [
                {"name": "Content-Encoding", "value": "gzip"},
                {"name": "Set-Cookie", "value": "a=1"},
                {"name": "set-cookie", "value": "b=2"},
            ],
            "content": {"text": text, "mimeType": "application/json", **content},
        },
    }


def har(*entries: dict[str, Any]) -> HarAnswers:
    return HarAnswers(json.dumps({"log": {"entries": entries}}).encode())


def test_a_har_file_answers_in_its_order_and_the_last_answer_stays() -> None:
    packed = base64.b64encode(b"two").decode()
    file = har(entry(CART, "one"), entry(CART, packed, encoding="base64"))
    assert len(file) == 2
    assert [file.next("GET", CART).body for _ in range(3)] == [b"one", b"two", b"two"]


def test_a_har_file_keeps_headers_but_those_of_the_wire() -> None:
    reply = har(entry(CART, "x", 404)).next("get", CART + "#top")
    assert reply == MockReply(
        404, b"x", {"set-cookie": "a=1\nb=2", "content-type": "application/json"}
    )


def test_a_har_file_of_a_dev_server_fits_its_next_port_and_no_other_host() -> None:
    file = har(entry("http://127.0.0.1:1111/x?a=1", "own"), entry("https://a.example/y", "far"))
    assert file.next("GET", "http://localhost:2222/x?a=1").body == b"own"
    assert not file.has("GET", "http://localhost:2222/x?a=2")
    assert not file.has("GET", "http://localhost:2222/y")
    assert not file.has("GET", "https://b.example/y")
    assert not file.has("POST", "https://a.example/y")


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"log": 1}', b'{"log": {"entries": [{}]}}', b"\xff", b"[" * 99999]
)
def test_what_is_no_har_file_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        HarAnswers(text)


def test_a_rule_for_a_har_file_leaves_what_is_not_in_it_alone() -> None:
    rule = RouteRule("r1", har=har(entry(CART, "one")))
    assert choose([rule], "GET", CART) is rule
    assert choose([rule], "GET", CART + "?other") is None
    assert rule.seen == 1
