"""The SDK's own client on the listener, with our own server behind it: as if it were not there."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from pilothouse.hub.model import Key
from tests.conformance import fixtures
from tests.support.cancelling import cancel_under_way
from tests.support.listener_rig import (
    GUARD_S,
    call,
    hello,
    listen,
    own_workers,
    request,
    template_of,
)
from tests.support.servers import ERAS
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.listener_rig import Rig

pytestmark = pytest.mark.anyio

COUNTER = "test://counter"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with own_workers(tmp_path) as crew:
        async with listen(crew, await template_of(crew)) as opened:
            yield opened


@pytest.fixture
async def asking_rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """Its workers have the tools that ask the client something."""
    async with own_workers(tmp_path, fixtures.GROUP_SPEC, fixtures.extend) as crew:
        async with listen(crew, await template_of(crew)) as opened:
            yield opened


@asynccontextmanager
async def client_of(rig: Rig, **options: Any) -> AsyncIterator[Client]:
    with anyio.fail_after(GUARD_S):
        async with Client(f"{rig.url}/mcp", **options) as client:
            yield client


@pytest.mark.parametrize("era", ERAS)
async def test_lists_need_no_worker_and_a_call_does(rig: Rig, era: str) -> None:
    async with client_of(rig, mode=era) as client:
        assert client.server_info is not None
        assert client.server_info.name == "pilothouse"
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"status", "echo_code", "startSession"} <= tools
        uris = {str(r.uri) for r in (await client.list_resources()).resources}
        assert COUNTER in uris
        assert (await client.list_resource_templates()).resource_templates
        assert rig.crew.started == []
        result = await client.call_tool("echo_code", {"text": "hi"})
        assert result.structured_content == {"said": ["hi"], "mood": "calm"}
        assert len(rig.crew.started) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_errors_resources_and_progress_are_those_of_the_worker(rig: Rig, era: str) -> None:
    seen: list[float] = []

    async def on_progress(
        progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        seen.append(progress)

    async with client_of(rig, mode=era) as client:
        missing = await client.call_tool("echo_code", {"text": "missing"})
        assert missing.structured_content["error"]["code"] == "TARGET_NOT_FOUND"
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})
        assert "tools/list" in caught.value.message
        (blob,) = (await client.read_resource("test://bytes")).contents
        assert isinstance(blob, types.BlobResourceContents)
        assert len(blob.blob) > 300
        await client.call_tool("longWork", {"count": 4}, progress_callback=on_progress)
        await until(lambda: seen == [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_ends_in_the_worker_and_the_session_goes_on(
    rig: Rig, era: str
) -> None:
    async with client_of(rig, mode=era) as client:
        await cancel_under_way(client)
        await until(lambda: set(rig.crew.leases.values()) == {0})
        assert not (await client.call_tool("status", {})).is_error


async def test_two_clients_are_kept_apart(rig: Rig) -> None:
    async with client_of(rig, mode="legacy") as one, client_of(rig, mode="legacy") as other:
        await one.call_tool("add", {"count": 5})
        await other.call_tool("add", {"count": 2})
        for client, value in ((one, 5), (other, 2)):
            (content,) = (await client.read_resource(COUNTER)).contents
            assert isinstance(content, types.TextResourceContents)
            assert json.loads(content.text)["value"] == value
        assert len(rig.crew.started) == 2


class Heard:
    """What a 2025 client is told without asking."""

    def __init__(self) -> None:
        self.uris: list[str] = []

    async def __call__(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            self.uris.append(str(message.params.uri))


async def test_a_subscriber_hears_of_changes_and_goes_on_hearing_from_a_new_worker(
    rig: Rig,
) -> None:
    heard = Heard()
    async with client_of(rig, mode="legacy", message_handler=heard) as client:
        await client.subscribe_resource(COUNTER)  # before there is a worker
        assert rig.crew.started == []
        for started in (1, 2, 3):
            heard.uris.clear()
            answer = await client.call_tool("add", {"count": 1})
            assert answer.structured_content["value"] == 1
            assert ("reset" in str(answer.content[-1])) == (started > 1)
            await until(lambda: COUNTER in heard.uris)
            assert len(rig.crew.started) == started
            rig.crew.lose(rig.crew.started[0])
        await client.unsubscribe_resource(COUNTER)
        heard.uris.clear()
        await client.call_tool("add", {"count": 1})
        await client.call_tool("status", {})
        assert heard.uris == []


async def test_a_subscriber_is_told_once_that_a_new_worker_has_something_else_to_read(
    rig: Rig,
) -> None:
    heard = Heard()
    async with client_of(rig, mode="legacy", message_handler=heard) as client:
        await client.subscribe_resource(COUNTER)
        await client.call_tool("add", {"count": 1})
        await until(lambda: COUNTER in heard.uris)
        heard.uris.clear()
        rig.crew.lose(rig.crew.started[0])
        await client.call_tool("status", {})  # which changes nothing itself
        await until(lambda: heard.uris)
        await client.call_tool("status", {})
        assert heard.uris == [COUNTER]


async def test_a_modern_subscriber_listens_through_the_listener(rig: Rig) -> None:
    async with client_of(rig, mode="auto") as client:
        async with client.listen(resource_subscriptions=[COUNTER]) as changes:
            await client.call_tool("add", {"count": 1})
            async for change in changes:
                assert COUNTER in str(change)
                break
        await until(lambda: set(rig.crew.leases.values()) == {0})


async def test_the_worker_may_ask_the_client_and_gets_its_answer(asking_rig: Rig) -> None:
    async def sample(*_: Any) -> types.CreateMessageResult:
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text="four"), model="m"
        )

    async def elicit(*_: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"username": "u", "email": "e"})

    options = {"sampling_callback": sample, "elicitation_callback": elicit}
    async with client_of(asking_rig, mode="legacy", **options) as client:
        sampled = await client.call_tool("test_sampling", {"prompt": "2+2"})
        assert "LLM response: four" in str(sampled.content)
        asked = await client.call_tool("test_elicitation", {"message": "who?"})
        assert "action=accept" in str(asked.content)


async def test_a_log_level_reaches_workers_that_start_later(asking_rig: Rig) -> None:
    logged: list[Any] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async with client_of(asking_rig, mode="legacy", logging_callback=log) as client:
        await client.set_logging_level("debug")
        assert asking_rig.crew.started == []
        await client.call_tool("test_tool_with_logging", {})
        await until(lambda: len(logged) >= 3)


@pytest.mark.parametrize("number", [30])
async def test_many_clients_open_and_call_at_once(rig: Rig, number: int) -> None:
    async def one(index: int) -> None:
        async with client_of(rig, mode=ERAS[index % 2]) as client:
            result = await client.call_tool("echo_code", {"text": str(index)})
            assert result.structured_content["said"] == [str(index)]

    async with anyio.create_task_group() as tasks:
        for index in range(number):
            tasks.start_soon(one, index)
    await until(lambda: len(rig.crew.ended) == number // 2)


# The push stream, as bytes


async def test_the_push_stream_outlives_workers_and_ends_with_the_session(rig: Rig) -> None:
    client, listener = await rig.connect(), await rig.connect()
    session = await client.initialize()
    ours = f"Mcp-Session-Id: {session}"
    client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, ours)
    await client.answer()
    listener.request("GET", "/mcp", ours, "Accept: text/event-stream")
    head = await listener.head()
    assert (head.status, head.first("content-type")) == (200, "text/event-stream")
    second = await rig.connect()
    second.request("GET", "/mcp", ours, "Accept: text/event-stream")
    assert (await second.answer("GET")).status == 409
    client.post(request("resources/subscribe", {"uri": COUNTER}), ours)
    await client.answer()
    for _ in range(3):
        client.post(call("add", count=1), ours)
        assert (await client.answer()).status == 200
        heard = await listener.until(b"test://counter")
        assert b"notifications/resources/updated" in heard
        rig.crew.lose(Key("session", session))
    client.request("DELETE", "/mcp", ours)
    assert (await client.answer()).status == 200
    assert (await listener.until(b"\r\n0\r\n\r\n")).endswith(b"0\r\n\r\n")


async def test_a_stream_opened_again_hears_the_same_worker(rig: Rig) -> None:
    client = await rig.connect()
    session = await client.initialize()
    ours = f"Mcp-Session-Id: {session}"
    client.post(request("resources/subscribe", {"uri": COUNTER}), ours)
    await client.answer()
    for _ in range(5):
        listener = await rig.connect()
        listener.request("GET", "/mcp", ours, "Accept: text/event-stream")
        await listener.head()
        client.post(call("add", count=1), ours)
        await client.answer()
        await listener.until(b"test://counter")
        listener.abort()
        await until(lambda: len(rig.listener) == 1)


async def test_a_broken_stream_is_resumed_from_its_worker(rig: Rig) -> None:
    client = await rig.connect()
    session = await client.initialize()
    ours = [f"Mcp-Session-Id: {session}", "MCP-Protocol-Version: 2025-11-25"]
    caller = await rig.connect()
    message = call("longWork", id=9, count=3)
    message["params"]["_meta"] = {"progressToken": "p"}
    caller.post(message, *ours)
    await caller.head()
    first = await caller.until(b"\r\n\r\n")
    event_id = next(line[4:] for line in first.decode().splitlines() if line.startswith("id: "))
    caller.abort()
    client.request("GET", "/mcp", *ours, f"Last-Event-ID: {event_id}", "Accept: text/event-stream")
    await client.head()
    rest = await client.until(b'"id":9')
    assert rest.count(b"notifications/progress") == 3


async def test_who_resumes_a_stream_whose_worker_is_gone_is_told_at_once(rig: Rig) -> None:
    client = await rig.connect()
    session = await client.initialize()
    ours = f"Mcp-Session-Id: {session}"
    client.request("GET", "/mcp", ours, "Last-Event-ID: 1-1", "Accept: text/event-stream")
    await client.head()
    told = await client.until(b"\r\n\r\n")
    assert b'"error"' in told
    assert rig.crew.started == []


async def test_a_single_post_to_message_needs_no_session(rig: Rig) -> None:
    client = await rig.connect()
    client.post(call("echo_code", text="x"), path="/message")
    got = await client.answer()
    assert got.status == 200, got.body
    assert "mcp-session-id" not in got.head.values
    client.post(request("tools/list"), path="/message")
    listed = (await client.answer()).head.first("content-type")
    assert listed == "application/json", "though the client takes a stream as well"
    client.post(call("echo_code", text="x"), path="/mcp")
    assert (await client.answer()).status == 400


async def test_a_call_during_the_end_of_its_session_is_answered_or_refused(rig: Rig) -> None:
    for _ in range(10):
        client, ender = await rig.connect(), await rig.connect()
        session = await client.initialize()
        ours = f"Mcp-Session-Id: {session}"
        client.post(call("status"), ours)
        ender.request("DELETE", "/mcp", ours)
        assert (await ender.answer()).status == 200
        got = await client.answer()
        assert got.status in (200, 404, 502)
        client.post(hello())
        assert (await client.answer()).status == 200
