"""`pilothouse` on stdio as a client starts it: through a real hub to a worker of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import psutil
import pytest

from pilothouse.hub.mcp.template import ASKED_AT_START
from pilothouse.hub.notices import RESET
from tests.integration.test_edge import ODD_MESSAGES
from tests.support.agent import Agent
from tests.support.living import living
from tests.support.npm import SETS, TYPESCRIPT, is_installed
from tests.support.relaying import GUARD_S, Home, relay_home
from tests.support.servers import ERAS, PRODUCT, ROOT, RawStdio, environment, stdio
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMELINE = "pilothouse://timeline"
ODD_REQUESTS = (
    '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    '{"jsonrpc":"2.0","id":2,"method":"ping"}',
    '{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":7}}',
    '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"nothing"}}',
    '{"jsonrpc":"2.0","id":5,"method":"prompts/list"}',
    '{"jsonrpc":"2.0","id":6,"method":"server/discover"}',
    '{"jsonrpc":"2.0","id":7,"method":"no/such"}',
    '{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"no://such"}}',
    '{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"no"}}',
    '{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":'
    '{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
)


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One hub for all tests of this file that leave it alone."""
    folder = Path(tempfile.mkdtemp(prefix="ph-"))
    mark = uuid.uuid4().hex
    with relay_home(folder, mark) as home:
        with home.agent() as agent:
            agent.call("status")  # the hub is warm then
        yield home
    shutil.rmtree(folder)
    assert living(mark) == []


@pytest.fixture
def own_home(sockets: Path, mark: str) -> Iterator[Home]:
    """A hub for one test."""
    with relay_home(sockets, mark) as home:
        yield home


@pytest.fixture
def quiet_home(home: Home) -> Home:
    """The hub of all tests, when the workers of those before have gone."""
    wait_until(lambda: home.workers() == [])
    return home


def logged_tools(log: str) -> list[str]:
    """Return the tools of the calls that a log tells of; it has nothing but lines of the log."""
    lines = [json.loads(line) for line in log.splitlines()]
    calls = ("tool_invoked", "error_occurred")
    return [line["details"]["tool"] for line in lines if line["event"] in calls]


def texts(result: dict[str, Any]) -> list[str]:
    return [one["text"] for one in result["content"]]


# What a client gets


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_of_the_sdk_is_served_in_both_eras(quiet_home: Home, mode: str) -> None:
    async with stdio(mode=mode, module=PRODUCT, env=quiet_home.env, joins_hub=True) as client:
        tools = (await client.list_tools()).tools
        answer = await client.call_tool("status", {})
        read = await client.read_resource(TIMELINE)
        (seat,) = (await anyio.to_thread.run_sync(quiet_home.status) or {})["seats"]
    assert seat["pid"]
    assert seat["client"].startswith("mcp")  # as the SDK's client calls itself
    assert {"startSession", "cdp_observe", "status"} <= {tool.name for tool in tools}
    assert answer.structured_content is not None
    assert answer.structured_content["sessionId"] == "stdio"
    assert json.loads(read.contents[0].text)["events"]  # type: ignore[union-attr]


@pytest.mark.skipif(
    not (shutil.which("node") and is_installed(TYPESCRIPT, SETS[TYPESCRIPT])),
    reason="the TypeScript SDK or Node is not installed; `scripts/setup --tests` installs it",
)
@pytest.mark.parametrize("mode", ERAS)
def test_the_typescript_client_is_served_in_both_eras(home: Home, mode: str) -> None:
    done = subprocess.run(
        ["node", "--input-type=module", "-", mode, sys.executable, "-m", "pilothouse"],
        input=(TYPESCRIPT / "talk_stdio.mjs").read_bytes(),
        capture_output=True,
        cwd=SETS[TYPESCRIPT],  # what comes on stdin finds its packages from here
        env=environment(home.env),
        timeout=GUARD_S,
    )
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    assert {"status", "startSession"} <= set(seen.pop("tools"))
    assert seen.pop("templates") > 0
    assert seen == {
        "version": {"legacy": "2025-11-25", "auto": "2026-07-28"}[mode],
        "server": "pilothouse",
        "session": "stdio",
        "failed": True,
        "events": True,
    }
    assert logged_tools(done.stderr.decode())[0] == "status"


@pytest.mark.parametrize("args", [(), ("--profile", "full"), ("--tools", "observe")])
def test_a_relay_answers_what_the_server_itself_answers(home: Home, args: tuple[str, ...]) -> None:
    asked = ("ping", *ASKED_AT_START)
    with home.raw(*args) as relay, RawStdio(*args, module=PRODUCT, env=home.env) as alone:
        assert relay.initialize() == alone.initialize()
        for method in asked:
            assert relay.request(method) == alone.request(method), method
        # Once more by a worker.
        assert relay.request("tools/call", {"name": "status"})["result"]["isError"] is False
        for method in asked:
            assert relay.request(method) == alone.request(method), method


def test_prompts_are_listed_and_told_through_a_relay(home: Home) -> None:
    with home.raw() as relay:
        relay.initialize()
        listed = relay.request("prompts/list")["result"]["prompts"]
        assert [prompt["name"] for prompt in listed] == ["diagnose", "reproduce", "map-api"]
        asked = {"name": "diagnose", "arguments": {"flow": "No receipt"}}
        told = relay.request("prompts/get", asked)["result"]["messages"][0]["content"]["text"]
        assert "No receipt" in told


def test_the_modern_lists_are_those_of_the_server_itself(home: Home) -> None:
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    asked = ("server/discover", *ASKED_AT_START)
    with home.raw() as relay, RawStdio(module=PRODUCT, env=home.env) as alone:
        for method in asked:
            params = {"_meta": about}
            assert relay.request(method, params) == alone.request(method, params), method


@pytest.mark.parametrize("greeted", [True, False])
def test_odd_lines_and_requests_are_answered_as_the_server_answers_them(
    home: Home, greeted: bool
) -> None:
    lines = [raw for raw in ODD_MESSAGES.values() if raw]
    lines += [line.encode() for line in ODD_REQUESTS]
    with home.raw() as relay, RawStdio(module=PRODUCT, env=home.env) as alone:
        for server in (relay, alone):
            if greeted:
                server.initialize()
        for line in lines:
            for server in (relay, alone):
                server.send(line)
            assert relay.receive() == alone.receive(), line
        assert relay.close()[0] == b""


def test_settings_and_folder_of_a_relay_hold_for_its_own_worker(quiet_home: Home) -> None:
    home = quiet_home
    with home.agent("--profile", "full", "--tools", "observe") as one, home.agent() as other:
        assert one.call("status")["profile"] == "full"
        assert [group["name"] for group in one.call("status")["groups"]] == ["house", "observe"]
        assert other.call("status")["profile"] == "default"
        pids = home.workers()
        assert len(pids) == 2
        assert {psutil.Process(pid).cwd() for pid in pids} == {str(ROOT)}


def test_each_relay_has_a_worker_of_its_own_that_goes_with_it(quiet_home: Home) -> None:
    home = quiet_home
    with home.agent() as one:
        one.call("status")
        (first,) = home.workers()
        with home.agent() as other:
            other.call("status")
            second = (set(home.workers()) - {first}).pop()
            other.process.kill()
        wait_until(lambda: not psutil.pid_exists(second))
        assert home.workers() == [first]
        one.call("status")
        one.close()
    wait_until(lambda: not psutil.pid_exists(first))
    assert (home.status() or {})["relays"] == 0


def test_only_messages_are_on_stdout_and_only_the_log_of_its_own_calls_on_stderr(
    home: Home,
) -> None:
    with home.agent() as agent:
        agent.call("status")
        agent.fault("cdp_read_events", targetId="nothing")
        rest, log = agent.close()
    assert rest == b""
    assert logged_tools(log) == ["status", "cdp_read_events"]
    assert agent.process.returncode == 0


# Workers that go away


def test_the_state_of_a_worker_that_was_killed_is_missed_in_words(quiet_home: Home) -> None:
    home = quiet_home
    with home.agent() as agent:
        agent.call("status")
        (pid,) = home.workers()
        psutil.Process(pid).kill()
        wait_until(lambda: pid not in home.workers())
        assert texts(agent.ask("status"))[-1] == RESET
        assert RESET not in texts(agent.ask("status"))


def test_subscriptions_survive_their_worker(quiet_home: Home) -> None:
    home = quiet_home
    with home.agent() as agent:
        agent.request("resources/subscribe", {"uri": TIMELINE}, id=2)
        (pid,) = home.workers()
        psutil.Process(pid).kill()
        wait_until(lambda: pid not in home.workers())
        agent.begin("cdp_read_events", targetId="nothing")
        while (said := agent.receive()).get("method") != "notifications/resources/updated":
            pass
        assert said["params"]["uri"] == TIMELINE


def test_an_idle_worker_ends_and_one_that_a_relay_calls_stays(own_home: Home) -> None:
    with own_home.agent(PILOTHOUSE_WORKER_IDLE="3") as agent:
        agent.call("status")
        (pid,) = own_home.workers()
        until = psutil.Process(pid).create_time() + 7
        while time.time() < until:
            agent.call("status")
        assert own_home.workers() == [pid]
        wait_until(lambda: own_home.workers() == [])
        assert texts(agent.ask("status"))[-1] == RESET


# Hubs that come and go


def test_a_hub_that_was_stopped_or_killed_is_started_again_by_the_next_call(
    own_home: Home,
) -> None:
    with own_home.agent() as agent:
        agent.call("status")
        own_home.stop()
        assert texts(agent.ask("status"))[-1] == RESET
        hub = (own_home.status() or {})["pid"]
        process = psutil.Process(hub)
        process.kill()
        process.wait(30)
        assert texts(agent.ask("status"))[-1] == RESET
        assert (own_home.status() or {})["pid"] != hub


@pytest.mark.usefixtures("real_processes")
def test_ten_relays_at_once_start_one_hub(own_home: Home, mark: str) -> None:
    relays = [own_home.raw() for _ in range(10)]
    try:
        for relay in relays:
            relay.initialize()
            relay.send_request("tools/call", {"name": "status", "arguments": {}}, 1)
        for relay in relays:
            assert relay.receive()["result"]["isError"] is False
        hubs = [one for one in living(mark) if "pilothouse.hub.start" in one.cmdline()]
        assert [one.pid for one in hubs] == [(own_home.status() or {})["pid"]]
        assert len(own_home.workers()) == 10
    finally:
        for relay in relays:
            relay.__exit__()


@pytest.mark.usefixtures("real_processes")  # a forked hub is there in no time
def test_a_relay_without_a_hub_lists_its_tools_before_the_hub_is_there(own_home: Home) -> None:
    with own_home.raw() as relay:
        relay.initialize()
        assert relay.request("tools/list")["result"]["tools"]
        assert own_home.status() is None
        wait_until(lambda: own_home.status() is not None)


@pytest.mark.usefixtures("real_processes")
def test_a_hub_outlives_the_relay_that_started_it_and_its_terminal(own_home: Home) -> None:
    with own_home.raw() as relay:
        relay.initialize()
        wait_until(lambda: own_home.status() is not None)
        below = psutil.Process(relay.process.pid).children(recursive=True)
        assert below == []
        relay.process.kill()
    hub = psutil.Process((own_home.status() or {})["pid"])
    # Ctrl-C at a terminal is for the group in front, its end for whoever heeds it.
    assert os.getpgid(hub.pid) not in (os.getpgrp(), relay.process.pid)
    hub.send_signal(signal.SIGHUP)
    assert (own_home.status() or {})["pid"] == hub.pid


# Where there can be no hub


def test_without_a_place_for_a_hub_one_process_serves(tmp_path: Path) -> None:
    nowhere = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
    env = {"PILOTHOUSE_HOME": "", **dict.fromkeys(nowhere, "/dev/null/state")}
    with Agent(env=env, joins_hub=True) as agent:
        assert agent.call("status")["sessionId"] == "stdio"
        _, log = agent.close()
    assert log.startswith("pilothouse: no hub can be started (")


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--cdp-port", "x"), "--cdp-port"),
        (("--redact", "("), "--redact"),
        (("--store", "nothing"), "--store"),
        (("--home", "/dev/null/x"), "PILOTHOUSE_HOME"),
    ],
)
def test_bad_settings_are_refused_before_anything_starts(
    sockets: Path, mark: str, args: tuple[str, ...], named: str
) -> None:
    with Home(sockets, mark).raw(*args) as relay:
        out, log = relay.close()
    assert relay.process.returncode == 2
    assert out == b""
    assert log.startswith("pilothouse: ")
    assert named in log
    assert len(log.splitlines()) == 1


def test_a_folder_that_is_gone_is_told_in_one_line(sockets: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ran = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'cd "$0" && rmdir "$0" && exec "$@"',
            gone,
            sys.executable,
            "-m",
            PRODUCT,
        ],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment({"PILOTHOUSE_HOME": str(sockets)}),
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("pilothouse: the folder in which this was started is gone")
    assert len(ran.stderr.splitlines()) == 1


def test_a_hub_that_cannot_start_is_the_answer_to_the_call(own_home: Home) -> None:
    with own_home.raw(PILOTHOUSE_HTTP_HOST="192.0.2.1") as relay:
        relay.initialize()
        call = {"name": "status", "arguments": {}}
        said = relay.request("tools/call", call, id=5)["error"]["message"]
        assert "the hub ended while it started" in said
        assert "192.0.2.1" in said
        assert relay.request("tools/list", id=6)["result"]["tools"]
