"""Filters as SQL: which indexes they use, what the text index is asked, and what costs."""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING

import pytest
import re2

from pilothouse.core.regex import compile_pattern
from pilothouse.intercept.filter.literals import AllOf, AnyOf, index_query, needed_by
from pilothouse.intercept.filter.sql import EVERYTHING, INDEXES, Lookup, Lookups, plan_of
from pilothouse.intercept.history.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES + ";".join(INDEXES))
    for name, count in (("visit", 1), ("found", 2), ("text_has", 5)):
        connection.create_function(name, count, lambda *_: 1)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("method == DELETE", "packets_method (method=? AND rowid>? AND rowid<?)"),
        ("status == 418", "packets_status (status=? AND rowid>? AND rowid<?)"),
        ("group == 7", "packets_group (group_id=? AND rowid>? AND rowid<?)"),
        ("server_name == a.test", "packets_server (server_name=? AND rowid>? AND rowid<?)"),
        ("type == WebSocket", "packets_type (type=? AND rowid>? AND rowid<?)"),
        ("resend == true", "packets_resend"),
        ("modified == true", "packets_modified"),
        ("id == 7", "INTEGER PRIMARY KEY (rowid=?)"),
    ],
)
def test_an_equality_is_found_by_its_index(db: sqlite3.Connection, text: str, index: str) -> None:
    plan = plan_of(text)
    rows = db.execute(
        f"EXPLAIN QUERY PLAN SELECT p.id FROM packets p WHERE p.id BETWEEN ? AND ? AND {plan.sql}"
        " ORDER BY p.id DESC",
        (1, 10_000, *plan.values),
    )
    steps = [step for *_, step in rows]
    assert index in steps[0]
    assert plan.equalities
    assert plan.warning == ""


@pytest.mark.parametrize("order", ["time", "length", "status", "method", "group_id"])
def test_an_order_with_an_index_is_read_off_it(db: sqlite3.Connection, order: str) -> None:
    index = f"packets_{order.removesuffix('_id')}"
    for direction in ("ASC", "DESC"):
        rows = db.execute(
            f"EXPLAIN QUERY PLAN SELECT p.id FROM packets p INDEXED BY {index} WHERE p.{order} IS"
            f" NOT NULL AND visit(p.id) ORDER BY p.{order} {direction}, p.id {direction}"
        )
        steps = [step for *_, step in rows]
        assert len(steps) == 1
        assert index in steps[0]


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("authorization", "authorization"),
        ("/api/v[0-9]+/users", AllOf(("/api/v", "/users"))),
        ("error|exception", AnyOf(("error", "exception"))),
        ("(?i)(?:foo|bar)baz", AllOf((AnyOf(("foo", "bar")), "baz"))),
        ("foo|x", None),
        ("(foo)?bar", "bar"),
        ("(foo){2}", "foo"),
        ("abcd*", "abc"),
        ("abcd+e", "abcd"),
        ("abc{0,3}def", "def"),
        (r"a\.com", "a.com"),
        (r"\d\d\dxyz", "xyz"),
        ("[[:alpha:]]xyz", "xyz"),
        (r"\x41bcdef", None),
        ("ab", None),
        ("(?P<name>token)=", "token"),
        ("a.*b", None),
    ],
)
def test_the_literals_that_a_pattern_needs(pattern: str, needed: object) -> None:
    assert needed_by(pattern) == needed


def test_the_index_is_asked_for_the_trigrams_of_a_literal() -> None:
    asked = partial(index_query, any_case=False)
    assert asked("abcde") == '"abc" AND "bcd" AND "cde"'
    long = asked("".join(map(chr, range(0x4E00, 0x4E00 + 100))))
    assert long is not None
    assert long.count(" AND ") == 33
    assert asked('a"b') == '"a""b"'
    assert asked("ab") is None
    assert asked("a\0b") is None
    assert asked(AnyOf(("foo", "bar"))) == '("foo") OR ("bar")'
    assert asked(AllOf(("foo", "\0\0\0"))) == '("foo")'
    assert asked(AnyOf(("foo", "\0\0\0"))) is None
    assert asked("ВДО") == '"ВДО"'
    assert index_query("ВДО", any_case=True) is None
    assert plan_of("full_text =~ ВДО").lookup is not None
    assert plan_of("full_text =~ (?i)ВДО").lookup is None
    assert plan_of("full_text_i == ВДО").lookup is None
    assert plan_of("full_text_i == 日本語").lookup is not None


def test_the_index_finds_every_character_that_a_pattern_takes_for_the_same(
    db: sqlite3.Connection,
) -> None:
    """RE2 without regard to case, and the index: whatever one takes for alike, the other does."""
    db.execute(
        "CREATE VIRTUAL TABLE t USING fts5(text, tokenize='trigram', detail=none, content='')"
    )
    codes = [code for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000]
    alike: list[tuple[str, str]] = []
    for other in map(chr, codes):
        forms = {other.lower(), other.upper(), other.title(), other.casefold()} - {other}
        alike += [(form, other) for form in forms if len(form) == 1]
    checked = 0
    for at, (character, other) in enumerate(alike):
        query = index_query(character * 3, any_case=True)
        pattern = compile_pattern(re2.escape(character), ignore_case=True)
        if query is None or pattern.search(other) is None:
            continue
        db.execute("INSERT INTO t (rowid, text) VALUES (?, ?)", (at + 1, other * 3))
        found = db.execute("SELECT rowid FROM t WHERE t MATCH ? AND rowid = ?", (query, at + 1))
        assert found.fetchone(), (character, other)
        checked += 1
    assert checked > 300


def test_what_the_text_index_can_say_of_a_whole_filter() -> None:
    api = Lookup("url", '"/ap" AND "api" AND "pi/"', ("/api/",))
    word = Lookup("text", '"foo"', ("foo",))
    assert plan_of("url =~ /api/ && full_text == foo").lookup == Lookups(True, (api, word))
    assert plan_of("url =~ /api/ || full_text == foo").lookup == Lookups(False, (api, word))
    assert plan_of("url =~ /api/ || status == 200").lookup is None
    assert plan_of("url =~ /api/ && status == 200").lookup == api
    assert plan_of("url !~ /api/").lookup is None
    assert plan_of("request == foo").lookup == word


def test_nothing_but_blanks_asks_for_everything() -> None:
    assert plan_of(" \n") == EVERYTHING


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        ("full_text == ab", True),
        ("full_text != abcdef", True),
        ("request =~ [a-z]+", True),
        ("url =~ a.c", True),
        ("url =~ /api/ || client_ip =~ ^10", True),
        ("status == 200 || client_ip =~ ^10", True),
        ("status == 200 && client_ip =~ ^10", False),
        ("full_text == abc", False),
        ("full_text == ab && full_text == abc", False),
        ("length > 10000", False),
        ("server_port == 443", False),
    ],
)
def test_a_costly_filter_says_why(text: str, costs: bool) -> None:
    assert bool(plan_of(text).warning) is costs


def test_parts_without_our_functions_narrow_what_they_judge() -> None:
    plan = plan_of("status == 200 && full_text == ab && (method == GET || url =~ a)")
    assert (plan.coarse, plan.coarse_values) == ("((p.status = ?))", (200,))
    assert plan_of("status == 200").coarse is None
