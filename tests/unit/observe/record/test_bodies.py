"""Kept bodies: within a budget, oldest out first, the newest of a request wins."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.observe.model import Body
from pilothouse.observe.record.bodies import BUDGET_BYTES, MAX_BODY_BYTES, Bodies, is_text
from tests.support.rounds import examples


def body(text: str) -> Body:
    return Body("text/plain", text, False)


def test_a_body_is_given_back_until_it_is_cleared() -> None:
    bodies = Bodies()
    bodies.keep("1", body("hello"))
    assert bodies.get("1") == body("hello")
    assert bodies.get("2") is None
    bodies.clear()
    assert bodies.get("1") is None
    assert len(bodies) == 0


def test_the_oldest_bodies_make_room_and_are_counted() -> None:
    bodies = Bodies(budget=10)
    for name in "abc":
        bodies.keep(name, body(name * 4))
    assert bodies.get("a") is None
    assert bodies.get("b") == body("bbbb")
    assert bodies.get("c") == body("cccc")
    assert bodies.evicted == 1


def test_a_replaced_body_gives_its_room_back_and_becomes_the_newest() -> None:
    bodies = Bodies(budget=10)
    bodies.keep("a", body("aaaaaaaa"))
    bodies.keep("a", body("aa"))
    bodies.keep("b", body("bbbb"))
    bodies.keep("a", body("AA"))
    bodies.keep("c", body("cccccc"))
    assert bodies.evicted == 1
    assert bodies.get("b") is None
    assert bodies.get("a") == body("AA")


def test_a_body_over_the_whole_budget_is_not_kept_and_pushes_nothing_out() -> None:
    bodies = Bodies(budget=10)
    bodies.keep("a", body("aaaa"))
    bodies.keep("b", body("b" * 11))
    assert bodies.get("b") is None
    assert bodies.get("a") == body("aaaa")
    assert bodies.evicted == 0


def test_a_body_too_large_to_keep_does_not_leave_the_old_one_in_its_place() -> None:
    bodies = Bodies(budget=10)
    bodies.keep("a", body("old"))
    bodies.keep("a", body("n" * 11))
    assert bodies.get("a") is None


def test_the_budget_is_free_again_after_clearing() -> None:
    bodies = Bodies(budget=10)
    bodies.keep("a", body("a" * 10))
    bodies.clear()
    bodies.keep("b", body("b" * 10))
    assert bodies.get("b") is not None
    assert bodies.evicted == 0


def test_one_body_of_the_largest_size_never_fills_the_budget() -> None:
    assert MAX_BODY_BYTES * 8 <= BUDGET_BYTES


@settings(max_examples=examples(100))
@given(steps=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12)), max_size=40))
def test_the_bodies_that_are_kept_are_the_newest_that_fit(steps: list[tuple[str, int]]) -> None:
    bodies = Bodies(budget=10)
    oracle: dict[str, int] = {}
    for name, size in steps:
        bodies.keep(name, body("x" * size))
        oracle.pop(name, None)
        if size > 10:
            continue
        oracle[name] = size
        while sum(oracle.values()) > 10:
            del oracle[next(iter(oracle))]
        assert len(bodies) == len(oracle)
        for kept, length in oracle.items():
            assert bodies.get(kept) == body("x" * length)


@pytest.mark.parametrize(
    ("mime_type", "expected"),
    [
        ("text/html; charset=utf-8", True),
        ("TEXT/CSS", True),
        ("application/json", True),
        ("application/problem+json", True),
        ("application/atom+xml", True),
        ("image/svg+xml", True),
        ("application/javascript", True),
        ("image/png", False),
        ("application/octet-stream", False),
        ("video/mp4", False),
        ("", False),
    ],
)
def test_text_is_known_by_its_content_type(mime_type: str, expected: bool) -> None:
    assert is_text(mime_type) is expected
