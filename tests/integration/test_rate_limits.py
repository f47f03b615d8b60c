"""Rate limits through the wire: counted for a principal, told with Retry-After."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.servers import RawStdio, Server, http_server

NO_APP = {"url": "http://192.168.0.1/"}
"""A session that is refused at once, so that only its counting is seen."""


def call(server: Server, tool: str, arguments: dict[str, Any] | None = None) -> httpx.Response:
    body: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments or {}},
    }
    headers = {"accept": "application/json, text/event-stream"}
    return httpx.post(f"{server.url}/message", json=body, headers=headers)


def test_over_http_the_call_after_the_last_allowed_one_is_told_when_to_come_back() -> None:
    env = {"PILOTHOUSE_RATE_CALLS_PER_MIN": "5", "PILOTHOUSE_RATE_SESSIONS_PER_MIN": "2"}
    with http_server("--profile", "full", env=env) as server:
        starts = [call(server, "startSession", NO_APP) for _ in range(3)]
        errors = [r.json()["result"]["structuredContent"]["error"] for r in starts]
        assert [error["type"] for error in errors[:2]] == ["url_not_allowed"] * 2
        refused = starts[2]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        error = refused.json()["result"]["structuredContent"]["error"]
        assert error["type"] == "rate_limited"
        assert 0 < error["retryAfterSec"] <= 60
        others = [call(server, "status").json()["result"]["isError"] for _ in range(4)]
        assert others == [False, False, False, True]
        metrics = httpx.get(f"{server.url}/metrics").text
        assert 'pilothouse_tool_calls_total{error="rate_limited",tool="status"} 1.0' in metrics


def test_on_stdio_the_limit_holds_too() -> None:
    with RawStdio("--rate-calls-per-min", "2") as server:
        server.initialize()
        answers = [server.request("tools/call", {"name": "status"}, id=n) for n in (1, 2, 3)]
    assert [answer["result"]["isError"] for answer in answers] == [False, False, True]
    assert answers[2]["result"]["structuredContent"]["error"]["type"] == "rate_limited"


def test_in_development_nothing_is_limited_unless_asked() -> None:
    with RawStdio() as server:
        server.initialize()
        for n in range(1, 151):
            answer = server.request("tools/call", {"name": "status"}, id=n)
            assert answer["result"]["isError"] is False
