"""How docstrings open: what a function does, and what a class, a property or an attribute is."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

from tests.contract.test_code_layout import modules

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHERS = 14
"""Docstrings that open otherwise: texts for clients, which stay as they are. It only gets less."""
VERBS = frozenset(
    """
    accept act add admit allow answer append apply ask attach be become begin bring call
    capture carry check claim clear close commit compare compile connect copy count create
    cut decide decode decompress delete describe do drop edit end estimate exchange expand
    expect explain fail fetch fill find finish forget format forward gather get give go
    group guess hand handle hang have hide hold index install join judge keep kill know
    label lay lead learn leave let list listen live load log look make mark mask measure
    merge name navigate normalize note observe open pack parse pass poll prepare present
    print put queue quote raise reach read receive record refuse release remember remove
    rename renew replace replay report restart restore return rewrite route run save say see
    send serve set settle share shorten show signal skip slow sort spare speak split start
    stop subscribe sweep take tell try turn undo unpack use validate verify wait wake watch
    work wrap write yield
    """.split()  # a list of words is read more easily so
)
FRAGMENT = re.compile(
    r"(Of|What|Whether|Those|Until|Whose|Where|Which|How|Who|That|By|In|As|When|For|To|At|On|With"
    r"|Without|If|Because|Not|So|Its|Their|It|They|There|Asked|Told|Said|Kept|Made|Nothing)\b"
)
PUBLISHED = {"tool", "resource", "prompt"}
"""Decorators of functions whose docstrings are texts for clients."""


@cache
def docstrings() -> list[tuple[str, str, str]]:
    """Return every docstring: its place, what it belongs to, and its text."""
    return [
        (f"{file}:{line}", kind, text)
        for file, source in modules().items()
        for line, kind, text in _docstrings_of(ast.parse(source))
    ]


def _docstrings_of(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            names = {_name(one) for one in node.decorator_list}
            if text and not names & PUBLISHED:
                is_noun = isinstance(node, ast.ClassDef) or any("property" in n for n in names)
                yield node.lineno, "noun" if is_noun else "function", text
        if isinstance(node, ast.ClassDef | ast.Module):
            for before, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(before, ast.Assign | ast.AnnAssign | ast.TypeAlias):
                    match after:
                        case ast.Expr(ast.Constant(str() as text)):
                            yield after.lineno, "noun", text


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def opens_well(kind: str, text: str) -> bool:
    if kind == "noun":
        return not FRAGMENT.match(text)
    return text.split(maxsplit=1)[0].strip(",.:;").lower() in VERBS


def test_functions_open_with_a_verb_and_other_docstrings_with_no_fragment() -> None:
    found = docstrings()
    assert len(found) > 3_000
    other = [
        f"{at} {text.splitlines()[0]}" for at, kind, text in found if not opens_well(kind, text)
    ]
    assert len(other) <= OTHERS, "\n".join(other)


def test_every_verb_of_the_list_is_used() -> None:
    used = {text.split(maxsplit=1)[0].strip(",.:;").lower() for _, kind, text in docstrings()}
    assert VERBS - used == set()
