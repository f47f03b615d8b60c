"""Schemas as clients like them: flat, small, and without null."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import Field

from pilothouse.core.declare.model import Args, PageText, Result
from pilothouse.core.declare.schema import input_schema, output_schema, without_the_obvious


class Point(Args):
    """Where."""

    x: int = Field(description="Across")
    y: int | None = Field(default=None, description="Down")


class Click(Args):
    """Docstrings of models are for us, not for a model that reads the schema."""

    at: Point = Field(description="Where to click")
    also: list[Point] = Field(default=[], description="And there")
    maybe: Point | None = Field(default=None, description="Perhaps there")
    button: Literal["left", "right"] = Field(default="left", description="Which button")
    mood: Literal["calm", "glad"] | None = Field(default=None, description="How")
    times: int = Field(default=1, ge=1, le=3, description="How often")
    title: str | None = Field(default=None, description="A property that is called title")
    properties: dict[str, int] = Field(default={}, description="And one called properties")
    either: int | str | None = Field(default=None, description="A number or a text")


class Clicked(Result):
    title: PageText = Field(description="Title of the page")
    point: Point = Field(description="Where it was")
    error_text: str | None = Field(default=None, description="Left out when it went well")


def nodes(schema: Any, *, names: bool = False) -> list[dict[str, Any]]:
    """Every schema in a schema; the names of properties are no keywords."""
    if isinstance(schema, list):
        return [found for item in schema for found in nodes(item)]
    if not isinstance(schema, dict):
        return []
    inner = [
        found
        for key, value in schema.items()
        if key not in ("default", "enum", "const") or names
        for found in nodes(value, names=key == "properties" and not names)
    ]
    return inner if names else [schema, *inner]


@pytest.mark.parametrize(
    "schema", [input_schema(Click), output_schema(Clicked)], ids=["input", "output"]
)
def test_nothing_is_referred_to_titled_or_null(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    for node in nodes(schema):
        assert not {"$ref", "$defs", "title"} & node.keys()
        assert node.get("type") != "null"
        assert {"type": "null"} not in node.get("anyOf", [])
    assert "description" not in schema


def test_optional_means_absent() -> None:
    schema = input_schema(Click)
    assert schema["required"] == ["at"]
    for name in ("maybe", "mood", "title", "either"):
        assert "default" not in schema["properties"][name]
    assert schema["properties"]["title"] == {
        "type": "string",
        "description": "A property that is called title",
    }
    assert schema["properties"]["mood"]["enum"] == ["calm", "glad"]


def test_defaults_and_bounds_are_kept() -> None:
    properties = input_schema(Click)["properties"]
    assert properties["button"]["default"] == "left"
    assert properties["times"] == {
        "type": "integer", "default": 1, "minimum": 1, "maximum": 3, "description": "How often",
    }  # fmt: skip


def test_unknown_arguments_are_refused_at_every_level() -> None:
    schema = input_schema(Click)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["at"]["additionalProperties"] is False
    assert schema["properties"]["also"]["items"]["additionalProperties"] is False
    wrong = {"at": {"x": 1, "z": 2}}
    assert not Draft202012Validator(schema).is_valid(wrong)
    assert Draft202012Validator(schema).is_valid({"at": {"x": 1}, "also": [{"x": 1, "y": 2}]})


def test_a_nested_model_keeps_the_description_of_its_place() -> None:
    properties = input_schema(Click)["properties"]
    assert properties["at"]["description"] == "Where to click"
    assert properties["maybe"]["description"] == "Perhaps there"
    assert properties["maybe"]["properties"]["x"]["type"] == "integer"


def test_a_property_may_be_called_like_a_keyword() -> None:
    properties = input_schema(Click)["properties"]
    assert properties["properties"]["additionalProperties"] == {"type": "integer"}
    assert "title" in output_schema(Clicked)["properties"]


def test_text_of_a_page_is_a_string() -> None:
    assert output_schema(Clicked)["properties"]["title"] == {
        "type": "string",
        "description": "Title of the page",
    }


def test_a_default_is_data_and_stays_as_it_is() -> None:
    class Create(Args):
        bookmark: dict[str, str] = Field(
            default={"title": "New", "url": "about:blank"}, description="What to add"
        )

    default = input_schema(Create)["properties"]["bookmark"]["default"]
    assert default == {"title": "New", "url": "about:blank"}


def test_making_a_schema_twice_gives_the_same() -> None:
    assert json.dumps(input_schema(Click)) == json.dumps(input_schema(Click))


def test_a_list_leaves_out_what_everybody_takes_for_granted() -> None:
    class Ask(Args):
        minimum: int = Field(ge=1, le=65_535, description="A port, oddly named")
        text: str = Field(min_length=1, max_length=9, description="Words")
        budget: int = Field(ge=300, description="At least so much")
        each: list[Point] = Field(default=[], description="Points")

    full = input_schema(Ask)
    shown = without_the_obvious(full)["properties"]
    assert shown["minimum"] == {"description": "A port, oddly named", "type": "integer"}
    assert shown["text"] == {"description": "Words", "maxLength": 9, "type": "string"}
    assert shown["budget"]["minimum"] == 300
    assert shown["each"] == full["properties"]["each"]
    assert full["properties"]["minimum"]["maximum"] == 65_535
