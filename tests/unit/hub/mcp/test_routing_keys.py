"""Whose worker a request goes to."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from pilothouse.hub.mcp.routing_keys import (
    HANDSHAKE_VERSIONS,
    RoutingFacts,
    calls_one_of,
    era_of,
    key_of,
    names_in,
    path_key,
)
from pilothouse.hub.model import Key, SessionRecord

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
METHODS = st.sampled_from(
    ["tools/call", "resources/read", "resources/subscribe", "subscriptions/listen", "x"]
)


def call(tool: str = "t", **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/mcp", ""),
        ("/message", ""),
        ("/mcp/window-1", "window-1"),
        ("/mcp/A.b_c~d", "A.b_c~d"),
        ("/mcp/", None),
        ("/mcp//", None),
        ("/mcp/a/b", None),
        ("/mcp/a b", None),
        ("/mcp/ä", None),
        ("/mcp/" + "a" * 129, None),
        ("/message/a", None),
        ("/MCP", None),
        ("/mcpx", None),
        ("/", None),
        ("/health", None),
        ("/mcp/a\n", None),
    ],
)
def test_only_mcp_paths_have_a_key(path: str, key: str | None) -> None:
    assert path_key(path) == key


def test_the_handshake_versions_are_those_of_the_sdk() -> None:
    assert HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert {era_of(version) for version in (None, *HANDSHAKE_VERSIONS)} == {"2025"}
    assert {era_of(version) for version in ("", "2026-07-28", "DRAFT")} == {"2026"}


RECORD = SessionRecord("sid", Key("session", "sid"), "2025", 0, 0)
OWNER = Key("handle", "h")


def test_the_order_of_keys_is_the_one_that_was_decided() -> None:
    """From a request that says all of it, what decides is taken away one by one."""
    asked = RoutingFacts("2026", "window", "ann")
    decided = [key_of(asked, RECORD, OWNER, lambda: "new")]
    decided.append(key_of(asked, None, OWNER, lambda: "new"))
    decided.append(key_of(asked, None, None, lambda: "new"))
    decided.append(key_of(asked))
    decided.append(key_of(asked._replace(path_key="")))
    decided.append(key_of(RoutingFacts("2026")))
    assert decided == [
        RECORD.key,
        OWNER,
        Key("handle", "new", "ann"),
        Key("path", "window", "ann"),
        Key("principal", "ann", "ann"),
        Key("local", ""),
    ]


@given(
    people=st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=4, unique=True),
    paths=st.lists(st.text("ab-", max_size=3), min_size=1, max_size=4, unique=True),
)
def test_no_two_principals_ever_share_a_key(people: list[str], paths: list[str]) -> None:
    keys = [
        (person, key_of(RoutingFacts("2026", path, person)))
        for person, path in itertools.product(people, paths)
    ]
    for (one, key), (other, same) in itertools.combinations(keys, 2):
        assert one == other or key != same
    assert all(key.principal == person for person, key in keys)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (call(sessionId="s", targetId="t"), ["s", "t"]),
        (call(targetId="t"), ["t"]),
        (call(sessionId=5, targetId=None), []),
        ({"method": "tools/call", "params": {"name": "x"}}, []),
        ({"method": "tools/call", "params": {"arguments": ["sessionId"]}}, []),
        ({"method": "resources/read", "params": {"uri": "cdp://events/T1"}}, ["events", "T1"]),
        (
            {"method": "resources/subscribe", "params": {"uri": "e2e://artifact/S1/a.png"}},
            ["artifact", "S1", "a.png"],
        ),
        (
            {
                "method": "subscriptions/listen",
                "params": {"notifications": {"resourceSubscriptions": ["cdp://events/T1"]}},
            },
            ["events", "T1"],
        ),
        ({"method": "subscriptions/listen", "params": {"notifications": {}}}, []),
        ({"method": "tools/list"}, []),
        ({"id": 1, "result": {}}, []),
    ],
)
def test_what_lives_in_a_worker_is_named_by_arguments_and_uris(
    message: dict[str, Any], names: list[str]
) -> None:
    assert list(names_in(message)) == names


@given(method=METHODS, params=st.dictionaries(st.text(max_size=20), JSON), uri=JSON, wanted=JSON)
def test_any_sound_message_names_text_or_nothing(
    method: str, params: dict[str, Any], uri: Any, wanted: Any
) -> None:
    params |= {"uri": uri, "arguments": wanted, "notifications": wanted}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    names = list(names_in(message))
    assert all(isinstance(name, str) for name in names)
    assert len(names) <= 1000
    calls_one_of(message, frozenset({"startSession"}))


def test_a_handle_is_minted_by_the_tools_that_say_so() -> None:
    minting = frozenset({"startSession"})
    assert calls_one_of(call("startSession"), minting)
    assert not calls_one_of(call("endSession"), minting)
    assert not calls_one_of(call("startSession"), frozenset())
    assert not calls_one_of({"method": "prompts/get", "params": {"name": "startSession"}}, minting)
    assert not calls_one_of({"method": "tools/call", "params": {"name": ["startSession"]}}, minting)
