"""Base models of tool arguments and results, and the type that marks text of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

    from pilothouse.core.declare.fence import Story


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in an answer."""

    data: bytes
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A reference to a resource in an answer: the client reads it when it wants it."""

    uri: str
    name: str
    mime_type: str = ""


type Block = Image | ResourceLink


class Args(BaseModel):
    """Arguments of a tool, camelCase on the wire. Unknown ones are refused by name."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        allow_inf_nan=False,
        # A start declares every tool, and a session calls a few of them.
        defer_build=True,
    )


class SnakeArgs(BaseModel):
    """Arguments of a tool whose spec writes snake_case."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Result(BaseModel):
    """What a tool returns, camelCase on the wire: the structured content of its answer."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )

    def dump(self) -> dict[str, Any]:
        """Return the structured content. A model whose spec shows nulls overrides this."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def tell(self, story: Story) -> None:
        """Write the short text of a tool of our own; a spec's tool answers its JSON instead."""
        story.quote("result", self.dump())

    def unread(self) -> frozenset[str]:
        """Return the fields of the structured content that the text of a spec's tool leaves out."""
        return frozenset()

    def blocks(self) -> tuple[Block, ...]:
        """Return further content beside the text, such as a screenshot."""
        return ()


class SnakeResult(Result):
    """What a tool returns whose spec writes snake_case."""

    model_config = ConfigDict(frozen=True, alias_generator=None, populate_by_name=True)


class PageText:
    """Text that a page, a server or a bookmark wrote: data, never part of our own sentences.

    It is deliberately no `str`. Formatting one into a line of ours raises, so that the only way
    into an answer is through the fence (`Story.quote`) or as a JSON value.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: str) -> None:
        self.raw = raw

    def __str__(self) -> NoReturn:
        raise TypeError("text of a page goes through Story.quote, never into a sentence of ours")

    def __format__(self, spec: str) -> NoReturn:
        str(self)
        raise AssertionError  # str() above always raises

    def __repr__(self) -> str:
        return f"PageText(<{len(self.raw)} characters>)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PageText) and other.raw == self.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, PageText) else PageText(str(value)),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.raw, return_schema=core_schema.str_schema()
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string"}
