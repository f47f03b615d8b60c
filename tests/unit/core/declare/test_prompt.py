"""Declaring a prompt: what the declaration gives, and which mistakes stop the import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import pytest
from pydantic import Field

from pilothouse.core.declare.model import Args
from pilothouse.core.declare.offered import Line, Words
from pilothouse.core.declare.prompt import prompt


class Ask(Args):
    what: str = Field(description="What to look at")
    form: Literal["long", "short", "shorter"] = Field(default="short", description="How much")


class Undescribed(Args):
    text: str


@prompt("Look at it", needs_one_of=("find", "see"))
def look_at(args: Ask) -> Iterable[Line]:
    """Look at something, closely."""
    return (Words(f"Look at {args.what}, {args.form}."), ("1. `find` it.", "1. See it."))


def test_a_prompt_is_what_its_function_says() -> None:
    assert (look_at.name, look_at.title) == ("look-at", "Look at it")
    assert look_at.description == "Look at something, closely."
    assert look_at.arguments == [
        {"name": "what", "description": "What to look at", "required": True},
        {"name": "form", "description": "How much", "required": False},
    ]


def test_its_text_has_the_arguments_and_the_tools_that_are_there() -> None:
    args = Ask(what="a `find`")
    assert look_at.text(args, {"find"}) == "Look at a `find`, short.\n1. `find` it."
    assert look_at.text(args, {"see"}) == "Look at a `find`, short.\n1. See it."


def test_choices_complete_what_was_begun_and_free_text_does_not() -> None:
    assert look_at.completions("form", "") == ["long", "short", "shorter"]
    assert look_at.completions("form", "sh") == ["short", "shorter"]
    assert look_at.completions("form", "x") == []
    assert look_at.completions("what", "sh") == []
    with pytest.raises(KeyError):
        look_at.completions("nothing", "")


def no_docs(args: Ask) -> Iterable[Line]:
    return ()


def no_model(args: str) -> Iterable[Line]:
    """Say nothing."""
    return ()


def two(args: Ask, more: Ask) -> Iterable[Line]:
    """Say nothing."""
    return ()


def undescribed(args: Undescribed) -> Iterable[Line]:
    """Say nothing."""
    return ()


@pytest.mark.parametrize(
    ("function", "mistake"),
    [
        (no_docs, "no_docs needs a docstring"),
        (no_model, "no_model: the one parameter must be the argument model"),
        (two, "two: the one parameter must be the argument model"),
        (undescribed, "undescribed: argument text needs a description"),
    ],
)
def test_an_incomplete_declaration_stops_the_import(function: Any, mistake: str) -> None:
    with pytest.raises(TypeError, match=mistake):
        prompt("Nothing", needs_one_of=())(function)
