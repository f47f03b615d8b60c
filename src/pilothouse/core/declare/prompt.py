"""A prompt is one declared value, like a tool: what a user picks from a menu, and what it says."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import BaseModel

from pilothouse.core.declare.offered import is_offered, offered_text
from pilothouse.core.declare.schema import input_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pilothouse.core.declare.offered import Line


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt: everything that is said about it anywhere comes from here."""

    name: str
    title: str
    description: str
    args: type[BaseModel]
    """Argument model whose fields are all texts: a user types them into a form."""
    needs_one_of: tuple[str, ...]
    """Tools of which one must be served for the prompt to be offered."""
    lines: Callable[[Any], Iterable[Line]]

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.args)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """The arguments as `prompts/list` shows them."""
        required = self.input_schema.get("required", [])
        return [
            {"name": name, "description": about["description"], "required": name in required}
            for name, about in self.input_schema.get("properties", {}).items()
        ]

    def is_offered(self, tools: Collection[str]) -> bool:
        return is_offered(self.needs_one_of, tools)

    def text(self, args: BaseModel, tools: Collection[str]) -> str:
        """Return what the prompt says where these tools are served."""
        return offered_text(self.lines(args), tools)

    def completions(self, argument: str, begun: str) -> list[str]:
        """Return the choices of an argument that begin like this, none where it has no choices.
        Raises KeyError for a name that is none of the prompt's arguments."""
        choices = self.input_schema.get("properties", {})[argument].get("enum", ())
        return [choice for choice in choices if choice.startswith(begun)]


def prompt(
    title: str, *, needs_one_of: tuple[str, ...]
) -> Callable[[Callable[[Any], Iterable[Line]]], Prompt]:
    """Make a `Prompt` of a function from its argument model to lines; `map_api` is `map-api`.

    Raises:
        TypeError: the declaration is incomplete; a mistake of ours, found at import.
    """

    def make(lines: Callable[[Any], Iterable[Line]]) -> Prompt:
        function = lines.__name__
        description = inspect.getdoc(lines)
        if not description:
            raise TypeError(f"{function} needs a docstring: it is what a user reads")
        names = list(inspect.signature(lines).parameters)
        args = get_type_hints(lines).get(names[0]) if len(names) == 1 else None
        if not (isinstance(args, type) and issubclass(args, BaseModel)):
            raise TypeError(f"{function}: the one parameter must be the argument model")
        for name, info in args.model_fields.items():
            if not info.description:
                raise TypeError(f"{function}: argument {name} needs a description")
        return Prompt(
            name=function.replace("_", "-"),
            title=title,
            description=description,
            args=args,
            needs_one_of=needs_one_of,
            lines=lines,
        )

    return make
