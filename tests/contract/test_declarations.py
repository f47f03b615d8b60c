"""What holds for every declared tool, resource and fault, of the product and of the fixtures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from pilothouse.core.declare.faults import COMMON, Fault
from pilothouse.core.declare.listing import Selection
from pilothouse.core.declare.offered import names_in
from pilothouse.core.declare.registry import Registry
from pilothouse.core.settings import GROUPS, Settings
from pilothouse.server.call import parse_args
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.fixture_tools import GROUP_SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool

MOST_DESCRIPTION = 1_024
MOST_AVERAGE_BYTES = 700
PEER_BYTES = 27_409
"""What chrome-devtools-mcp's list costs, as the row `tools-list-cost` has measured it."""
LEFT_OUT = {"pdf", "resize", "emulate", "route", "saveState", "loadState", "exportSession"}
"""Tools of e2e that the default profile does without."""
OF_INTERCEPT = {
    "get_history", "get_packet_detail", "get_logs", "get_config", "update_config",
    "restore_config", "resend_packet", "list_backups", "get_job_status", "diff_packets",
}  # fmt: skip
EVERYTHING = Selection(GROUPS, "full")
SELECTIONS = {
    "default": Selection.of(Settings(), paired=False),
    "paired": Selection.of(Settings(), paired=True),
    "full": Selection.of(Settings(profile="full"), paired=False),
    **{group: Selection((group,), "full") for group in GROUPS},
    **{
        f"default {group}": Selection.of(Settings(tools=(group,)), paired=False) for group in GROUPS
    },
}
each_selection = pytest.mark.parametrize("selection", SELECTIONS.values(), ids=list(SELECTIONS))

TOOLS = [tool for spec in (*GROUP_SPECS, GROUP_SPEC) for tool in spec.tools]
RESOURCES = [resource for spec in (*GROUP_SPECS, GROUP_SPEC) for resource in spec.resources]
FAULTS = list(dict.fromkeys([*COMMON, *(fault for tool in TOOLS for fault in tool.raises)]))

each_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def product() -> Registry:
    return Registry.of(tool for spec in GROUP_SPECS for tool in spec.tools)


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


def test_the_default_profile_costs_a_model_no_more_than_the_peers() -> None:
    served = product().served(SELECTIONS["default"]).tools.values()
    assert served
    assert sum(map(cost, served)) <= PEER_BYTES


def test_with_bookmark_tools_it_costs_a_little_more() -> None:
    served = product().served(SELECTIONS["paired"]).tools.values()
    assert sum(map(cost, served)) <= 1.15 * PEER_BYTES


def test_the_default_profile_drives_a_whole_app() -> None:
    whole = product().served(EVERYTHING).tools
    served = set(product().served(SELECTIONS["default"]).tools)
    by_group = {
        group: {name for name, tool in whole.items() if tool.group.name == group}
        for group in ("observe", "e2e", "bookmarks")
    }
    assert by_group["e2e"] - served == LEFT_OUT
    assert by_group["observe"] <= served
    assert {n for n in served if n in whole and whole[n].group.name == "intercept"} == OF_INTERCEPT
    assert not by_group["bookmarks"] & served
    assert "timeline" in served


@pytest.mark.parametrize(
    "asked", [{"tools": ("bookmarks",)}, {"tools": GROUPS}, {"profile": "full"}, {}]
)
def test_bookmark_tools_are_there_when_asked_for_or_paired(asked: dict[str, Any]) -> None:
    selection = Selection.of(Settings(**asked), paired=not asked)
    assert "bookmark_add" in product().served(selection).tools


@each_selection
def test_no_text_names_a_tool_that_is_not_served(selection: Selection) -> None:
    whole = Registry.of(
        (tool for spec in GROUP_SPECS for tool in spec.tools),
        (resource for spec in GROUP_SPECS for resource in spec.resources),
    )
    served = whole.served(selection)
    unserved = whole.tools.keys() - served.tools.keys()
    texts = {
        **{
            name: json.dumps([tool.description, tool.input_schema, tool.output_schema])
            for name, tool in served.tools.items()
        },
        **{resource.uri: resource.description for resource in served.resources},
    }
    assert not {name: found for name, text in texts.items() if (found := names_in(text, unserved))}


@each_tool
def test_no_input_schema_is_a_choice_of_schemas(tool: Tool) -> None:
    # Clients drop such tools, or the whole list.
    assert not {"oneOf", "anyOf", "allOf"} & tool.input_schema.keys()


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("bookmark_add", ["title", "url"]),
        ("bookmark_update", ["id"]),
        ("bookmark_remove", ["id"]),
        ("bookmark_move", ["id", "parentId"]),
        ("bookmark_batch", ["do", "items"]),
    ],
)
def test_what_a_bookmark_tool_needs_stands_in_its_schema(name: str, required: list[str]) -> None:
    assert product().tools[name].input_schema["required"] == required
