"""A tool is one declared value; server, docs, command line and tests are made from it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_type_hints

from pydantic import BaseModel

from pilothouse.core.declare.listing import Listing, Profile
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.schema import input_schema, output_schema, without_the_obvious

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pilothouse.core.declare.faults import Envelope, Fault

type Effect = Literal["read", "write", "destroy"]


class Progress(Protocol):
    """The port of long calls that reports progress to the client; it costs nothing if unasked."""

    async def __call__(
        self, done: float, total: float | None = None, message: str = ""
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of tools of one spec, with their error form and answer form."""

    name: str
    summary: str
    envelope: Envelope
    camel: bool = False
    """Flag for tool names in camelCase (`start_session` is served as `startSession`)."""
    own: bool = False
    """Flag for tools that answer short text with a fenced quote; a spec's tools answer JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call worth showing. Contract tests validate its arguments."""

    title: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool: everything that is said about it anywhere comes from here."""

    name: str
    group: Group
    description: str
    effect: Effect
    idempotent: bool
    open_world: bool
    args: type[BaseModel]
    result: type[Result]
    raises: tuple[type[Fault], ...]
    examples: tuple[Example, ...]
    profile: Profile
    own: bool
    """Flag for answers of short text with a fenced quote, whatever its group's spec has."""
    bare: str
    """Name of the result's one array that stands bare in the text (`""`: the whole object)."""
    ports: Mapping[str, type]
    """Handler parameter → the port type that the session hands in."""
    handler: Callable[..., Awaitable[Result]]

    @property
    def summary(self) -> str:
        return self.description.split("\n", 1)[0]

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.args)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        return output_schema(self.result)

    @property
    def listing(self) -> Listing:
        return Listing(
            name=self.name,
            group=self.group.name,
            profile=self.profile,
            description=self.description,
            annotations=self.annotations,
            input_schema=without_the_obvious(self.input_schema),
        )

    @property
    def annotations(self) -> dict[str, bool]:
        """MCP's hints about what a call does."""
        return {
            "readOnlyHint": self.effect == "read",
            "destructiveHint": self.effect == "destroy",
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


def tool(
    group: Group,
    *,
    effect: Effect,
    raises: tuple[type[Fault], ...] = (),
    examples: tuple[Example, ...] = (),
    idempotent: bool | None = None,
    open_world: bool = False,
    profile: Profile = "full",
    own: bool | None = None,
    bare: str = "",
) -> Callable[[Callable[..., Awaitable[Result]]], Tool]:
    """Make a `Tool` of a handler; it registers nothing, groups list their tools themselves.

    The handler's first parameter is the argument model, further ones are ports found by their
    type, the return annotation is the result model, the docstring is what the model reads.

    Raises:
        TypeError: the declaration is incomplete; a mistake of ours, found at import.
    """

    def make(handler: Callable[..., Awaitable[Result]]) -> Tool:
        function = handler.__name__
        description = inspect.getdoc(handler)
        if not description:
            raise TypeError(f"{function} needs a docstring: it is what a model reads")
        args, result, ports = _types_of(handler)
        for name, info in args.model_fields.items():
            if not info.description:
                raise TypeError(f"{function}: argument {name} needs a description")
        if bare and bare not in result.model_fields:
            raise TypeError(f"{function}: its result has no field {bare}")
        return Tool(
            name=_camel(function) if group.camel else function,
            group=group,
            description=description,
            effect=effect,
            idempotent=effect == "read" if idempotent is None else idempotent,
            open_world=open_world,
            args=args,
            result=result,
            raises=raises,
            examples=examples,
            profile=profile,
            own=group.own if own is None else own,
            bare=bare,
            ports=ports,
            handler=handler,
        )

    return make


def _types_of(
    handler: Callable[..., Awaitable[Result]],
) -> tuple[type[BaseModel], type[Result], dict[str, type]]:
    """Return a handler's argument model, its result model and the types of its ports.

    Raises:
        TypeError: one of them is missing.
    """
    hints = get_type_hints(handler)
    result = hints.pop("return", None)
    names = list(inspect.signature(handler).parameters)
    args = hints.get(names[0]) if names else None
    if not (isinstance(args, type) and issubclass(args, BaseModel)):
        raise TypeError(f"{handler.__name__}: the first parameter must be the argument model")
    if not (isinstance(result, type) and issubclass(result, Result)):
        raise TypeError(f"{handler.__name__}: the return annotation must be a Result")
    untyped = [name for name in names if name not in hints]
    if untyped:
        raise TypeError(f"{handler.__name__}: port {', '.join(untyped)} needs a type")
    return args, result, {name: hints[name] for name in names[1:]}


def _camel(name: str) -> str:
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part.capitalize() for part in rest)
