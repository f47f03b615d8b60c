"""Sessions never see each other: no page, cookie or log, and no way to another one's browser.

Two sessions of one agent, and two agents at one HTTP server.
"""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp.client import Client

from tests.support.servers import http_server
from tests.support.session_life import (
    Driver,
    bad,
    good,
    is_browser,
    last_seen,
    open_driver,
    open_place,
)
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.servers import Server
    from tests.support.session_life import Place

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

CONSOLE = "<script>console.error('from {0}'); document.cookie = 'who={0}'</script><p>{0}"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with open_driver() as opened:
        yield opened


@pytest.fixture(scope="module")
def sessions(driver: Driver) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    ann, ben = (driver.start(env={"NAME": name}) for name in ("Ann", "Ben"))
    yield ann, ben
    driver.end(ann)
    driver.end(ben)


@pytest.fixture
def pair(
    driver: Driver, sessions: tuple[dict[str, Any], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ann's and Ben's sessions, each on a page of its own with a cookie of its own."""
    for session, name in zip(sessions, ("Ann", "Ben"), strict=True):
        page = f"/?Set-Cookie=secret%3D{name}&body={CONSOLE.format(name)}"
        driver.call("navigate", sessionId=session["sessionId"], url=page)
    return sessions


# One agent


def test_sessions_of_one_agent_share_neither_pages_nor_cookies(
    driver: Driver, pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    ann, ben = pair
    for session, name, other in ((ann, "Ann", "Ben"), (ben, "Ben", "Ann")):
        own = {"sessionId": session["sessionId"]}
        (tab,) = driver.call("tabs", **own)["tabs"]
        assert tab["url"].startswith(session["url"])
        # Cookies know no ports: in one browser both apps would see both.
        cookies = driver.call("evaluate", **own, script="document.cookie")["result"]
        assert f"who={name}" in cookies
        assert other not in cookies
        assert name in driver.call("getContent", **own)["content"]
        targets = driver.call("cdp_list_targets", **own, types=["page"])["targets"]
        urls = [target["url"] for target in targets]
        assert any(url.startswith(session["url"]) for url in urls)
        assert other not in json.dumps(urls)
    assert "cdpPort" not in ann
    assert "cdpPort" not in ben


def test_logs_and_dossiers_of_one_agents_sessions_do_not_mix(
    driver: Driver, pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    ann, ben = pair
    for session, name, other in ((ann, "Ann", "Ben"), (ben, "Ben", "Ann")):
        own = {"sessionId": session["sessionId"]}
        logs = driver.call("readServerLogs", **own)
        assert f"the app of {name}" in logs["content"]
        assert other not in logs["content"]
    # Both do something in the same two seconds, of which a dossier tells everything.
    for session in pair:
        driver.call("navigate", sessionId=session["sessionId"], url=f"/{session['port']}")
    fault = driver.fault("click", sessionId=ben["sessionId"], selector="#none", timeout=100)
    assert fault["type"] == "element_not_found"
    told = json.dumps(fault)
    assert f"/{ben['port']}" in told
    assert f"/{ann['port']}" not in told
    assert f":{ann['port']}" not in told


def test_the_end_of_a_server_is_told_to_its_own_session_with_its_own_log(
    driver: Driver, pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    ann, _ = pair
    cleo = driver.start(env={"NAME": "Cleo"})
    driver.ask("navigate", sessionId=cleo["sessionId"], url="/?exit=9")
    # A failed step has told it; the end of the next server is told by the status.
    driver.call("restartServer", sessionId=cleo["sessionId"])
    driver.call("navigate", sessionId=cleo["sessionId"], url="/")
    script = "fetch('/?exit=4').catch(() => 0), 0"
    done = driver.call("evaluate", sessionId=cleo["sessionId"], script=script)
    # Said once: by this answer, if the server was that quick.
    notices = done.get("notices") or wait_until(lambda: driver.status(cleo)["notices"])
    assert [(one["type"], one["exitCode"]) for one in notices] == [("server_exited", 4)]
    log = "\n".join(notices[0]["log"])
    assert "the app of Cleo" in log
    assert "Ann" not in log
    assert "Ben" not in log
    assert driver.status(ann)["notices"] == []
    driver.end(cleo)


def test_a_call_without_a_session_id_asks_which_of_several(
    driver: Driver, pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    fault = driver.fault("navigate", url="/")
    assert fault["type"] == "session_not_found"
    assert all(session["sessionId"] in fault["suggestion"] for session in pair)


def test_the_tab_of_a_session_is_recorded_from_its_first_request_on(driver: Driver) -> None:
    session = driver.start()
    target = {"targetId": session["targetId"]}
    first = f"{session['url']}/first"
    driver.call("navigate", sessionId=session["sessionId"], url="/first")
    read = driver.call("cdp_read_events", **target, kinds=["request"])
    assert read["state"] == "observing"
    assert read["events"][0]["url"] == first
    seq = read["events"][0]["seq"]
    # The first that is asked for takes over what runs, with all that is in it.
    adopted = driver.call("cdp_observe", **target, sessionId=session["sessionId"])
    assert adopted["targetId"] == session["targetId"]
    again = driver.call("cdp_read_events", **target, kinds=["request"])
    assert (again["events"][0]["seq"], again["events"][0]["url"]) == (seq, first)
    fault = driver.fault("cdp_observe", **target, sessionId=session["sessionId"])
    assert fault["code"] == "ALREADY_OBSERVING"
    driver.call("navigate", sessionId=session["sessionId"], url="/second")
    driver.end(session)
    after = driver.call("cdp_read_events", **target, kinds=["request"])
    assert after["state"] == "closed"
    urls = [event["url"] for event in after["events"]]
    assert urls[0] == first
    assert f"{session['url']}/second" in urls
    fault = driver.fault("cdp_list_targets", sessionId=session["sessionId"])
    assert fault["code"] == "SESSION_NOT_FOUND"


def test_the_tab_of_a_session_is_adopted_by_its_id_alone(driver: Driver) -> None:
    session = driver.start()
    target = {"targetId": session["targetId"]}
    adopted = driver.call("cdp_observe", **target, bufferSize=2)
    assert adopted["targetId"] == session["targetId"]
    assert driver.fault("cdp_observe", **target)["code"] == "ALREADY_OBSERVING"
    driver.call("navigate", sessionId=session["sessionId"], url="/first")
    assert len(driver.call("cdp_read_events", **target)["events"]) == 2
    driver.end(session)


# Two agents


class Agent:
    """A client of the HTTP server, of the era with session ids."""

    def __init__(self, client: Client, place: Place) -> None:
        self._client = client
        self._place = place

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        assert result.structured_content is not None
        return {"isError": result.is_error, "structuredContent": result.structured_content}

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return good(await self.ask(tool, **arguments))

    async def fault(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return bad(await self.ask(tool, **arguments))

    async def start(self, **arguments: Any) -> dict[str, Any]:
        command = [sys.executable, "app.py"]
        return await self.call(
            "startSession", cwd=str(self._place.app), command=command, **arguments
        )


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Server, Place]]:
    with (
        open_place() as place,
        http_server("--profile", "full", module="pilothouse", env=place.env) as server,
    ):
        yield server, place


@asynccontextmanager
async def agent(served: tuple[Server, Place]) -> AsyncIterator[Agent]:
    server, place = served
    async with Client(f"{server.url}/mcp", mode="legacy") as client:
        yield Agent(client, place)


async def test_an_agent_cannot_use_the_session_of_another(served: tuple[Server, Place]) -> None:
    async with agent(served) as first, agent(served) as second:
        session = await first.start()
        stolen = {"sessionId": session["sessionId"]}
        for tool, more in (
            ("getSessionStatus", {}),
            ("navigate", {"url": "/"}),
            ("evaluate", {"script": "1"}),
            ("readServerLogs", {}),
            ("restartServer", {}),
            ("endSession", {}),
        ):
            fault = await second.fault(tool, **stolen, **more)
            assert fault["type"] == "session_not_found", tool
        # Neither by guessing nor by the only one there is.
        assert (await second.fault("navigate", url="/"))["type"] == "session_not_found"
        assert (await second.fault("cdp_list_targets", **stolen))["code"] == "SESSION_NOT_FOUND"
        assert (await first.call("navigate", **stolen, url="/"))["status"] == 200
        assert (await first.call("endSession", **stolen))["success"]


async def test_an_agent_cannot_reach_the_browser_of_another(served: tuple[Server, Place]) -> None:
    server, _ = served
    async with agent(served) as first, agent(served) as second:
        session, own = await first.start(debugPort=True), await second.start()
        port, target = session["cdpPort"], session["targetId"]
        for host in ("127.0.0.1", "localhost", "::1"):
            fault = await second.fault("cdp_list_targets", host=host, port=port)
            assert fault["code"] == "SECURITY_BLOCKED", host
        fault = await second.fault("cdp_observe", port=port, targetId=target)
        assert fault["code"] == "SECURITY_BLOCKED"
        fault = await second.fault("cdp_read_events", targetId=target)
        assert fault["code"] == "NOT_OBSERVING"
        # Nor is the name under which its own agent reaches it one that another could use.
        for wrong in ("127.0.0.1", session["sessionId"]):
            fault = await second.fault("cdp_list_targets", host=wrong, port=0)
            assert fault["code"] == "INVALID_INPUT"
        fault = await second.fault("cdp_list_targets", host=session["sessionId"])
        assert fault["code"] == "BROWSER_UNREACHABLE"
        fault = await second.fault("startSession", cdp=f"127.0.0.1:{port}")
        assert fault["type"] == "browser_launch_failed"
        assert "another session" in fault["message"]
        # Its pages cannot either: not by name, nor by being led there.
        in_own = {"sessionId": own["sessionId"]}
        for wanted in (port, server.port):
            for url in (
                f"http://127.0.0.1:{wanted}/json/version",
                f"http://localhost:{wanted}/json/version",
                f"/?status=302&Location=http://127.0.0.1:{wanted}/json/version",
            ):
                fault = await second.fault("navigate", **in_own, url=url)
                assert (fault["type"], fault["rule"]) == ("url_not_allowed", "blocked_port"), url
        fault = await second.fault("startSession", url=f"http://127.0.0.1:{port}/")
        assert fault["type"] == "url_not_allowed"
        # Its owner can.
        listed = await first.call("cdp_list_targets", sessionId=session["sessionId"])
        assert target in [one["id"] for one in listed["targets"]]
        listed = await first.call("cdp_list_targets", port=port)
        assert target in [one["id"] for one in listed["targets"]]


async def test_what_an_agent_started_ends_when_it_leaves(served: tuple[Server, Place]) -> None:
    _, place = served

    def browsers() -> list[int]:
        return [one.pid for one in place.living() if is_browser(one)]

    async with agent(served) as stays:
        session = await stays.start()
        before = set(browsers())
        async with agent(served) as leaves:
            await leaves.start()
            assert len(set(browsers()) - before) == 1
        assert set(last_seen(browsers, lambda found: set(found) <= before)) == before
        said = await stays.call("navigate", sessionId=session["sessionId"], url="/")
        assert said["status"] == 200
