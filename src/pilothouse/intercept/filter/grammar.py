"""The grammar of filters, and what each part of it becomes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken

from pilothouse.intercept.filter.model import (
    MOST_CONDITIONS,
    And,
    Node,
    Or,
    WrittenWord,
    bad,
    condition,
)

GRAMMAR = r"""
?start: either
?either: both (_OR both)*
?both: single (_AND single)*
?single: OPEN either CLOSE -> grouped | compare
compare: COLUMN OPERATOR value
?value: QUOTED | bare
bare: piece+
piece: CHUNK | OPEN piece* CLOSE

COLUMN: /[^\W\d]\w*/
OPERATOR: /==|!=|=~|!~|>=|<=|>|</
_AND: "&&"
_OR: "||"
OPEN: "("
CLOSE: ")"
QUOTED.2: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/s
CHUNK: /(?:[^\s()&|\\]|\\(?:.|$)|&(?!&)|\|(?!\|))(?:[^()&|\\]|\\(?:.|$)|&(?!&)|\|(?!\|))*/s
SPACE: /\s+/
%ignore SPACE
"""
"""Grammar for Lark. After a value the parser knows whether a closing parenthesis belongs to it, so
values may hold balanced ones. Pieces keep no text: values are cut from the filter, with blanks."""

_ESCAPED = re.compile(r"\\([\"'\\])")


class Span(NamedTuple):
    """Place of a value without quotes."""

    start: int
    end: int


class Raw(NamedTuple):
    """A condition before its value is cut from the text."""

    column: Token
    operator: Token
    value: Token | Span


class FilterGroup(NamedTuple):
    kind: type[And] | type[Or]
    parts: list[Raw | FilterGroup]
    conditions: int


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Builder that works bottom up while the parser reads, so that depth costs no recursion."""

    def either(self, *parts: Raw | FilterGroup) -> FilterGroup:
        return _grouped(Or, parts)

    def both(self, *parts: Raw | FilterGroup) -> FilterGroup:
        return _grouped(And, parts)

    def grouped(self, _open: Token, inner: Raw | FilterGroup, _close: Token) -> Raw | FilterGroup:
        return inner

    def compare(self, column: Token, operator: Token, value: Token | Span) -> Raw:
        return Raw(column, operator, value)

    def bare(self, *pieces: Span) -> Span:
        return Span(pieces[0].start, pieces[-1].end)

    def piece(self, *parts: Token | Span) -> Span:
        ends = [_span(part) for part in parts]
        return Span(ends[0].start, ends[-1].end)


def read(text: str) -> Node:
    """Parse a filter into its tree; raises BadFilter."""
    try:
        found: Raw | FilterGroup = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _explained(text, error) from None
    return _resolved(text, found)


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=_Builder())


def _span(part: Token | Span) -> Span:
    if isinstance(part, Span):
        return part
    return Span(part.start_pos or 0, part.end_pos or 0)


def _grouped(kind: type[And] | type[Or], parts: tuple[Raw | FilterGroup, ...]) -> FilterGroup:
    count = sum(part.conditions if isinstance(part, FilterGroup) else 1 for part in parts)
    if count > MOST_CONDITIONS:
        raise bad("the filter has too many conditions", 0, f"at most {MOST_CONDITIONS}")
    return FilterGroup(kind, list(parts), count)


def _resolved(text: str, found: Raw | FilterGroup) -> Node:
    if isinstance(found, FilterGroup):
        parts = (_resolved(text, part) for part in found.parts)
        # (a && b) && c is one list: nothing that reads the tree has to see where brackets were.
        flat = [inner for part in parts for inner in _inner(found.kind, part)]
        return found.kind(tuple(flat))
    column, operator, value = found
    end = operator.end_pos or 0
    if text[end] in "=~<>!":
        # Taken as part of the value, a === b would search for the value "= b", and never find it.
        raise bad(
            f"there is no operator {operator}{text[end]}",
            operator.start_pos or 0,
            "an operator: ==, !=, =~, !~, >, >=, <, <=",
            "a value that begins so stands in quotes or after a blank",
        )
    return condition(_written(column), _written(operator), _cut(text, value))


def _inner(kind: type[And] | type[Or], part: Node) -> tuple[Node, ...]:
    return part.parts if isinstance(part, kind) else (part,)


def _written(token: Token) -> WrittenWord:
    return WrittenWord(str(token), token.start_pos or 0)


def _cut(text: str, value: Token | Span) -> WrittenWord:
    if isinstance(value, Token):
        return WrittenWord(_ESCAPED.sub(r"\1", value[1:-1]), (value.start_pos or 0) + 1)
    bare = text[value.start : value.end].rstrip()
    if bare[0] in "\"'":
        raise bad(
            f"the quote {bare[0]} is not closed",
            value.start,
            f"a closing {bare[0]}",
            "a value that begins with a quote itself stands in quotes of the other kind",
        )
    return WrittenWord(bare, value.start)


def _explained(text: str, error: UnexpectedInput) -> Exception:
    position = error.pos_in_stream
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    if at_end or position is None or position < 0:
        position = len(text)
    found = f"found {_next_word(text, position)}" if position < len(text) else "the filter ends"
    expected, hint = _expected(_terminals(error))
    return bad(found, position, expected, hint)


def _terminals(error: UnexpectedInput) -> set[str]:
    named = getattr(error, "expected", None) or getattr(error, "allowed", None) or ()
    return {str(name) for name in named}


def _expected(terminals: set[str]) -> tuple[str, str]:
    if "COLUMN" in terminals:
        return "a column or (", ""
    if "OPERATOR" in terminals:
        return "an operator: ==, !=, =~, !~, >, >=, <, <=", "equality is =="
    if "QUOTED" in terminals:
        return "a value", "a value that begins with &&, || or ) stands in quotes"
    if "CHUNK" in terminals and "_AND" not in terminals:
        hint = 'a value with &&, || or a single parenthesis stands in quotes: url =~ "a(b"'
        return "a closing parenthesis of the value", hint
    if not terminals & {"$END", "_AND"}:
        return "&&, || or )", ""
    return "&&, || or the end", "a value with a single parenthesis stands in quotes"


def _next_word(text: str, position: int) -> str:
    word = re.match(r"&&|\|\||\w+|\s*\S", text[position:])
    return repr(word.group()[:40] if word else text[position])
