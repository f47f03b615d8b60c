"""The 2026 era's checks are those of the SDK, in the same words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    InboundLadderRejection,
    classify_inbound_request,
    decode_header_value,
    encode_header_value,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pilothouse.core.net.http1 import parse_request_head, write_head
from pilothouse.hub.mcp.revision_2026 import CAPABILITIES_KEY, VERSION_KEY, decoded, refuse
from pilothouse.hub.mcp.template_probe import MODERN_VERSION

if TYPE_CHECKING:
    from pilothouse.core.net.http1 import RequestHead

SUPPORTED = (MODERN_VERSION,)
NAMES = st.sampled_from(["echo", "other", "=?base64?ZWNobw==?=", "=?base64?ZWNobw=?=", ""])
VERSIONS = st.sampled_from([MODERN_VERSION, "2025-11-25", "2099-01-01"])


def head(**fields: str | None) -> RequestHead:
    given_fields = [(name.replace("_", "-"), value) for name, value in fields.items() if value]
    return parse_request_head(write_head("POST /mcp HTTP/1.1", given_fields)[:-4])


@given(
    header=VERSIONS,
    body=VERSIONS | st.none(),
    method_header=st.sampled_from(["tools/call", "tools/list", None]),
    name_header=NAMES | st.none(),
    name=NAMES | st.none(),
    has_capabilities=st.booleans(),
    method=st.sampled_from(["tools/call", "tools/list", "resources/read"]),
)
def test_the_same_requests_are_refused_for_the_same_reasons(
    header: str,
    body: str | None,
    method_header: str | None,
    name_header: str | None,
    name: str | None,
    has_capabilities: bool,
    method: str,
) -> None:
    meta: dict[str, Any] = {CAPABILITIES_KEY: {}} if has_capabilities else {}
    if body is not None:
        meta[VERSION_KEY] = body
    params = {"_meta": meta, **({"name": name, "uri": name} if name is not None else {})}
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    given_head = head(mcp_protocol_version=header, mcp_method=method_header, mcp_name=name_header)
    ours = refuse(given_head, message, SUPPORTED, ())
    flat = {name: values[0] for name, values in given_head.values.items()}
    theirs = classify_inbound_request(message, headers=flat)
    if not isinstance(theirs, InboundLadderRejection):
        assert ours is None
        return
    assert ours is not None
    error = json.loads(ours.body)
    assert error["id"] == 7
    assert (error["error"]["code"], error["error"]["message"]) == (theirs.code, theirs.message)
    assert error["error"].get("data") == theirs.data
    assert ours.status == 400


@given(st.text(max_size=20))
def test_a_header_that_was_wrapped_is_unwrapped(value: str) -> None:
    assert decoded(encode_header_value(value)) == value


@given(st.text("=?base64ABC", max_size=30) | NAMES | st.none())
def test_any_header_is_unwrapped_as_the_sdk_does(value: str | None) -> None:
    assert decoded(value) == decode_header_value(value)


@pytest.mark.parametrize("meta", [None, [], "x", 5])
def test_an_envelope_that_is_none_is_refused(meta: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    reply = refuse(head(mcp_protocol_version=MODERN_VERSION), message, SUPPORTED, ())
    assert reply is not None
    assert json.loads(reply.body)["error"]["code"] == -32602


def test_a_notification_passes_in_a_version_that_is_spoken() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    assert refuse(head(mcp_protocol_version=MODERN_VERSION), note, SUPPORTED, ()) is None
    reply = refuse(head(mcp_protocol_version="2099-01-01"), note, SUPPORTED, ())
    assert reply is not None
    assert json.loads(reply.body)["error"]["data"]["supported"] == list(SUPPORTED)


def test_an_answer_is_no_message_of_a_client_of_this_era() -> None:
    reply = refuse(
        head(mcp_protocol_version=MODERN_VERSION),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        SUPPORTED,
        (),
    )
    assert reply is not None
    assert json.loads(reply.body)["error"]["code"] == -32600


def test_a_worker_of_the_older_era_says_which_versions_it_speaks() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    reply = refuse(head(mcp_protocol_version=MODERN_VERSION), message, (), ("2025-11-25",))
    assert reply is not None
    assert json.loads(reply.body)["error"]["data"] == {
        "supported": ["2025-11-25"],
        "requested": MODERN_VERSION,
    }


def test_the_newest_version_is_the_sdks() -> None:
    assert MODERN_VERSION == MODERN_PROTOCOL_VERSIONS[-1]
