"""Agents, apps and rows that make room, end or die while somebody looks on."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.integration.dashboard.conftest import Relayed
from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.http_agent import HttpAgent
    from tests.support.servers import Server
    from tests.support.watching import Onlooker

pytestmark = pytest.mark.browser


def test_rows_that_made_room_for_newer_ones_are_told(
    hub: Server, home: str, onlooker: Onlooker
) -> None:
    with Relayed(home, DEFAULT_BUFFER_SIZE="50") as agent:
        agent.start()
        agent.call("navigate", url="/")
        script = "for (let i = 0; i < 200; i++) console.log('line ' + i)"
        agent.call("evaluate", script=script)
        with onlooker.watch(onlooker.agent(agent.pid)["id"]) as watch:
            watch.until(lambda row: "line 199" in row["text"])
        (source,) = watch.batches[0]["missed"]
        assert source.startswith("tab ")
        assert watch.batches[0]["missed"][source] >= 150
        assert "line 0 " not in str(watch.rows)
        agent.leave()


def test_failures_can_be_looked_at_when_their_app_has_ended(
    hub: Server, home: str, onlooker: Onlooker
) -> None:
    with Relayed(home) as agent:
        agent.start()
        agent.call("navigate", url="/")
        agent.fault("click", selector="#nowhere", timeout=100)
        agent.call("endSession")
        id = onlooker.agent(agent.pid)["id"]
        (app,) = wait_until(
            lambda: [one for one in onlooker.agents()[id]["apps"] if one["dossiers"]]
        )
        assert (app["state"], app["sessionId"], app["tabs"]) == ("ended", agent.app, [])
        where = {"agent": id, "app": agent.app}
        name = f"dossier-{app['dossiers'][0]['step']}.html"
        assert "#nowhere" in onlooker.get("file", **where, name=name).text
        assert onlooker.error(404, "viewport", **where)["code"] == "not_found"
        agent.leave()


def test_looking_on_keeps_no_app_from_being_idle(
    hub: Server, home: str, onlooker: Onlooker
) -> None:
    with Relayed(home, PILOTHOUSE_SESSION_IDLE_SEC="2") as agent:
        agent.start()
        id = onlooker.agent(agent.pid)["id"]
        with onlooker.watch(id):
            wait_until(
                lambda: (
                    onlooker.get("viewport", agent=id, app=agent.app).status_code == 404
                    and not onlooker.agents()[id]["apps"]
                )
            )
        agent.leave()


def test_a_killed_worker_is_gone_and_its_agent_known_until_it_calls_again(
    caller: HttpAgent, onlooker: Onlooker
) -> None:
    pid = caller.call("status")["structuredContent"]["pid"]
    id = onlooker.agent(pid)["id"]
    with onlooker.watch(id) as watch:
        watch.next("rows")
        os.kill(pid, signal.SIGKILL)
        assert watch.next("gone") == {"agent": id}
        wait_until(lambda: onlooker.agents()[id]["state"] == "known")
        assert onlooker.error(404, "moment", agent=id, id="step:0")["code"] == "no_such_agent"
        caller.call("status")
        while True:
            overview = watch.next("overview")
            states = {one["id"]: one["state"] for one in overview["sessions"]}
            if states[id] == "live":
                break
    with onlooker.watch(id, watch.cursor) as again:
        row = again.until(lambda row: row["key"].startswith("call:"))
    assert row["id"] == "calls:0", "the cursor of another worker's rows begins anew"


def test_an_agent_that_leaves_is_listed_as_ended(
    hub: Server, home: str, onlooker: Onlooker
) -> None:
    with Relayed(home) as agent:
        id = onlooker.agent(agent.pid)["id"]
        with onlooker.watch(id) as watch:
            watch.next("rows")
            agent.leave()
            watch.next("gone")
            wait_until(lambda: onlooker.agents()[id]["state"] == "ended")
    assert onlooker.agents()[id]["pid"] == 0
