"""What holds for every declared tool, resource and fault, of the product and of the fixtures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from pilothouse.core.faults import COMMON, Fault
from pilothouse.core.registry import Registry
from pilothouse.core.settings import GROUPS
from pilothouse.groups import PARTS
from pilothouse.server.call import parse_args
from tests.support.fixture_tools import PART

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse.core.resource import Resource
    from pilothouse.core.tool import Tool

MOST_DESCRIPTION = 1_024
MOST_AVERAGE_BYTES = 700
MOST_DEFAULT_BYTES = 26_000

TOOLS = [tool for part in (*PARTS, PART) for tool in part.tools]
RESOURCES = [resource for part in (*PARTS, PART) for resource in part.resources]
FAULTS = list(dict.fromkeys([*COMMON, *(fault for tool in TOOLS for fault in tool.raises)]))

each_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def product() -> Registry:
    return Registry.of(tool for part in PARTS for tool in part.tools)


def cost(tool: Tool) -> int:
    """What a tool costs a model in `tools/list`, in bytes."""
    listed = tool.listing
    shown = {"name": tool.name, "description": tool.description, "inputSchema": listed.input_schema}
    return len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode())


def nodes(schema: Any, *, names: bool = False) -> Iterator[dict[str, Any]]:
    """Every schema in a schema; what is data (defaults, enums) is none."""
    if isinstance(schema, list):
        for item in schema:
            yield from nodes(item)
    elif isinstance(schema, dict):
        if not names:
            yield schema
        for key, value in schema.items():
            if names or key not in ("default", "enum", "const", "examples"):
                yield from nodes(value, names=key == "properties" and not names)


def test_the_registry_of_the_product_and_the_fixtures_is_sound() -> None:
    registry = Registry.of(TOOLS, RESOURCES)
    assert len(registry.tools) == len(TOOLS)
    assert "status" in registry.tools
    assert {tool.group.name for tool in TOOLS} <= {*GROUPS, "house"}


@each_tool
def test_the_description_is_short_and_starts_with_a_sentence(tool: Tool) -> None:
    assert len(tool.description) <= MOST_DESCRIPTION
    assert tool.summary.endswith("."), tool.summary
    assert tool.summary[0].isupper()
    assert tool.group.summary
    assert not tool.group.summary.endswith(".")


@each_tool
def test_every_example_would_be_accepted(tool: Tool) -> None:
    for example in tool.examples:
        assert example.title
        parse_args(tool, example.args)
        Draft202012Validator(tool.input_schema).validate(dict(example.args))


@each_tool
def test_schemas_are_sound_flat_and_without_null(tool: Tool) -> None:
    for schema in (tool.input_schema, tool.output_schema):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        for node in nodes(schema):
            assert not {"$ref", "$defs", "title"} & node.keys()
            assert node.get("type") != "null"
            assert {"type": "null"} not in node.get("anyOf", [])


@each_tool
def test_every_argument_says_what_it_is_and_no_other_is_taken(tool: Tool) -> None:
    schema = tool.input_schema
    assert schema["additionalProperties"] is False
    for name, argument in schema.get("properties", {}).items():
        assert argument.keys() & {"type", "enum"}, name
        assert argument.get("description"), name
        for node in nodes(argument):
            for inner, described in node.get("properties", {}).items():
                assert described.get("description"), f"{name}.{inner}"
            if "properties" in node:
                assert node["additionalProperties"] is False, name
    required = schema.get("required", [])
    for name, argument in schema.get("properties", {}).items():
        assert not (name in required and "default" in argument), name


@each_tool
def test_every_field_of_an_answer_says_what_it_is(tool: Tool) -> None:
    for name, result in tool.output_schema.get("properties", {}).items():
        assert result.get("description"), name


@each_tool
def test_names_on_the_wire_are_of_one_kind(tool: Tool) -> None:
    assert tool.name.isascii()
    assert tool.name.replace("_", "a").isalnum()
    assert len(tool.name) <= 64
    if tool.group.camel:
        assert "_" not in tool.name


@each_tool
def test_annotations_agree_with_the_effect(tool: Tool) -> None:
    hints = tool.annotations
    assert hints.keys() == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert hints["readOnlyHint"] == (tool.effect == "read")
    assert hints["destructiveHint"] == (tool.effect == "destroy")
    assert not (hints["readOnlyHint"] and hints["destructiveHint"])
    assert not hints["readOnlyHint"] or hints["idempotentHint"]


@each_tool
def test_a_bare_field_is_an_array(tool: Tool) -> None:
    if tool.bare:
        (field,) = [f for n, f in tool.result.model_fields.items() if n == tool.bare]
        name = field.alias or tool.bare
        assert tool.output_schema["properties"][name]["type"] == "array"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_fault_says_what_it_means(fault: type[Fault]) -> None:
    assert fault.__doc__
    assert fault.__doc__ != Fault.__doc__
    assert fault.__doc__.strip().endswith(".")
    assert fault.code
    assert fault.code == fault.code.lower()
    assert fault.code.replace("_", "a").isalnum()
    assert -32768 <= fault.number <= -32000
    assert 400 <= fault.status <= 599


@each_tool
def test_a_tool_declares_no_fault_twice_nor_one_that_every_tool_has(tool: Tool) -> None:
    assert len(tool.raises) == len(set(tool.raises))
    assert not set(tool.raises) & set(COMMON)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.name)
def test_every_resource_says_what_it_holds(resource: Resource) -> None:
    assert resource.description.split("\n")[0].endswith(".")
    assert "/" in resource.mime_type
    assert "://" in resource.uri


def test_the_whole_set_costs_a_model_little() -> None:
    costs = {name: cost(tool) for name, tool in product().tools.items()}
    average = sum(costs.values()) / len(costs)
    dearest = sorted(costs.items(), key=lambda item: -item[1])[:5]
    assert average <= MOST_AVERAGE_BYTES, dearest


def test_the_default_profile_costs_a_model_no_more_than_its_share() -> None:
    served = product().served(GROUPS, "default").tools.values()
    assert served
    assert sum(map(cost, served)) <= MOST_DEFAULT_BYTES
