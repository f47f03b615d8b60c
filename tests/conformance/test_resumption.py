"""Coming back for the rest of a stream: the suite tests it with one client and a single answer."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCResponse

from pilothouse.server.mcp.resume import (
    KEPT_CHARACTERS,
    KEPT_PER_STREAM,
    KEPT_STREAMS,
    LOST,
    RecentEvents,
)
from tests.support.servers import http_server

HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
}
ASYNC = pytest.mark.anyio


def answer(request: str, said: str = "") -> JSONRPCMessage:
    return JSONRPCResponse(jsonrpc="2.0", id=request, result={"said": [said]})


def news(number: int = 0) -> JSONRPCMessage:
    return JSONRPCNotification(jsonrpc="2.0", method=f"news/{number}")


async def replay(store: RecentEvents, last: str) -> tuple[list[JSONRPCMessage], str | None]:
    sent: list[JSONRPCMessage] = []

    async def keep(event: EventMessage) -> None:
        sent.append(event.message)

    return sent, await store.replay_events_after(last, keep)


@ASYNC
async def test_an_open_stream_replays_what_came_after_and_goes_on() -> None:
    store = RecentEvents()
    primed = await store.store_event("1", None)
    await store.store_event("2", answer("2"))
    await store.store_event("1", news(1))
    assert await replay(store, primed) == ([news(1)], "1")


@ASYNC
async def test_an_answered_stream_replays_its_answer_and_ends() -> None:
    store = RecentEvents()
    primed = await store.store_event("1", None)
    last = await store.store_event("1", answer("1"))
    assert await replay(store, primed) == ([answer("1")], None)
    assert await replay(store, last) == ([], None)


@ASYNC
@pytest.mark.parametrize(
    "last", ["", "-", "1-", "1-x", "9-1", "0-0", "_GET_stream", f"1-{'0' * 9_999}", "1-0\n"]
)
async def test_who_comes_with_an_id_that_is_not_known_is_told_and_may_listen(last: str) -> None:
    store = RecentEvents()
    await store.store_event("1", news())
    assert await replay(store, last) == ([LOST], GET_STREAM_KEY)


@ASYNC
async def test_an_id_of_another_process_is_nobody_s_here() -> None:
    theirs, ours = RecentEvents(), RecentEvents()
    given = await theirs.store_event("1", None)
    await ours.store_event("1", answer("1"))
    assert await replay(ours, given) == ([LOST], GET_STREAM_KEY)


@ASYNC
async def test_the_oldest_streams_make_room_but_never_the_push_stream() -> None:
    store = RecentEvents()
    standing = await store.store_event(GET_STREAM_KEY, news())
    first = await store.store_event("first", answer("first"))
    for number in range(KEPT_STREAMS):
        latest = await store.store_event(f"r{number}", answer(f"r{number}"))
    assert await replay(store, f"{first[:-1]}0") == ([LOST], GET_STREAM_KEY)
    assert await replay(store, f"{latest[:-1]}0") == ([answer(f"r{KEPT_STREAMS - 1}")], None)
    assert await replay(store, standing) == ([], GET_STREAM_KEY)


@ASYNC
async def test_large_answers_make_room_and_the_newest_is_kept_whatever_its_size() -> None:
    store = RecentEvents()
    small = await store.store_event("small", answer("small"))
    huge = answer("huge", "x" * (KEPT_CHARACTERS + 1))
    latest = await store.store_event("huge", huge)
    assert await replay(store, f"{small[:-1]}0") == ([LOST], GET_STREAM_KEY)
    assert await replay(store, f"{latest[:-1]}0") == ([huge], None)


@ASYNC
async def test_a_stream_with_much_news_keeps_the_newest_and_the_answer() -> None:
    store = RecentEvents()
    primed = await store.store_event("1", None)
    for number in range(KEPT_PER_STREAM):
        await store.store_event("1", news(number))
    await store.store_event("1", answer("1"))
    sent, _ = await replay(store, primed)
    assert sent == [*map(news, range(1, KEPT_PER_STREAM)), answer("1")]


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    """Id and message of each server-sent event."""
    found = []
    for block in response.text.replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "id" in lines:
            data = lines.get("data")
            found.append((lines["id"], json.loads(data) if data else None))
    return found


class Client:
    """A 2025 client whose request ids are those that every other client uses too."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        opened = self._post(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
            id=0,
        )
        self._http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        self._post("notifications/initialized", {})

    def _post(self, method: str, params: dict[str, Any], **more: int) -> httpx.Response:
        message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        return self._http.post("/mcp", json=message)

    def call(self, tool: str) -> list[tuple[str, Any]]:
        return events(self._post("tools/call", {"name": tool, "arguments": {}}, id=1))

    def resume(self, last: str) -> list[tuple[str, Any]]:
        return events(self._http.get("/mcp", headers={"last-event-id": last}))

    def told(self, last: str) -> Any:
        """The first message of a stream that may go on."""
        with self._http.stream("GET", "/mcp", headers={"last-event-id": last}) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: {"))
            return json.loads(next(lines)[6:])


def test_each_session_resumes_its_own_stream_though_all_count_requests_alike() -> None:
    with (
        http_server(module="tests.conformance.app") as server,
        httpx.Client(base_url=server.url, headers=HEADERS, timeout=30) as http,
        httpx.Client(base_url=server.url, headers=HEADERS, timeout=30) as other_http,
    ):
        one, other = Client(http), Client(other_http)
        (start, _), (_, simple) = one.call("test_simple_text")
        (other_start, _), (_, picture) = other.call("test_image_content")
        assert [message for _, message in one.resume(start)] == [simple]
        assert [message for _, message in other.resume(other_start)] == [picture]
        assert simple != picture
        for stranger in (start, "nonsense"):
            assert "call again" in other.told(stranger)["error"]["message"]
