"""The OpenAPI document: sound by itself, and true of what the API answers."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pilothouse.core.regex import compile_pattern
from pilothouse.intercept.config.model import CATEGORIES
from pilothouse.intercept.filter.model import parse
from pilothouse.intercept.present.packets import FIELDS
from pilothouse.intercept.rest.openapi import HIDDEN, document, operations
from pilothouse.intercept.rest.openapi_schemas import FILTER, RE2
from pilothouse.intercept.tools.listing import TOOLS
from tests.support.rounds import examples

DOCUMENT = document()
ROUTES = {
    ("GET", "/mcp/tools"),
    ("GET", "/openapi.json"),
    ("GET", "/mcp/history"),
    ("GET", "/mcp/packet/{packet_id}"),
    ("GET", "/mcp/configs"),
    ("PUT", "/mcp/configs"),
    ("POST", "/mcp/resend/{packet_id}"),
    ("GET", "/mcp/logs"),
    ("POST", "/mcp/restore/{backup_id}"),
}


def schemas(node: Any) -> list[dict[str, Any]]:
    """Every schema in the document."""
    if isinstance(node, list):
        return [found for item in node for found in schemas(item)]
    if not isinstance(node, dict):
        return []
    own = [node["schema"]] if isinstance(node.get("schema"), dict) else []
    return own + [found for value in node.values() for found in schemas(value)]


def test_it_has_exactly_the_routes_of_the_spec_and_itself() -> None:
    routes = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert routes == ROUTES


def test_every_schema_in_it_is_one() -> None:
    found = schemas(DOCUMENT)
    assert len(found) > 40
    for schema in found:
        Draft202012Validator.check_schema(schema)


def test_it_is_json_and_every_reference_leads_somewhere() -> None:
    named = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(DOCUMENT))
    assert set(named) == DOCUMENT["components"]["schemas"].keys()
    assert len(named) == json.dumps(DOCUMENT).count('"$ref"')
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_every_path_variable_is_a_required_parameter() -> None:
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values():
            in_path = [p for p in operation.get("parameters", []) if p["in"] == "path"]
            assert all(p["required"] for p in in_path)
            assert {f"{{{p['name']}}}" for p in in_path} == {
                part for part in path.split("/") if part.startswith("{")
            }


def test_every_operation_has_its_own_name_and_needs_the_token() -> None:
    names = [op["operationId"] for item in DOCUMENT["paths"].values() for op in item.values()]
    assert len(set(names)) == len(names)
    assert DOCUMENT["security"] == [{"token": []}]
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            assert {"200", "401", "429"} <= operation["responses"].keys()
            assert "security" not in operation


def test_operations_take_every_argument_of_their_tool_and_no_token() -> None:
    for operation in operations():
        everything = {*operation.arguments} | HIDDEN
        assert operation.tool in TOOLS
        assert operation.tool.input_schema["properties"].keys() <= everything
        assert not HIDDEN & {*operation.in_path, *operation.in_query}


def test_what_a_tool_has_no_room_to_say_is_said_here() -> None:
    history = DOCUMENT["paths"]["/mcp/history"]["get"]["parameters"]
    (fields,) = [p for p in history if p["name"] == "fields"]
    assert fields["schema"]["items"]["enum"] == list(FIELDS)
    assert (fields["style"], fields["explode"]) == ("form", False)
    config = DOCUMENT["components"]["schemas"]["Config"]
    assert config["required"] == list(CATEGORIES)
    assert config["additionalProperties"] is False


EXAMPLES = [
    "",
    "status >= 400 && status <= 599",
    "length > 10000",
    "url =~ /api/ && (method == GET || method == POST)",
    "full_text_i =~ authorization",
    "type == WebSocket",
    "method == POST && url =~ /login && status == 401",
    "url =~ /api/v[0-9]+/",
    "url !~ /static/",
    "resend == true && time >= 2025-01-15T10:30:00Z",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_filters_of_the_spec_are_promised(text: str) -> None:
    assert re.search(FILTER["pattern"], text)


@settings(max_examples=examples(200))
@given(text=st.from_regex(re.compile(FILTER["pattern"]), fullmatch=True))
def test_every_filter_that_is_promised_is_one(text: str) -> None:
    if text:
        parse(text)


@settings(max_examples=examples(200))
@given(text=st.from_regex(re.compile(RE2["pattern"]), fullmatch=True))
def test_every_pattern_that_is_promised_is_one(text: str) -> None:
    compile_pattern(text)
