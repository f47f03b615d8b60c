"""One server, both protocol eras, both transports: the SDK's own client gets the same answers."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from tests.support.cancelling import cancel_under_way
from tests.support.servers import ERAS, Server, stdio
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

TRANSPORTS = ("stdio", "/mcp", "/message")


@pytest.fixture(params=[(era, transport) for era in ERAS for transport in TRANSPORTS], ids="-".join)
def connect(request: pytest.FixtureRequest, server: Server) -> Any:
    era, transport = request.param

    @asynccontextmanager
    async def client(**options: Any) -> AsyncIterator[Client]:
        if transport == "stdio":
            async with stdio("--profile", "full", mode=era, **options) as connected:
                yield connected
        else:
            async with Client(server.url + transport, mode=era, **options) as connected:
                yield connected

    return client


async def test_tools_resources_and_templates_are_listed(connect: Any) -> None:
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"status", "echo_code", "echoType", "echo_number"} <= tools.keys()
        assert tools["echo_code"].annotations.read_only_hint is True
        assert tools["echoType"].annotations.destructive_hint is True
        assert tools["echo_code"].input_schema["additionalProperties"] is False
        assert tools["echo_code"].output_schema is None
        uris = {str(r.uri) for r in (await client.list_resources()).resources}
        assert {"pilothouse://timeline", "test://counter"} <= uris
        templates = (await client.list_resource_templates()).resource_templates
        assert {"test://echo/{word}", "cdp://events/{targetId}"} <= {
            t.uri_template for t in templates
        }


async def test_a_spec_tool_answers_json_text_equal_to_its_structured_content(connect: Any) -> None:
    async with connect() as client:
        result = await client.call_tool("echo_code", {"text": "a\u202eb\x07", "times": 2})
        assert result.structured_content == {"said": ["a\u202eb\x07"] * 2, "mood": "calm"}
        assert json.loads(result.content[0].text) == result.structured_content
        assert "\u202e" not in result.content[0].text
        bare = await client.call_tool("echo_bare", {"text": "x", "times": 2})
        assert json.loads(bare.content[0].text) == ["x", "x"]
        assert bare.structured_content["said"] == ["x", "x"]


async def test_faults_come_in_the_form_of_their_group(connect: Any) -> None:
    async with connect() as client:
        code = await client.call_tool("echo_code", {"text": "missing"})
        assert code.is_error
        assert code.structured_content["error"] == {
            "code": "TARGET_NOT_FOUND",
            "message": "No target matches: missing",
            "details": {"hint": "call echo_code with another text", "port": 9222},
        }
        assert json.loads(code.content[0].text) == code.structured_content
        typed = await client.call_tool("echoType", {"text": "missing"})
        error = typed.structured_content["error"]
        assert (error["type"], error["sessionId"]) == ("target_not_found", "abc")
        assert error["context"]["tool"] == "echoType"
        assert "ignored" not in error
        number = await client.call_tool("echo_number", {"packet_id": 404})
        assert number.structured_content["error"]["code"] == -32003


@pytest.mark.parametrize(
    ("arguments", "field", "expected"),
    [
        ({"txt": "x"}, "txt", "one of text, times, loud, mood, targetId, sessionId"),
        ({}, "text", "string"),
        ({"text": "x", "times": 0}, "times", "integer, 1 to 1000"),
        ({"text": "x", "times": "many"}, "times", "integer, 1 to 1000"),
        ({"text": "x", "mood": "sad"}, "mood", "one of calm, glad"),
        ({"text": ["x"]}, "text", "string"),
    ],
)
async def test_a_bad_argument_is_named_with_what_was_expected(
    connect: Any, arguments: dict[str, Any], field: str, expected: str
) -> None:
    async with connect() as client:
        result = await client.call_tool("echo_code", arguments)
    error = result.structured_content["error"]
    assert result.is_error
    assert error["code"] == "INVALID_INPUT"
    assert error["details"]["field"] == field
    assert error["details"]["expected"] == expected
    assert error["details"]["hint"]


async def test_an_unknown_tool_is_a_protocol_error(connect: Any) -> None:
    async with connect() as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})
    assert caught.value.code == -32602
    assert "tools/list" in caught.value.message


async def test_progress_is_reported_in_order(connect: Any) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    async with connect() as client:
        await client.call_tool("longWork", {"count": 4}, progress_callback=on_progress)
        await until(lambda: len(seen) >= 4)
    assert seen == [(step, 4.0, f"step {step:.0f}") for step in (1.0, 2.0, 3.0, 4.0)]


async def test_resources_are_read_by_uri_and_by_template(connect: Any) -> None:
    async with connect() as client:
        word = await client.read_resource("test://echo/h%C3%A4")
        assert word.contents[0].text == "hä"
        blob = await client.read_resource("test://bytes")
        assert len(blob.contents[0].blob) > 300
        for missing in ("test://nothing", "test://echo/missing", "test://echo/a/b"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(missing)
            assert caught.value.code == -32602


async def test_half_a_character_does_not_break_the_wire(connect: Any) -> None:
    async with connect() as client:
        result = await client.call_tool("loneSurrogate", {})
        assert result.structured_content == {"value": {"a\ufffd": ["b\ufffd", 1]}}
        picture = await client.call_tool("picture", {})
        assert [block.type for block in picture.content] == ["text", "image"]


async def test_a_cancelled_call_leaves_the_session_working(connect: Any) -> None:
    async with connect() as client:
        await cancel_under_way(client)
        after = await client.call_tool("status", {})
        assert not after.is_error


async def test_the_timeline_shows_the_calls_of_this_session(connect: Any) -> None:
    async with connect() as client:
        await client.call_tool("echo_code", {"text": "seen"})
        await client.call_tool("echo_number", {"packet_id": 404})
        body = json.loads((await client.read_resource("pilothouse://timeline")).contents[0].text)
    events = [(e["event"], e.get("tool")) for e in body["events"]]
    assert events[0][0] == "SessionStarted"
    assert ("ToolInvoked", "echo_code") in events
    assert ("ToolInvocationFailed", "echo_number") in events
    assert body["events"][0]["key"] == "session:0"
