"""Headers that repeat arguments: the body must say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.core.net.http1 import parse_request_head
from pilothouse.hub.mcp.param_headers import Repeated, refuse, repeated_by_tool, repeating

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "plain": {"type": "string"},
        "to": {"properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
    },
}
BY_TOOL = repeated_by_tool([{"name": "look", "inputSchema": SCHEMA}, {"name": "odd"}])


def judged(arguments: Any, *headers: str, tool: str = "look") -> str:
    head = parse_request_head("\r\n".join(["POST /mcp HTTP/1.1", "Host: x", *headers]).encode())
    params = {"name": tool, "arguments": arguments}
    reply = refuse(head, {"id": 7, "method": "tools/call", "params": params}, BY_TOOL)
    if reply is None:
        return ""
    told = json.loads(reply.body)
    assert (reply.status, told["id"], told["error"]["code"]) == (400, 7, -32020)
    return str(told["error"]["message"])


def test_arguments_are_found_at_any_depth_and_what_no_header_can_carry_is_not() -> None:
    assert BY_TOOL == {
        "look": (
            Repeated(("region",), "mcp-param-region", "string"),
            Repeated(("count",), "mcp-param-count", "integer"),
            Repeated(("dry",), "mcp-param-dry", "boolean"),
            Repeated(("to", "zone"), "mcp-param-zone", "string"),
        )
    }
    bad = [{"type": "number", "x-mcp-header": "N"}, {"type": "string", "x-mcp-header": "a b"}]
    for schema in (*bad, {"type": "string", "x-mcp-header": 5}):
        assert repeated_by_tool([{"name": "t", "inputSchema": {"properties": {"x": schema}}}]) == {}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, []),
        (None, []),
        ({"plain": "x"}, ["Mcp-Param-Plain: y"]),
        ({"region": "eu"}, ["Mcp-Param-Region: eu"]),
        ({"region": None}, []),
        ({"region": "ü"}, ["Mcp-Param-Region: =?base64?w7w=?="]),
        ({"count": 42}, ["Mcp-Param-Count: 42.0"]),
        ({"count": 2**70}, [f"Mcp-Param-Count: {2**70}"]),
        ({"dry": True}, ["Mcp-Param-Dry: true"]),
        ({"to": {"zone": "a"}}, ["mcp-param-zone: a"]),
        ({"region": {"not": "a scalar"}}, []),
    ],
)
def test_a_request_that_says_the_same_twice_is_taken(arguments: Any, headers: list[str]) -> None:
    assert judged(arguments, *headers) == ""


@pytest.mark.parametrize(
    ("arguments", "headers", "why"),
    [
        ({"region": "eu"}, [], "is missing for the argument 'region'"),
        ({"region": "eu"}, ["Mcp-Param-Region: us"], "does not match"),
        ({"region": "eu"}, ["Mcp-Param-Region: eu", "Mcp-Param-Region: eu"], "more than once"),
        ({"region": "eu"}, ["Mcp-Param-Region: =?base64?%%%?="], "does not match"),
        ({}, ["Mcp-Param-Region: eu"], "is present without"),
        ({"region": {"a": 1}}, ["Mcp-Param-Region: eu"], "is present without"),
        ({"count": 42}, ["Mcp-Param-Count: 42.5"], "does not match"),
        ({"count": "42"}, ["Mcp-Param-Count: 42.0"], "does not match"),
        ({"dry": True}, ["Mcp-Param-Dry: True"], "does not match"),
        ({"to": "zone"}, ["Mcp-Param-Zone: a"], "is present without"),
    ],
)
def test_a_request_that_says_two_things_is_refused(
    arguments: Any, headers: list[str], why: str
) -> None:
    assert why in judged(arguments, *headers)


def test_tools_that_repeat_nothing_are_not_judged() -> None:
    assert judged({"region": "eu"}, "Mcp-Param-Region: us", tool="odd") == ""


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        None,
        {"plain": "x"},
        {"region": "eu", "count": 42, "dry": False, "to": {"zone": "a"}},
        {"region": " ü\n", "count": -1, "dry": True},
        {"region": None, "count": {"x": 1}, "to": []},
    ],
)
def test_a_call_that_repeats_its_arguments_itself_is_taken(arguments: Any) -> None:
    call = {"id": 7, "method": "tools/call", "params": {"name": "look", "arguments": arguments}}
    headers = repeating(call, BY_TOOL)
    assert judged(arguments, *(f"{name}: {value}" for name, value in headers.items())) == ""
    assert repeating({**call, "params": {"name": ["look"]}}, BY_TOOL) == {}
