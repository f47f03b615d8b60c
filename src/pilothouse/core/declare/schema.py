"""JSON Schemas of tools, as small and flat as models and strict clients like them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from pydantic import BaseModel


_VALUES = frozenset({"default", "examples", "const", "enum"})
"""Keywords whose value is data, not a schema."""
_OBVIOUS = (("minLength", 1), ("minimum", 0), ("minimum", 1), ("maxItems", 200))
_HIGH = 30_000
"""Upper bounds from here on are not shown, as nobody gets near them: of ports, of wait times."""


class _Plain(GenerateJsonSchema):
    """The generator of our schemas: an optional argument may be left out, but not be null."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        made = super().default_schema(schema)
        # Everybody takes it for granted that a default is off, an empty text or a zero.
        if made.get("default", ...) in (None, False, 0, ""):
            del made["default"]
        return made


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    return _tidy(model.model_json_schema(schema_generator=_Plain, mode="validation"))


def output_schema(model: type[BaseModel]) -> dict[str, Any]:
    return _tidy(model.model_json_schema(schema_generator=_Plain, mode="serialization"))


def without_the_obvious(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema as a list of tools shows it, which each model reads at each start.

    That a text is not empty, a number not negative, a port no larger than ports are and a wait
    not endless, everybody takes for granted. Other calls are refused all the same, in words that
    name the bounds. A description that only repeats the argument's name says nothing.
    """
    shown: dict[str, Any] = _without(schema)
    return shown


def _without(node: Any, *, names: bool = False) -> Any:
    if isinstance(node, list):
        return [_without(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _without(_unrepeated(name, about)) for name, about in node.items()}
    return {
        key: value if key in _VALUES else _without(value, names=key == "properties")
        for key, value in node.items()
        if (key, value) not in _OBVIOUS and not (key == "maximum" and value >= _HIGH)
    }


def _unrepeated(name: str, about: Any) -> Any:
    """Leave out a description that is the name of its argument, such as `Session` of sessionId."""
    said = str(about.get("description", "")).casefold()
    if said not in (name.casefold(), name.casefold().removesuffix("id").rstrip("_")):
        return about
    return {key: value for key, value in about.items() if key != "description"}


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Put the referenced schemas in place and drop titles, which only repeat the names."""
    definitions: dict[str, Any] = schema.pop("$defs", {})

    def walk(node: Any, *, names: bool = False) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict):
            return node
        if not names and "$ref" in node:
            target = definitions[node["$ref"].rsplit("/", 1)[1]]
            beside = {key: value for key, value in node.items() if key != "$ref"}
            return walk({**target, **beside})
        return {
            key: value
            if not names and key in _VALUES
            else walk(value, names=not names and key == "properties")
            for key, value in node.items()
            if names or not (key == "title" and isinstance(value, str))
        }

    tidied: dict[str, Any] = walk(schema)
    tidied.pop("description", None)
    return tidied
