"""Rules of sessions, as mocks and breakpoints keep them."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.engine.rules.breakpoints import Breakpoints
from pilothouse.intercept.engine.rules.match import LONGEST_URL, RuleBook, match_of
from pilothouse.intercept.engine.rules.mocks import Mocks


def breakpoints() -> Breakpoints:
    return Breakpoints(lambda: 0.0, lambda _: None)


@pytest.mark.parametrize("book", [Mocks(), breakpoints()], ids=["mocks", "breakpoints"])
def test_rules_are_replaced_as_a_whole_or_not_at_all(book: RuleBook[Any]) -> None:
    assert not book
    book.set("s1", [{"url": "/a"}, {"url": "/b"}])
    book.set("s2", [{"url": "/c"}])
    assert [rule["url"] for rule in book.set("s1", None)] == ["/a", "/b"]
    with pytest.raises(InvalidInput, match=r"\[1\]\.url"):
        book.set("s1", [{"url": "/d"}, {"url": "("}])
    assert [rule["url"] for rule in book.set("s1", None)] == ["/a", "/b"]
    assert book.set("s1", []) == []
    assert [rule.shown()["url"] for rule in book] == ["/c"]
    book.set("s2", [])
    assert not book


def test_a_rule_is_for_its_session_and_for_listeners_of_nobody() -> None:
    match = match_of("s1", {"url": "/pay$", "method": "post"}, "rules[0]")
    assert match.takes("s1", "POST", "http://shop/pay")
    assert match.takes("", "POST", "http://shop/pay")
    assert not match.takes("s2", "POST", "http://shop/pay")
    assert not match.takes("s1", "GET", "http://shop/pay")
    assert not match.takes("s1", "POST", "http://shop/pay?twice")


def test_only_the_first_part_of_a_url_is_searched() -> None:
    match = match_of("s1", {"url": "needle"}, "rules[0]")
    assert match.takes("s1", "GET", "x" * (LONGEST_URL - 6) + "needle")
    assert not match.takes("s1", "GET", "x" * LONGEST_URL + "needle")
