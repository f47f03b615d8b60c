"""What the hub answers without a worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.listing import is_served
from pilothouse.core.net.http1 import parse_request_head
from pilothouse.hub.mcp.template import (
    Template,
    answer_from,
    builtin_template,
    initialize,
    refuse_initialize,
)
from pilothouse.server.groups import MANIFEST

if TYPE_CHECKING:
    from pilothouse.core.declare.listing import Listing
    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.model import Era

TEMPLATE = Template(
    {
        "initialize": {
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
            "serverInfo": {"name": "x", "version": "1"},
        },
        "ping": {},
        "tools/list": {"tools": [{"name": "ä"}]},
    },
    {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "tools/list": {"tools": [], "resultType": "complete"},
    },
    versions=("2025-06-18", "2025-11-25"),
)
BOTH = "application/json, text/event-stream"


def head(accept: str = BOTH) -> RequestHead:
    return parse_request_head(f"POST /mcp HTTP/1.1\r\nAccept: {accept}".encode())


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "ä", "method": method, "params": params}


@pytest.mark.parametrize(
    ("era", "accept", "status", "kind"),
    [
        ("2025", BOTH, 200, "text/event-stream"),
        ("2026", BOTH, 200, "application/json"),
        ("2025", "application/json", 200, "application/json"),
        ("2026", "text/event-stream;q=0.5", 200, "text/event-stream"),
        ("2026", "*/*", 200, "application/json"),
        ("2026", "text/*", 200, "text/event-stream"),
        ("2025", "APPLICATION/JSON", 200, "application/json"),
        ("2025", "text/html", 406, "application/json"),
        ("2026", "", 406, "application/json"),
    ],
)
def test_an_answer_comes_in_the_form_that_the_client_takes(
    era: Era, accept: str, status: int, kind: str
) -> None:
    reply = answer_from(TEMPLATE, era, head(accept), request("tools/list"))
    assert reply is not None
    assert (reply.status, reply.kind) == (status, kind)
    if status == 200:
        message = json.loads(reply.body.decode().rpartition("data: ")[2])
        result = (TEMPLATE.handshake if era == "2025" else TEMPLATE.modern)["tools/list"]
        assert message == {"jsonrpc": "2.0", "id": "ä", "result": result}


@pytest.mark.parametrize(
    ("era", "method", "code"),
    [
        ("2025", "tools/call", 0),
        ("2025", "resources/read", 0),
        ("2025", "extension/own", 0),
        ("2025", "prompts/list", -32601),
        ("2025", "logging/setLevel", -32601),
        ("2025", "completion/complete", -32601),
        ("2025", "server/discover", -32601),
        ("2025", "subscriptions/listen", -32601),
        ("2026", "subscriptions/listen", 0),
        ("2026", "tools/call", 0),
        ("2026", "resources/read", -32601),
        ("2026", "initialize", -32601),
        ("2026", "ping", -32601),
    ],
)
def test_what_the_worker_does_not_offer_needs_no_worker(era: Era, method: str, code: int) -> None:
    reply = answer_from(TEMPLATE, era, head(), request(method))
    if not code:
        assert reply is None
        return
    assert reply is not None
    assert reply.status == (404 if era == "2026" else 200)
    error = json.loads(reply.body)["error"]
    assert (error["code"], error["data"]) == (code, method)


def test_the_next_page_of_a_list_is_the_workers() -> None:
    assert answer_from(TEMPLATE, "2025", head(), request("tools/list", cursor="2")) is None


def test_a_list_that_may_have_changed_is_known_as_such() -> None:
    assert TEMPLATE.may_change("2025", "tools/list")
    assert not TEMPLATE.may_change("2025", "resources/list")
    assert not TEMPLATE.may_change("2026", "tools/list")


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("tomorrow", "2025-11-25"),
    ],
)
def test_a_version_is_agreed_on(asked: str, agreed: str) -> None:
    client = {"name": "c", "version": "1"}
    message = request("initialize", protocolVersion=asked, capabilities={}, clientInfo=client)
    assert refuse_initialize(TEMPLATE, head(), message) is None
    reply = initialize(TEMPLATE, head("application/json"), message)
    assert json.loads(reply.body)["result"] == {
        "protocolVersion": agreed,
        **TEMPLATE.handshake["initialize"],
    }


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"protocolVersion": 1}, "protocolVersion"),
        ({"capabilities": None}, "capabilities"),
        ({"clientInfo": []}, "clientInfo"),
        ({"clientInfo": {"name": "c"}}, "clientInfo.version"),
        ({"clientInfo": {"name": 5, "version": "1"}}, "clientInfo.name"),
    ],
)
def test_an_unsound_initialize_opens_nothing(change: dict[str, Any], named: str) -> None:
    sound = {"protocolVersion": "2025-11-25", "capabilities": {}}
    params = {**sound, "clientInfo": {"name": "c", "version": "1"}, **change}
    reply = refuse_initialize(TEMPLATE, head("application/json"), request("initialize", **params))
    assert reply is not None
    error = json.loads(reply.body)["error"]
    assert error["code"] == -32602
    assert named in error["message"]


def test_a_server_of_the_new_era_alone_refuses_the_handshake() -> None:
    only_new = Template({}, TEMPLATE.modern, ())
    client = {"name": "c", "version": "1"}
    message = request(
        "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client
    )
    reply = refuse_initialize(only_new, head(), message)
    assert reply is not None
    error = json.loads(reply.body)["error"]
    assert (error["code"], error["data"]["supported"]) == (-32022, ["2026-07-28"])


# Our own server's


def served_with(groups: set[str], profile: Any = "default") -> Any:
    def served(listing: Listing) -> bool:
        return is_served(listing.group, listing.profile, groups, profile)

    return served


def test_our_own_template_lists_the_tools_that_were_asked_for() -> None:
    manifest = json.loads(MANIFEST.read_bytes())
    everything = set(manifest["tools"])
    full = builtin_template(manifest, served_with(everything, "full"))
    default = builtin_template(manifest, served_with(everything))
    observe = builtin_template(manifest, served_with({"observe"}))

    def names(template: Template) -> set[str]:
        return {tool["name"] for tool in template.handshake["tools/list"]["tools"]}

    assert names(observe) < names(default) < names(full)
    assert "startSession" in names(default)
    assert "startSession" not in names(observe)
    for template in (full, default):
        assert template.modern["tools/list"]["tools"] == template.handshake["tools/list"]["tools"]
        assert template.modern["tools/list"]["resultType"] == "complete"
        assert template.modern_versions == ("2026-07-28",)
        assert "resources/list" in template.handshake
    assert "resources/list" not in observe.handshake


def test_our_own_template_offers_prompts_and_instructions_that_fit_the_tools() -> None:
    manifest = json.loads(MANIFEST.read_bytes())
    whole = builtin_template(manifest, served_with(set(manifest["tools"])))
    observe = builtin_template(manifest, served_with({"observe"}))
    for template, prompts, has_sessions in (
        (whole, ["diagnose", "reproduce", "map-api"], True),
        (observe, ["map-api"], False),
    ):
        for hello, results in (
            ("initialize", template.handshake),
            ("server/discover", template.modern),
        ):
            assert [one["name"] for one in results["prompts/list"]["prompts"]] == prompts
            assert ("`startSession`" in results[hello]["instructions"]) is has_sessions
            assert "prompts" in results[hello]["capabilities"]


def test_output_schemas_are_left_to_the_worker() -> None:
    manifest = json.loads(MANIFEST.read_bytes())
    served = served_with(set(manifest["tools"]))
    template = builtin_template(manifest, served, with_output_schemas=True)
    assert template.text("2025", "tools/list") is None
    assert template.text("2026", "tools/list") is None
    assert template.text("2026", "server/discover") is not None
