"""What a relay answers by itself, and what it tells a worker that starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.hub.mcp.template import builtin_template
from pilothouse.relay.front import Front
from pilothouse.server.groups import MANIFEST

CLIENT = {"name": "test", "version": "1"}
HELLO: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"roots": {}},
    "clientInfo": CLIENT,
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {"name": "status", "arguments": {}}


@pytest.fixture
def front() -> Front:
    manifest = json.loads(MANIFEST.read_text())
    return Front(builtin_template(manifest, lambda listing: True), "own-")


def ask(front: Front, method: str, id: str | int = 5, **params: Any) -> Any:
    """The result; None: a worker must answer."""
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    front.note(message)
    line = front.answer(message)
    if line is None:
        return None
    answer = json.loads(line)
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", id)
    return answer["result"]


def notify(front: Front, method: str, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    front.note(message)
    assert front.answer(message) is None


def introduced(front: Front, method: str = "tools/call", **params: Any) -> list[Any]:
    lines = front.introduction({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert not any(b"\n" in line for line in lines)
    return [json.loads(line) for line in lines]


def test_a_client_of_2025_shakes_hands_and_learns_the_tools_without_a_worker(front: Front) -> None:
    welcome = ask(front, "initialize", **HELLO)
    assert welcome["protocolVersion"] == "2025-06-18"
    assert welcome["serverInfo"]["name"] == "pilothouse"
    notify(front, "notifications/initialized")
    assert ask(front, "ping") == {}
    assert ask(front, "tools/list")["tools"]
    assert ask(front, "resources/list")["resources"]
    assert ask(front, "prompts/list")["prompts"]
    assert ask(front, "resources/templates/list")["resourceTemplates"]
    assert ask(front, "tools/list", _meta={"progressToken": 1})["tools"]


def test_a_client_of_2026_learns_all_that_without_a_worker(front: Front) -> None:
    assert ask(front, "server/discover", _meta=META)["supportedVersions"] == ["2026-07-28"]
    assert ask(front, "tools/list", _meta=META)["tools"]
    assert ask(front, "prompts/list", _meta=META)["prompts"]
    assert front.era == "2026"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {"cursor": "x"}),
        ("tools/call", CALL),
        ("resources/read", {"uri": "pilothouse://timeline"}),
        ("prompts/get", {"name": "diagnose"}),
        ("tools/list", {"_meta": META}),  # of the other era
        ("server/discover", {}),
        ("anything", {}),
    ],
)
def test_all_else_is_for_the_worker(front: Front, method: str, params: dict[str, Any]) -> None:
    ask(front, "initialize", **HELLO)
    assert ask(front, method, **params) is None


@pytest.mark.parametrize(
    "params",
    [
        {},
        {**HELLO, "protocolVersion": 1},
        {**HELLO, "clientInfo": {"name": "test"}},
        {**HELLO, "clientInfo": {**CLIENT, "title": 7}},
        {**HELLO, "capabilities": {"roots": True}},
    ],
)
def test_a_handshake_that_a_server_may_refuse_is_for_the_worker(
    front: Front, params: dict[str, Any]
) -> None:
    assert ask(front, "initialize", **params) is None
    assert ask(front, "tools/list") is None
    assert introduced(front) == []


@pytest.mark.parametrize(
    "meta",
    [
        {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
        {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"},
        {**META, "io.modelcontextprotocol/protocolVersion": 7},
        {**META, "io.modelcontextprotocol/clientCapabilities": None},
    ],
)
def test_an_envelope_that_a_server_refuses_is_for_the_worker(
    front: Front, meta: dict[str, Any]
) -> None:
    assert ask(front, "tools/list", _meta=meta) is None


def test_nothing_is_answered_before_the_handshake(front: Front) -> None:
    assert ask(front, "tools/list") is None
    assert ask(front, "ping") is None
    assert ask(front, "initialize", **HELLO) is not None


def test_the_first_request_decides_the_era(front: Front) -> None:
    ask(front, "server/discover", _meta=META)
    assert ask(front, "initialize", **HELLO) is None
    (told,) = introduced(front, "initialize-like")
    assert told["method"] == "server/discover"
    assert told["params"]["_meta"] == META


def test_a_client_that_tried_2026_in_vain_shakes_hands_with_the_server_of_somebody_else(
    front: Front,
) -> None:
    front.forget_template()
    ask(front, "server/discover", _meta=META)
    ask(front, "initialize", **HELLO)
    notify(front, "notifications/initialized")
    told = [one["method"] for one in introduced(front)]
    assert told == ["initialize", "notifications/initialized"]


def test_a_worker_is_told_what_the_client_said_to_those_before_it(front: Front) -> None:
    ask(front, "initialize", **HELLO)
    assert [one["method"] for one in introduced(front)] == ["initialize"]
    notify(front, "notifications/initialized")
    ask(front, "logging/setLevel", level="debug")
    ask(front, "resources/subscribe", uri="a://1")
    ask(front, "resources/subscribe", uri="a://2")
    ask(front, "resources/unsubscribe", uri="a://1")
    told = introduced(front)
    assert [(one["method"], one["params"]) for one in told] == [
        ("initialize", HELLO),
        ("notifications/initialized", {}),
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "a://2"}),
    ]
    ids = [one.get("id") for one in told]
    assert ids[1] is None
    assert all(front.is_own(id) for id in (ids[0], *ids[2:]))
    assert not front.is_own(5)
    assert not front.is_own("5")


def test_a_worker_of_2026_needs_no_introduction(front: Front) -> None:
    ask(front, "server/discover", _meta=META)
    assert introduced(front, "tools/call", **CALL, _meta=META) == []


def test_a_worker_that_gets_the_handshake_itself_is_not_told_of_it(front: Front) -> None:
    front.forget_template()
    assert ask(front, "initialize", **HELLO) is None
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    front.note(message)
    assert front.introduction(message) == []
    assert [one["method"] for one in introduced(front)] == ["initialize"]
