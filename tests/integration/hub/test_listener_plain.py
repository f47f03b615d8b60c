"""The listener against a plain upstream: what is answered here, and what reaches a worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.net.http1 import MAX_HEAD_BYTES
from pilothouse.hub.mcp.template import MINTING, NAMING, Template
from pilothouse.hub.model import Key
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.listener_rig import Asked, call, hello, listen, modern, plain, request
from tests.support.until import until
from tests.support.upstream_scripts import HANDSHAKE, MODERN, TEMPLATE, echo, methods, worker

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio

# What is answered without a worker


async def test_a_session_is_opened_and_asked_for_its_lists_without_a_worker(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        session = await client.initialize()
        assert session.count("-") == 4
        for method in ("ping", "tools/list"):
            client.post(request(method), f"Mcp-Session-Id: {session}")
            got = await client.answer()
            assert got.json["result"] == HANDSHAKE[method]
            assert got.head.first("mcp-session-id") == session
        message, fields = modern(request("server/discover", id="x"))
        client.post(message, *fields)
        got = await client.answer()
        assert got.json == {"jsonrpc": "2.0", "id": "x", "result": MODERN["server/discover"]}
        assert "mcp-session-id" not in got.head.values
        for change in ("logging/setLevel", "resources/subscribe"):
            client.post(
                request(change, {"level": "info", "uri": "a:b"}), f"Mcp-Session-Id: {session}"
            )
            assert (await client.answer()).json["result"] == {}
        assert crew.started == []
        assert upstream.connections == 0


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ((), 400, -32600),
        (("Mcp-Session-Id: 00000000-0000-4000-8000-000000000000",), 404, -32600),
        (("Mcp-Session-Id: local:",), 404, -32600),
        (("MCP-Protocol-Version: 1999-01-01",), 400, -32602),
    ],
)
async def test_a_call_of_nobody_starts_nothing(
    tmp_path: Path, fields: tuple[str, ...], status: int, code: int
) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        client.post(call("work"), *fields)
        got = await client.answer()
        assert (got.status, got.json["error"]["code"]) == (status, code)
        assert crew.started == []


async def test_a_worker_of_the_older_era_alone_is_not_started_for_a_modern_request(
    tmp_path: Path,
) -> None:
    only_old = Template(HANDSHAKE, {})
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, only_old) as rig:
        client = await rig.connect()
        message, fields = modern(request("server/discover"))
        client.post(message, *fields)
        got = await client.answer()
        assert (got.status, got.json["error"]["code"]) == (400, -32022)
        assert "2025-11-25" in got.json["error"]["data"]["supported"]
        assert crew.started == []


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES, 2 * MAX_HEAD_BYTES])
async def test_a_head_that_is_too_large_is_refused_however_it_comes(
    tmp_path: Path, size: int
) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        client.post(request("ping"), f"X: {'x' * size}")
        assert (await client.answer()).head.status == 431


async def test_too_many_sessions_are_refused_with_a_time_to_come_back(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (_, crew),
        listen(crew, TEMPLATE, max_sessions=2) as rig,
    ):
        client = await rig.connect()
        sessions = [await client.initialize() for _ in range(2)]
        client.post(hello())
        got = await client.answer()
        assert got.status == 503
        assert int(got.head.first("retry-after")) > 0
        assert "--max-sessions" in got.json["error"]["message"]
        client.request("DELETE", "/mcp", f"Mcp-Session-Id: {sessions[0]}")
        assert (await client.answer()).status == 200
        await client.initialize()


# What reaches the worker


async def test_the_first_call_shakes_hands_with_the_worker_and_maps_the_session_id(
    tmp_path: Path,
) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        session = await client.initialize(roots={"listChanged": True})
        ours = f"Mcp-Session-Id: {session}"
        client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, ours)
        assert (await client.answer()).status == 202
        client.post(request("logging/setLevel", {"level": "warning"}), ours)
        await client.answer()
        client.post(request("resources/subscribe", {"uri": "a:b"}), ours)
        await client.answer()
        secret = ("Authorization: Bearer x", "Cookie: a=b", "X-Kept: yes", "Origin: " + rig.url)
        client.post(call("work", id=7), ours, *secret)
        got = await client.answer()
        assert got.json["id"] == 7
        assert got.head.first("mcp-session-id") == session
        assert methods(upstream.asked) == [
            "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe",
            "tools/call",
        ]  # fmt: skip
        first, *later = upstream.asked
        assert first.message["params"] == hello(roots={"listChanged": True})["params"]
        assert {one.head.one("mcp-session-id") for one in later} == {"inner"}
        last = later[-1].head
        assert last.one("host") == "worker.example"
        assert last.one("x-kept") == "yes"
        assert not last.values.keys() & {"authorization", "cookie", "origin"}
        assert crew.leases == {Key("session", session): 0}


async def test_a_new_worker_is_told_what_the_client_said_and_the_client_that_state_was_lost(
    tmp_path: Path,
) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        session = await client.initialize()
        ours = f"Mcp-Session-Id: {session}"
        client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, ours)
        await client.answer()
        client.post(call("work"), ours)
        assert "reset" not in (await client.answer()).body.decode()
        for uri in ("a:b", "a:c"):
            client.post(request("resources/subscribe", {"uri": uri}), ours)
            await client.answer()
        client.post(request("resources/unsubscribe", {"uri": "a:b"}), ours)
        await client.answer()
        crew.lose(Key("session", session))
        upstream.asked.clear()
        client.post(call("work", id=2), ours)
        told = (await client.answer()).json["result"]["content"]
        assert told[0]["text"] == "done"
        assert "browser state was reset" in told[1]["text"]
        assert methods(upstream.asked) == [
            "initialize", "notifications/initialized", "resources/subscribe", "tools/call",
        ]  # fmt: skip
        assert upstream.asked[2].message["params"] == {"uri": "a:c"}
        client.post(call("work", id=3), ours)
        assert "reset" not in (await client.answer()).body.decode()


async def test_a_session_that_the_worker_forgot_is_introduced_again(tmp_path: Path) -> None:
    known: set[str] = set()

    async def forgetful(asked: Asked) -> None:
        if asked.body and asked.message.get("method") == "initialize":
            known.add(f"inner-{len(known)}")
            current = max(known)
            asked.result({"protocolVersion": "2025-11-25"}, f"Mcp-Session-Id: {current}")
        elif asked.message.get("method") == "tools/call" and len(known) < 2:
            asked.answer("404 Not Found", b"{}", "Content-Type: application/json")
        else:
            await echo(asked)

    async with plain(tmp_path / "w", forgetful) as (upstream, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        session = await client.initialize()
        client.post(call("work"), f"Mcp-Session-Id: {session}")
        got = await client.answer()
        assert got.status == 200
        assert "reset" in got.body.decode()
        assert methods(upstream.asked) == ["initialize", "tools/call", "initialize", "tools/call"]


async def test_many_first_calls_at_once_shake_hands_once(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        session = await client.initialize()
        others = [await rig.connect() for _ in range(10)]
        for number, other in enumerate(others):
            other.post(call("work", id=number), f"Mcp-Session-Id: {session}")
        got = [(await other.answer()).json["id"] for other in others]
        assert got == list(range(10))
        assert methods(upstream.asked).count("initialize") == 1
        assert len(crew.started) == 1


async def test_delete_ends_the_session_and_its_worker(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        session = await client.initialize()
        ours = f"Mcp-Session-Id: {session}"
        client.post(call("work"), ours)
        await client.answer()
        client.request("DELETE", "/mcp", ours)
        assert (await client.answer()).status == 200
        await until(lambda: crew.ended == [Key("session", session)])
        assert upstream.asked[-1].head.method == "DELETE"
        assert upstream.asked[-1].head.one("mcp-session-id") == "inner"
        client.post(call("work"), ours)
        assert (await client.answer()).status == 404
        client.request("DELETE", "/mcp", ours)
        assert (await client.answer()).status == 404
        assert len(crew.started) == 1


async def test_a_call_that_shakes_hands_while_its_session_is_ended_starts_no_other_worker(
    tmp_path: Path,
) -> None:
    async def silent(asked: Asked) -> None:
        if asked.head.method == "DELETE":
            asked.answer("200 OK")

    async with plain(tmp_path / "w", silent) as (upstream, crew), listen(crew, TEMPLATE) as rig:
        client, other = await rig.connect(), await rig.connect()
        session = await client.initialize()
        client.post(call("work"), f"Mcp-Session-Id: {session}")
        await until(lambda: methods(upstream.asked) == ["initialize"])
        other.request("DELETE", "/mcp", f"Mcp-Session-Id: {session}")
        assert (await other.answer()).status == 200
        upstream.asked[0].writer.close()  # as its end does
        assert (await client.answer()).status == 404
        assert len(crew.started) == 1


async def test_what_lives_in_a_session_of_2025_is_reached_by_its_id_alone(tmp_path: Path) -> None:
    async def start(asked: Asked) -> None:
        asked.result({"content": [], "structuredContent": {"sessionId": "s-1", "targetId": "t-1"}})

    template = Template(HANDSHAKE, MODERN, minting=MINTING, naming=NAMING)
    async with plain(tmp_path / "w", worker(start)) as (_, crew), listen(crew, template) as rig:
        client = await rig.connect()
        session = await client.initialize()
        client.post(call("startSession"), f"Mcp-Session-Id: {session}")
        assert (await client.answer()).status == 200
        assert crew.last == Key("session", session)
        for arguments in ({"sessionId": "s-1"}, {"targetId": "t-1"}):
            message, fields = modern(call("cdp_read_events", **arguments))
            client.post(message, *fields)
            assert (await client.answer()).status == 200
            assert crew.last == Key("local", "")


async def test_a_modern_call_goes_to_its_key_without_a_session(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client = await rig.connect()
        message, fields = modern(call("work"))
        for path in ("/mcp", "/mcp/window-1", "/mcp/window-2", "/message", "/mcp/window-1"):
            client.post(message, *fields, "Mcp-Session-Id: ignored", path=path)
            got = await client.answer()
            assert got.json["result"]["content"]
            assert "mcp-session-id" not in got.head.values
        assert crew.started == [
            Key("local", ""), Key("path", "window-1"), Key("path", "window-2"),
        ]  # fmt: skip
        assert {one.head.one("mcp-session-id") for one in upstream.asked} == {None}
        assert {one.head.target for one in upstream.asked} == {"/mcp"}


async def test_what_a_handles_worker_names_later_leads_to_it(tmp_path: Path) -> None:
    named = {
        "startSession": {"sessionId": "s-1", "targetId": "first"},
        "tabs": {"tabs": [{"id": "2", "targetId": "second"}, {"id": "3"}, "odd"]},
        "cdp_list_targets": {"targets": [{"id": "third"}], "targetId": 7},
        "status": {"targetId": "not asked"},
    }

    async def answer(asked: Asked) -> None:
        said = named.get(asked.message["params"]["name"], {})
        asked.result({"content": [], "structuredContent": said})

    template = Template(HANDSHAKE, MODERN, minting=MINTING, naming=NAMING)
    async with plain(tmp_path / "w", worker(answer)) as (_, crew), listen(crew, template) as rig:
        client = await rig.connect()

        async def goes_to(tool: str, **arguments: str) -> Key | None:
            message, fields = modern(call(tool, **arguments))
            client.post(message, *fields)
            assert (await client.answer()).status == 200
            return crew.last

        handle = await goes_to("startSession")
        assert handle is not None
        assert handle.kind == "handle"
        assert await goes_to("cdp_read_events", targetId="second") == Key("local", "")
        for tool in ("tabs", "cdp_list_targets", "status"):
            assert await goes_to(tool, sessionId="s-1") == handle
        for target in ("first", "second", "third"):
            assert await goes_to("cdp_read_events", targetId=target) == handle, target
        assert await goes_to("cdp_read_events", targetId="not asked") == Key("local", "")
        # What the local user's worker names is found without a name.
        assert await goes_to("tabs") == Key("local", "")
        assert await goes_to("cdp_read_events", targetId="second") == handle


def test_all_tools_that_name_sessions_or_targets_are_known_to_do_so() -> None:
    def names(schema: dict[str, Any]) -> bool:
        text = json.dumps(schema["properties"])
        return '"targetId"' in text or '"sessionId"' in text or '"targets"' in text

    listed = {tool.name for spec in GROUP_SPECS for tool in spec.tools if names(tool.output_schema)}
    assert listed - MINTING - NAMING <= NAME_NOTHING_NEW
    assert listed >= MINTING | NAMING


NAME_NOTHING_NEW = frozenset({"endSession", "getSessionStatus", "status"})
"""Tools whose answer has such a name, but only one that they were called with."""


async def test_a_modern_request_at_odds_with_its_headers_starts_nothing(tmp_path: Path) -> None:
    async with plain(tmp_path / "w", worker(echo)) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        message, fields = modern(call("work"))
        version, method, name = fields
        for wrong in (
            [version, "Mcp-Method: tools/list", name],
            [version, method, "Mcp-Name: other"],
            [version, method],
            [version, name],
            [version, method, method, name],
            ["MCP-Protocol-Version: 2027-01-01", method, name],
        ):
            client.post(message, *wrong)
            got = await client.answer()
            assert (got.status, got.json["error"]["code"]) == (400, -32020), wrong
        for verb in ("GET", "DELETE", "PUT"):
            client.request(verb, "/mcp", version)
            got = await client.answer(verb)
            assert (got.status, got.head.first("allow")) == (405, "POST")
        assert crew.started == []
