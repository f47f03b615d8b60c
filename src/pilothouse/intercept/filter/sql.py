"""A filter as SQL over `packets p`, and what the text index can say beforehand.

Each row carries what its exchange has in common, and in `peer_…` what the other packet has for
itself, so a condition is true or false of a row alone. SQL's NULL does what a missing value should:
it matches nothing, not even `!=`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pilothouse.intercept.filter.literals import index_query, needed_by, words
from pilothouse.intercept.filter.model import And, Compare, Node, Or, parse
from pilothouse.intercept.history.schema import COLUMNS, PER_PACKET

if TYPE_CHECKING:
    from collections.abc import Callable

type Sql = tuple[str, tuple[str | int, ...]]
"""A condition with its values."""
type Test = tuple[Callable[[str], str], tuple[str | int, ...]]

FAR = 2_000
"""Packets of one exchange whose ids are further apart have an index of their own."""
FAR_APART = f"abs(peer_id - id) > {FAR}"

INDEXED_ORDERS = {
    "group": "packets_group",
    "method": "packets_method",
    "status": "packets_status",
    "time": "packets_time",
    "length": "packets_length",
}
FAR_INDEX = "packets_far"
INDEXES = (
    "CREATE INDEX IF NOT EXISTS packets_group ON packets (group_id)",
    "CREATE INDEX IF NOT EXISTS packets_method ON packets (method)",
    "CREATE INDEX IF NOT EXISTS packets_status ON packets (status)",
    "CREATE INDEX IF NOT EXISTS packets_time ON packets (time)",
    "CREATE INDEX IF NOT EXISTS packets_length ON packets (length)",
    "CREATE INDEX IF NOT EXISTS packets_server ON packets (server_name)",
    "CREATE INDEX IF NOT EXISTS packets_session ON packets (session)",
    "CREATE INDEX IF NOT EXISTS packets_type ON packets (type) WHERE type <> 'HTTP'",
    "CREATE INDEX IF NOT EXISTS packets_resend ON packets (id) WHERE resend = 1",
    "CREATE INDEX IF NOT EXISTS packets_modified ON packets (id)"
    " WHERE modified = 1 OR peer_modified = 1",
    f"CREATE INDEX IF NOT EXISTS {FAR_INDEX} ON packets (id) WHERE {FAR_APART}",
)
"""The last four hold few rows, so they cost nearly nothing to keep."""

_EQUALITIES = frozenset({"id", "group", "method", "status", "server_name"})
_SIDES = {
    "request": "c.id = iif(p.is_response, p.peer_id, p.id)",
    "response": "c.id = iif(p.is_response, p.id, p.peer_id)",
    "full_text": "c.id IN (p.id, p.peer_id)",
    "full_text_i": "c.id IN (p.id, p.peer_id)",
}
_TEXT_COSTS = (
    "{0} has nothing that an index could find, so the contents of packets are read one by one: a"
    " call reads for at most 400 ms, then next_cursor goes on. A literal of 3 or more characters,"
    " or a condition on an indexed column joined with &&, makes it fast"
)
_ROWS_COST = (
    "{0} has nothing that an index could find, so packets are tried one by one: a call tries for at"
    " most 400 ms, then next_cursor goes on"
)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Query to the index of texts or of urls."""

    table: Literal["text", "url"]
    query: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lookups:
    """Lookups joined: of `every` part the hits in common, else the hits of any."""

    every: bool
    parts: tuple[Lookup | Lookups, ...]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """Plan by which a filter is carried out."""

    sql: str = "1"
    values: tuple[str | int, ...] = ()
    coarse: str | None = None
    """Condition of the parts without our own functions, which take their time: it leaves the rows
    that these have to judge. None if the filter needs none of them."""
    coarse_values: tuple[str | int, ...] = ()
    lookup: Lookup | Lookups | None = None
    equalities: tuple[str, ...] = ()
    """Columns whose index narrows it."""
    warning: str = ""

    @property
    def is_narrow(self) -> bool:
        """True if few rows have to be looked at, as far as can be known without looking."""
        return self.lookup is not None or bool(self.equalities)


EVERYTHING = QueryPlan()


@lru_cache(maxsize=256)
def plan_of(text: str) -> QueryPlan:
    """Make the plan for a filter; nothing but blanks asks for everything. Raises BadFilter."""
    if not text.strip():
        return EVERYTHING
    parsed = parse(text)
    sql, values = _condition(parsed.root)
    coarse, coarse_values = _coarse(parsed.root) or ("1", ())
    lookup = _lookup(parsed.root)
    equalities = _equalities(parsed.root)
    costs = [] if lookup or equalities else _costs(parsed.root)
    return QueryPlan(
        sql=sql,
        values=values,
        coarse=coarse if _calls_python(parsed.root) else None,
        coarse_values=coarse_values,
        lookup=lookup,
        equalities=equalities,
        warning="; ".join((*parsed.warnings, *costs)),
    )


def _condition(node: Node) -> Sql:
    if isinstance(node, Compare):
        return _content(node) if COLUMNS[node.column] == "content" else _compared(node)
    return _joined(node, [_condition(part) for part in node.parts])


def _coarse(node: Node) -> Sql | None:
    """Return the part without our functions, true of each row that passes the filter; None: all."""
    if isinstance(node, Compare):
        return None if _calls_python(node) else _compared(node)
    parts = [_coarse(part) for part in node.parts]
    known = [part for part in parts if part is not None]
    if not known or (isinstance(node, Or) and len(known) < len(parts)):
        return None
    return _joined(node, known)


def _joined(node: And | Or, parts: list[Sql]) -> Sql:
    word = " AND " if isinstance(node, And) else " OR "
    return f"({word.join(sql for sql, _ in parts)})", tuple(v for _, vs in parts for v in vs)


def _compared(node: Compare) -> Sql:
    if node.column == "id" and node.operator == "==":
        # As a list of ids it is two lookups, where `or peer_id = ?` would try every row.
        sql = "p.id IN (?, (SELECT peer_id FROM packets WHERE id = ?))"
        return sql, (node.value, node.value)
    name = "group_id" if node.column == "group" else node.column
    test, values = _test(node)
    own, other = test(f"p.{name}"), test(f"p.peer_{name}")
    if node.column not in PER_PACKET:
        return (f"NOT {own}" if node.is_negative else own), values
    if node.is_negative:
        return f"(NOT {own} AND coalesce(NOT {other}, 1))", values * 2
    return f"({own} OR {other})", values * 2


def _test(node: Compare) -> Test:
    """Return SQL that says of a column whether the positive form of the condition holds."""
    value = node.value
    if node.is_pattern:
        return (lambda x: f"found(?, {x})"), (value,)
    kind = COLUMNS[node.column]
    if kind == "boolean":
        return (lambda x: f"{x} = {int(value)}"), ()
    if kind == "time":
        return _time_test(node.operator, int(value))
    if node.column == "type" and value != "HTTP":
        return (lambda x: f"({x} = ? AND {x} <> 'HTTP')"), (value,)
    sign = "=" if node.operator in ("==", "!=") else node.operator
    return (lambda x: f"({x} {sign} ?)"), (value,)


def _time_test(operator: str, value: int) -> Test:
    """Return a test of times as they are shown, in whole milliseconds: they have fractions."""
    if operator == ">":
        return (lambda x: f"{x} >= ?"), (value + 1,)
    if operator == ">=":
        return (lambda x: f"{x} >= ?"), (value,)
    if operator == "<":
        return (lambda x: f"{x} < ?"), (value,)
    if operator == "<=":
        return (lambda x: f"{x} < ?"), (value + 1,)
    return (lambda x: f"({x} >= ? AND {x} < ?)"), (value, value + 1)


def _content(node: Compare) -> Sql:
    how = "pattern" if node.is_pattern else "literal"
    if node.column == "full_text_i":
        how += "_i"
    side, has = _SIDES[node.column], f"text_has('{how}', ?, c.id, c.head, c.body)"
    negated = "NOT " if node.is_negative else ""
    if node.column in ("request", "response"):
        # A side that is missing has no text that could lack something.
        sql = f"EXISTS (SELECT 1 FROM contents c WHERE {side} AND {negated}{has})"
    else:
        sql = f"{negated}EXISTS (SELECT 1 FROM contents c WHERE {side} AND {has})"
    return sql, (node.value,)


def _lookup(node: Node) -> Lookup | Lookups | None:
    if isinstance(node, Compare):
        return _leaf_lookup(node)
    found = [_lookup(part) for part in node.parts]
    known = tuple(part for part in found if part is not None)
    if not known or (isinstance(node, Or) and len(known) < len(found)):
        return None
    return Lookups(isinstance(node, And), known) if len(known) > 1 else known[0]


def _leaf_lookup(node: Compare) -> Lookup | None:
    is_content = COLUMNS[node.column] == "content"
    if node.is_negative or not (is_content or node.column == "url"):
        return None
    text = str(node.value)
    needed = needed_by(text) if node.is_pattern else text
    if needed is None:
        return None
    any_case = node.column == "full_text_i" or (node.is_pattern and "(?" in text)
    query = index_query(needed, any_case=any_case)
    if query is None:
        return None
    return Lookup("text" if is_content else "url", query, tuple(words(needed)))


def _equalities(node: Node) -> tuple[str, ...]:
    if isinstance(node, Compare):
        return (node.column,) if _has_index(node) else ()
    found = [_equalities(part) for part in node.parts]
    if isinstance(node, Or) and not all(found):
        return ()
    return tuple(dict.fromkeys(column for columns in found for column in columns))


def _has_index(node: Compare) -> bool:
    if node.operator != "==":
        return False
    if node.column == "type":
        return node.value != "HTTP"
    if node.column in ("resend", "modified"):
        return node.value == 1
    return node.column in _EQUALITIES


def _calls_python(node: Node) -> bool:
    if isinstance(node, Compare):
        return node.is_pattern or COLUMNS[node.column] == "content"
    return any(map(_calls_python, node.parts))


def _costs(node: Node) -> list[str]:
    """Explain why it takes long, once for texts and once for rows."""
    leaves = [leaf for leaf in leaves_of(node) if _calls_python(leaf)]
    texts = [leaf for leaf in leaves if COLUMNS[leaf.column] == "content"]
    rows = [leaf for leaf in leaves if leaf not in texts]
    if texts:
        return [_TEXT_COSTS.format(_shown(texts[0]))]
    return [_ROWS_COST.format(_shown(rows[0]))] if rows else []


def leaves_of(node: Node) -> list[Compare]:
    if isinstance(node, Compare):
        return [node]
    return [leaf for part in node.parts for leaf in leaves_of(part)]


def _shown(node: Compare) -> str:
    return f"{node.column} {node.operator} {str(node.value)[:60]}"
