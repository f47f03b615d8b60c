"""A filter in words: how it was read, and how it will be carried out."""

from __future__ import annotations

import re
from typing import Any

from pilothouse.core.timeline.clock import iso
from pilothouse.intercept.filter.model import And, Compare, Node, Or, parse
from pilothouse.intercept.filter.sql import Lookup, Lookups, QueryPlan, leaves_of, plan_of
from pilothouse.intercept.history.schema import COLUMNS, PER_PACKET

_PLAIN = re.compile(r"[\w./:?=%+*,;@#$^~\[\]{}<>-]+")
_WORDS = {
    "==": "is exactly",
    "!=": "is not",
    "=~": "matches",
    "!~": "does not match",
    ">": "is more than",
    ">=": "is at least",
    "<": "is less than",
    "<=": "is at most",
}
_CONTENT = {
    "request": "the request",
    "response": "the response",
    "full_text": "the request or the response",
    "full_text_i": "the request or the response, in any case,",
}


def render(node: Node) -> str:
    """Return the filter that reads as this tree, with every parenthesis that says how it groups."""
    if isinstance(node, Compare):
        return f"{node.column} {node.operator} {_written(node)}"
    word = " && " if isinstance(node, And) else " || "
    return word.join(
        render(part) if isinstance(part, Compare) else f"({render(part)})" for part in node.parts
    )


def described(node: Node) -> str:
    """Describe the same in a sentence."""
    if isinstance(node, Compare):
        return _sentence(node)
    word = " and " if isinstance(node, And) else " or "
    return word.join(
        described(part) if isinstance(part, Compare) else f"({described(part)})"
        for part in node.parts
    )


def explained(text: str) -> dict[str, Any]:
    """Return the answer of `filter_explain`; raises BadFilter."""
    if not text.strip():
        return {"filter": text, "meaning": "every exchange", "plan": _planned(plan_of(text))}
    parsed, plan = parse(text), plan_of(text)
    answer: dict[str, Any] = {
        "filter": text,
        "read_as": render(parsed.root),
        "meaning": f"exchanges where {described(parsed.root)}",
        "tree": _tree(parsed.root),
        "plan": _planned(plan),
    }
    negated = any(leaf.is_negative for leaf in leaves_of(parsed.root))
    if negated:
        answer["note"] = "a column without a value matches nothing, not even != or !~"
    if plan.warning:
        answer["warning"] = plan.warning
    return answer


def _tree(node: Node) -> dict[str, Any]:
    if isinstance(node, And | Or):
        return {"all" if isinstance(node, And) else "any": [_tree(part) for part in node.parts]}
    return {"column": node.column, "operator": node.operator, "value": _reported(node)}


def _planned(plan: QueryPlan) -> dict[str, Any]:
    steps: list[str] = []
    if plan.lookup is not None:
        steps.append(f"the text index finds candidates by {_looked_up(plan.lookup)}")
    elif plan.equalities:
        steps.append(f"the index of {', '.join(plan.equalities)} finds the rows")
    else:
        steps.append("rows are walked in the order of the page until it is full")
    if plan.coarse is not None or plan.lookup is not None:
        steps.append("each one is then checked exactly")
    literals = _literals(plan.lookup) if plan.lookup is not None else []
    return {
        "scan": not plan.is_narrow and plan.sql != "1",
        "indexes": list(plan.equalities) if plan.lookup is None else ["text"],
        "literals": literals,
        "steps": steps,
    }


def _looked_up(lookup: Lookup | Lookups) -> str:
    if isinstance(lookup, Lookup):
        quoted = ", ".join(repr(word) for word in lookup.words)
        return f"{quoted} in the {'contents' if lookup.table == 'text' else 'urls'}"
    parts = [_looked_up(part) for part in lookup.parts]
    return (" and " if lookup.every else " or ").join(f"({part})" for part in parts)


def _literals(lookup: Lookup | Lookups) -> list[str]:
    if isinstance(lookup, Lookup):
        return list(lookup.words)
    return [word for part in lookup.parts for word in _literals(part)]


def _sentence(node: Compare) -> str:
    shown = _reported(node)
    if COLUMNS[node.column] == "content":
        verb = {"==": "contains", "!=": "does not contain"}.get(
            node.operator, _WORDS[node.operator]
        )
        return f"{_CONTENT[node.column]} {verb} {shown}"
    if node.column not in PER_PACKET:
        return f"{node.column} {_WORDS[node.operator]} {shown}"
    if node.is_negative:
        positive = "is exactly" if node.operator == "!=" else "matches"
        return f"{node.column} of neither packet {positive} {shown}"
    return f"{node.column} of either packet {_WORDS[node.operator]} {shown}"


def _reported(node: Compare) -> str | int | bool:
    kind = COLUMNS[node.column]
    if kind == "boolean":
        return bool(node.value)
    if kind == "time" and isinstance(node.value, int) and 0 <= node.value < 2**47:
        return iso(node.value)
    return node.value


def _written(node: Compare) -> str:
    value = str(node.value)
    if COLUMNS[node.column] == "boolean":
        return "true" if node.value else "false"
    if _PLAIN.fullmatch(value):
        return value
    # Every backslash is doubled, so that none stands before a quote by chance.
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
