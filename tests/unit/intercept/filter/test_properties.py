"""The filter language under random input: it reads back what it writes, and never breaks."""

from __future__ import annotations

import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pilothouse.intercept.filter.explain import described, render
from pilothouse.intercept.filter.literals import AllOf, Needed, needed_by
from pilothouse.intercept.filter.model import And, Compare, Filter, Node, Operator, Or, parse
from pilothouse.intercept.filter.sql import plan_of
from pilothouse.intercept.history.schema import COLUMNS
from pilothouse.intercept.model import BadFilter
from tests.support.rounds import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
TEXT_OPERATORS: list[Operator] = ["==", "!="]
NUMBER_OPERATORS: list[Operator] = ["==", "!=", ">", ">=", "<", "<="]


def named(*kinds: str) -> st.SearchStrategy[str]:
    return st.sampled_from([column for column, kind in COLUMNS.items() if kind in kinds])


leaves: st.SearchStrategy[Node] = st.one_of(
    st.builds(Compare, named("text", "content"), st.sampled_from(TEXT_OPERATORS), TEXT),
    st.builds(
        Compare,
        named("integer"),
        st.sampled_from(NUMBER_OPERATORS),
        st.integers(-(2**63) + 1, 2**63 - 1),
    ),
    st.builds(
        Compare, named("time"), st.sampled_from(NUMBER_OPERATORS), st.integers(0, 4_000_000_000_000)
    ),
    st.builds(Compare, named("boolean"), st.sampled_from(TEXT_OPERATORS), st.integers(0, 1)),
    st.builds(
        Compare,
        named("text", "content"),
        st.sampled_from(["=~", "!~"]),
        TEXT.map(re2.escape),
    ),
)


def flat(kind: type[And] | type[Or], parts: list[Node]) -> Node:
    """As the parser gives it: a list within a list of its own kind is one list."""
    inner = [p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))]
    return kind(tuple(inner))


def joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    parts = st.lists(inner, min_size=2, max_size=4)
    return st.one_of(
        parts.map(lambda found: flat(And, found)), parts.map(lambda found: flat(Or, found))
    )


@settings(max_examples=examples(200))
@given(st.recursive(leaves, joined, max_leaves=12))
def test_a_tree_that_is_written_out_reads_as_the_same_tree(root: Node) -> None:
    assert parse(render(root)).root == root
    assert described(root)
    assert plan_of(render(root)).sql


PIECES = ["method", "status", "url", "==", "=~", ">=", "!", "&&", "||", "(", ")", '"', "'", "\\",
          " ", "GET", "200", "[", "|", "&", "x", "time", "é", "\n", "true"]  # fmt: skip


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(PIECES), max_size=15).map("".join) | st.text(max_size=40))
@example("url =~ \\")
@example("(" * 500)
@example("a == 1 ||")
def test_any_text_is_a_filter_or_a_bad_filter_with_a_place(text: str) -> None:
    found = read(text)
    if isinstance(found, Filter):
        assert parse(render(found.root)).root == found.root
        return
    position = found.details["position"]
    assert isinstance(position, int)
    assert 0 <= position <= len(text)
    assert found.details["expected"]


def read(text: str) -> Filter | BadFilter:
    try:
        return parse(text)
    except BadFilter as fault:
        return fault


SYNTAX = ["abc", "de", "x", "Y", "é", ".", "\\.", "\\d", "\\w", "[a-z]", "[^]x]", "[[:alpha:]]b",
          "(?i)", "(?:ab|cde)", "(fgh)", "(?P<n>ij)k", "*", "+", "?", "??", "{2}", "{0,2}", "{1,}",
          "{,3}", "{", "|", "^", "$", "\\b", "\\\\", "\\n", "\\x41", "\\x{42}", "\\pL", "\\Qa.b\\E",
          "-", "/", "(ab)?", "(?s:.)", "[[:^digit:]]", "[\\]z]"]  # fmt: skip
SUBJECTS = st.text(st.sampled_from("abcdefghijkxyzABCYz.é{}, \n/\\-[]3b5"), max_size=12)


@settings(max_examples=examples(1500))
@given(st.lists(st.sampled_from(SYNTAX), min_size=1, max_size=6), st.lists(SUBJECTS, max_size=8))
def test_a_text_without_the_needed_literals_never_matches(
    pieces: list[str], subjects: list[str]
) -> None:
    pattern = "".join(pieces)
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        return
    needed = needed_by(pattern)
    if needed is None:
        return
    for subject in [*subjects, *("".join(pieces[at:]) for at in range(len(pieces)))]:
        if compiled.search(subject):
            assert holds(needed, subject.lower())


def holds(needed: Needed, subject: str) -> bool:
    if isinstance(needed, str):
        return needed.lower() in subject
    if isinstance(needed, AllOf):
        return all(holds(part, subject) for part in needed.parts)
    return any(holds(part, subject) for part in needed.parts)
