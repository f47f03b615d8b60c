"""Random filters over a history, judged once by the reader and once by plain Python."""

from __future__ import annotations

import re
from operator import eq, ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.filter.explain import render
from pilothouse.intercept.filter.model import And, Compare, Node, Operator, Or
from pilothouse.intercept.history.schema import COLUMNS, PER_PACKET
from pilothouse.intercept.ports import Detail, HistoryAsk
from pilothouse.intercept.present.decode import text_of
from tests.support.packets import START_MS, TRAFFIC, History, ids_of, made, unhurried
from tests.support.rounds import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse.intercept.query.reader import HistoryReader

WORDS = ["GET", "POST", "/api/users", "/api/", "api", "HTTP", "WebSocket", "shop.test", "127.0.0.1",
         "geheim", "Treasure", "TREASURE", "ping", "pong from", "OK", "ab", "h2", "Zoë", "xyzzy",
         "HTTP/1.1"]  # fmt: skip
PATTERNS = ["api", "^/api/", "[0-9]+", "(?i)treasure", "ping|pong", "^GET", "x{3}", "4..", "a.*b",
            "users$", "(geheim|KeyError)", "o?n"]  # fmt: skip
EQUAL: list[Operator] = ["==", "!="]
MATCH: list[Operator] = ["=~", "!~"]
LESS: list[Operator] = [">", ">=", "<", "<="]


def of(*kinds: str) -> st.SearchStrategy[str]:
    return st.sampled_from([column for column, kind in COLUMNS.items() if kind in kinds])


numbers = st.sampled_from([0, 1, 2, 7, 12, 15, 50, 80, 200, 304, 401, 443, 50000])
times = st.integers(-2, 20).map(lambda ms: int(START_MS) + ms)
leaves: st.SearchStrategy[Node] = st.one_of(
    st.builds(Compare, of("text", "content"), st.sampled_from(EQUAL), st.sampled_from(WORDS)),
    st.builds(
        Compare, of("text", "content", "integer"), st.sampled_from(MATCH), st.sampled_from(PATTERNS)
    ),
    st.builds(Compare, of("integer"), st.sampled_from(EQUAL + LESS), numbers),
    st.builds(Compare, of("time"), st.sampled_from(EQUAL + LESS), times),
    st.builds(Compare, of("boolean"), st.sampled_from(EQUAL), st.integers(0, 1)),
)


def joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return parts.map(And) | parts.map(Or)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryReader]:
    history = History(tmp_path_factory.mktemp("oracle") / "history.db")
    history.add(*TRAFFIC)
    history.add(made("GET", "/late", response=b"pong from afar", apart=2), made("POST", "/x", 404))
    history.index(14)
    reader = unhurried(history.path)
    yield reader
    reader.close()
    history.close()


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    root=st.recursive(leaves, joined, max_leaves=6),
    order=st.sampled_from(["id asc", "time asc", "url asc"]),
)
def test_the_reader_finds_what_plain_python_finds(
    reader: HistoryReader, root: Node, order: str
) -> None:
    everything = ids_of(reader.page(HistoryAsk(order="id asc")).rows)
    expected = [id for id in everything if holds(root, reader.detail(id))]
    page = reader.page(HistoryAsk(filter=render(root), order=order))
    assert sorted(ids_of(page.rows)) == expected
    assert (page.total_count, page.total_is_exact) == (len(expected), True)


def holds(node: Node, exchange: Detail) -> bool:
    if isinstance(node, And):
        return all(holds(part, exchange) for part in node.parts)
    if isinstance(node, Or):
        return any(holds(part, exchange) for part in node.parts)
    values = [value for value in values_of(node.column, exchange) if value is not None]
    found = [matches(node, value) for value in values]
    return bool(found) and (not any(found) if node.is_negative else any(found))


def values_of(column: str, exchange: Detail) -> list[Any]:
    if COLUMNS[column] == "content":
        texts = [
            text_of(side.head, side.body) if side else None
            for side in (exchange.request, exchange.response)
        ]
        return {"request": texts[:1], "response": texts[1:]}.get(column, texts)
    if column in PER_PACKET:
        return [getattr(side, column) for side in (exchange.request, exchange.response) if side]
    return [exchange.row[column]]


def matches(node: Compare, value: Any) -> bool:
    """The positive form of a condition."""
    any_case = node.column == "full_text_i"
    if node.is_pattern:
        shown = iso(value) if isinstance(value, float) else str(value)
        return re.search(str(node.value), shown, re.IGNORECASE if any_case else 0) is not None
    if COLUMNS[node.column] == "content":
        wanted = str(node.value)
        return bool(wanted.lower() in value.lower() if any_case else wanted in value)
    if node.column == "time":
        value = int(value)
    compare = {">": gt, ">=": ge, "<": lt, "<=": le}.get(node.operator, eq)
    return bool(compare(value, node.value))
