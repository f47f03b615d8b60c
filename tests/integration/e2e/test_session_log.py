"""The log of e2e sessions, as the client that owns them reads it on its standard error: with the
session's id on each line, by level, and the same whether a hub is between them or not."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.files import hub_files
from tests.support.agent import Agent
from tests.support.driving import SHOP, Driver
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

SEVERITIES = {"debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR"}
COMMAND = [sys.executable, str(SHOP / "server.py")]
DEBUG = {
    ("PlaywrightOrchestrator", "browser_launched"),
    ("PlaywrightOrchestrator", "step_finished"),
    ("PlaywrightOrchestrator", "step_failed"),
    ("PlaywrightOrchestrator", "playwright_failed"),
    ("ServerCommandExecutor", "command_started"),
    ("ServerCommandExecutor", "command_ended"),
}


def logged(agent: Agent, session_id: str) -> list[dict[str, Any]]:
    """Return the lines about a session, all of them with the severity of their level."""
    lines = [json.loads(line) for line in agent.log().splitlines()]
    assert all(line["severity"] == SEVERITIES[line["level"]] for line in lines)
    return [line for line in lines if line.get("sessionId") == session_id]


def told(agent: Agent, session_id: str) -> list[tuple[str, str, str]]:
    """Return level, event and tool of the lines about a session."""
    return [
        (line["level"], line["event"], line.get("details", {}).get("tool", ""))
        for line in logged(agent, session_id)
    ]


@pytest.fixture(scope="module", params=["standalone", "hub"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with Driver(joins_hub=request.param == "hub") as running:
        yield running


def test_each_line_of_a_session_has_its_id_although_no_call_names_it(driver: Driver) -> None:
    session = driver.call("startSession", command=COMMAND)
    driver.call("navigate", url="/")
    driver.fault("waitFor", text="never", timeout=1)
    driver.call("endSession")
    error = driver.fault("startSession", command=[sys.executable, "-c", "raise SystemExit(2)"])

    expected = [
        ("info", "session_started", ""),
        ("info", "tool_invoked", "startSession"),
        ("info", "tool_invoked", "navigate"),
        ("warn", "error_occurred", "waitFor"),
        ("info", "session_terminated", ""),
        ("info", "tool_invoked", "endSession"),
    ]
    wait_until(lambda: told(driver, session["sessionId"]) == expected)
    failed = ("error", "error_occurred", "startSession")
    wait_until(lambda: failed in told(driver, error["sessionId"]))


def test_a_debugging_port_is_told_as_open_to_every_user(driver: Driver) -> None:
    opened = driver.call("startSession", command=COMMAND, debugPort=True)
    closed = driver.call("startSession", command=COMMAND)

    def ports(session: dict[str, Any]) -> list[int]:
        lines = logged(driver, session["sessionId"])
        told = [line for line in lines if line["event"] == "debug_port_open"]
        assert all("every user" in line["details"]["why"] for line in told)
        return [line["details"]["port"] for line in told if line["level"] == "warn"]

    wait_until(lambda: ports(opened) == [opened["cdpPort"]])
    wait_until(
        lambda: ("info", "tool_invoked", "startSession") in told(driver, closed["sessionId"])
    )
    assert ports(closed) == []
    for session in (opened, closed):
        driver.call("endSession", sessionId=session["sessionId"])


def test_a_failure_tells_the_session_that_it_was_about(driver: Driver) -> None:
    session = driver.call("startSession", command=COMMAND)
    error = driver.fault("tabs", action="close", tabId="t9")
    assert error["context"]["sessionId"] == session["sessionId"]
    driver.call("endSession")


def test_what_crashes_is_an_error_of_its_session(driver: Driver) -> None:
    session = driver.call("startSession", command=COMMAND)
    psutil.Process(session["pid"]).kill()
    exited = ("error", "server_exited", "")
    wait_until(lambda: exited in told(driver, session["sessionId"]))
    driver.call("endSession")


@pytest.mark.parametrize("env", [{"LOG_LEVEL": "debug"}, {"MCP_DEBUG": "true"}])
def test_who_debugs_is_told_of_commands_and_of_what_playwright_does(env: dict[str, str]) -> None:
    with Driver(env=env) as driver:
        session = driver.call("startSession", command=COMMAND)
        driver.call("navigate", url="/")
        driver.fault("click", selector="#none", timeout=100)
        driver.call("endSession")

        def of_debug() -> set[tuple[str, str]]:
            lines = logged(driver, session["sessionId"])
            return {
                (line["component"], line["event"]) for line in lines if line["level"] == "debug"
            }

        wait_until(lambda: of_debug() >= DEBUG)
        lines = logged(driver, session["sessionId"])
    (started,) = (line for line in lines if line["event"] == "command_started")
    assert str(SHOP / "server.py") in started["details"]["command"]
    failed = next(line for line in lines if line["event"] == "playwright_failed")
    assert 'waiting for locator("#none")' in failed["details"]["error"]


def test_clients_of_one_hub_get_their_own_lines_alone_and_at_their_own_level() -> None:
    with Driver(joins_hub=True) as one:
        env = {"PILOTHOUSE_HOME": str(one.home), "LOG_LEVEL": "error"}
        with Agent("--tools", "e2e,observe", env=env, joins_hub=True) as other:
            first = one.call("startSession", command=COMMAND)["sessionId"]
            second = other.call("startSession", url=one.call("getSessionStatus")["url"])
            other.call("endSession")
            error = other.fault("startSession", command=[sys.executable, "-c", "raise SystemExit"])
            one.call("endSession")
            wait_until(lambda: ("info", "session_terminated", "") in told(one, first))
            failed = ("error", "error_occurred", "startSession")
            ended = ("error", "session_terminated", "")
            wait_until(lambda: told(other, error["sessionId"]) == [ended, failed])
            assert told(other, second["sessionId"]) == []
            assert told(other, first) == []
            assert told(one, second["sessionId"]) == told(one, error["sessionId"]) == []
            # The hub's own log has the lines of all.
            log = hub_files(str(one.home), {}).log.read_text()
            assert first in log
            assert error["sessionId"] in log
