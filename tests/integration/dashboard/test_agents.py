"""What people see of agents on stdio and over HTTP that drive real browsers through a real hub."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.dashboard.conftest import SHOP_COMMAND, Relayed
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http_agent import HttpAgent
    from tests.support.servers import Server
    from tests.support.watching import Onlooker

pytestmark = pytest.mark.browser


def test_the_overview_shows_an_agent_on_stdio_with_its_app(
    driver: Relayed, onlooker: Onlooker, hub: Server
) -> None:
    overview = onlooker.json("overview")
    assert overview["url"] == hub.url
    assert overview["uptimeSec"] >= 0
    assert overview["bookmarks"]["profiles"] == []
    agent = onlooker.agent(driver.pid)
    assert agent["id"].startswith("relay-")
    assert agent["client"] == "test 1"
    assert agent["name"].startswith("stdio ")
    assert agent["state"] == "live"
    assert agent["calls"] >= 3
    assert agent["idleSec"] < 60
    wait_until(lambda: onlooker.agent(driver.pid)["memory"] > 1 << 20)
    (app,) = agent["apps"]
    assert app["sessionId"] == driver.app
    assert app["url"].startswith("http://localhost:")
    assert (app["state"], app["intercept"]) == ("running", False)
    (server,) = app["servers"]
    assert server["status"] == "running"
    assert server["pid"] > 0
    (tab,) = app["tabs"]
    assert tab["tabId"] == "t1"
    assert tab["title"] == "The shop"
    assert len(tab["targetId"]) == 32


def test_the_overview_shows_an_agent_over_http_with_its_app(
    caller: HttpAgent, onlooker: Onlooker
) -> None:
    pid = caller.call("status")["structuredContent"]["pid"]
    started = caller.call("startSession", command=SHOP_COMMAND)["structuredContent"]
    agent = onlooker.agent(pid)
    assert agent["client"] == "tester 1"
    assert [app["sessionId"] for app in agent["apps"]] == [started["sessionId"]]
    with onlooker.watch(agent["id"]) as watch:
        caller.call("navigate", url="/second.html")
        row = watch.until(lambda row: row["lane"] == "steps")
        assert row["app"] == started["sessionId"]
    assert caller.session not in str(watch.rows), "whoever has the id has the session"


def test_whoever_has_just_come_is_shown_an_agent_that_is_live(
    driver: Relayed, onlooker: Onlooker
) -> None:
    live = {onlooker.agent(driver.pid)["id"]}
    live |= {id for id, agent in onlooker.agents().items() if agent["state"] == "live"}
    with onlooker.watch("*") as watch:
        assert watch.next("agent")["agent"] in live


def test_rows_come_live_in_all_lanes(driver: Relayed, onlooker: Onlooker) -> None:
    agent = onlooker.agent(driver.pid)["id"]
    with onlooker.watch(agent) as watch:
        watch.next("rows")
        known = {row["id"] for row in watch.rows}
        script = "console.error('it broke'); fetch('/api/broken?x=1').then(a => a.text())"
        driver.call("evaluate", script=script)

        def new(fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            return watch.until(lambda row: row["id"] not in known and fits(row))

        said = new(lambda row: "it broke" in row["text"])
        answered = new(lambda row: row.get("status") == 500)
        ended = new(lambda row: row.get("phase") == "end" and row["req"] == answered["req"])
        step = new(lambda row: row["lane"] == "steps")
        line = new(lambda row: row["lane"] == "server" and "OutOfStock" in row["text"])
    assert (said["lane"], said["level"]) == ("console", "error")
    assert said["key"].startswith("console:")
    assert (answered["lane"], answered["phase"], answered["level"]) == (
        "network", "response", "error",
    )  # fmt: skip
    assert answered["key"] == f"request:{answered['req']}"
    assert answered["took"] >= 0  # by when it was heard of: a busy browser may tell both at once
    assert answered["url"].endswith("/api/broken?x=1")
    assert ended["took"] >= answered["took"]
    assert step["step"] == int(step["key"].rpartition("/")[2].removeprefix("step:"))
    assert {one["app"] for one in (said, answered, step, line)} == {driver.app}
    ids = [row["id"] for row in watch.rows]
    assert len(ids) == len(set(ids))
    # A step is told when it has ended, and stands where it began.
    times = [row["at"] for row in watch.batches[0]["rows"] if row["lane"] != "steps"]
    assert times == sorted(times)


def test_a_page_that_comes_again_reads_on_where_it_was(driver: Relayed, onlooker: Onlooker) -> None:
    agent = onlooker.agent(driver.pid)["id"]
    with onlooker.watch(agent) as watch:
        driver.call("evaluate", script="console.log('before')")
        watch.until(lambda row: "before" in row["text"])
    driver.call("evaluate", script="console.log('meanwhile')")
    with onlooker.watch(agent, watch.cursor) as again:
        again.until(lambda row: "meanwhile" in row["text"])
    assert {row["id"] for row in again.rows} & {row["id"] for row in watch.rows} == set()
    assert again.batches[0]["missed"] == {}


def test_one_row_has_all_its_facts_masked_and_what_belongs_to_it(
    driver: Relayed, onlooker: Onlooker
) -> None:
    agent = onlooker.agent(driver.pid)["id"]
    headers = "{headers: {Authorization: 'Bearer hush-hush-hush-1'}}"
    with onlooker.watch(agent) as watch:
        driver.call("evaluate", script=f"fetch('/api/missing?n=1', {headers}).then(a => a.text())")
        row = watch.until(lambda row: row.get("status") == 404 and "n=1" in row["url"])
        watch.until(lambda one: one.get("req") == row["req"] and one.get("phase") == "end")
    told = onlooker.json("moment", agent=agent, id=row["id"])
    assert told["row"] == row
    assert told["facts"]["status"] == 404
    assert told["facts"]["headers"]["Content-Type"] == "application/json"
    assert f"request:{row['req']}" in told["keys"]
    related = {one.get("phase") or one["lane"]: one for one in told["related"]}
    assert {"request", "end", "console"} <= set(related)
    guessed = {one["lane"] for one in told["related"] if one.get("guess")}
    assert guessed == {"steps", "server"}
    sent = related["request"]
    whole = onlooker.get("moment", agent=agent, id=sent["id"]).text
    assert "Authorization" in whole
    assert "hush-hush" not in whole
    body = onlooker.json("body", agent=agent, req=row["req"])
    assert body["mimeType"] == "application/json"
    assert body["length"] == len(body["text"])
    assert (body["base64"], body["cut"]) == (False, False)


def test_an_error_in_the_console_leads_to_the_step_before_it_as_a_guess(
    driver: Relayed, onlooker: Onlooker
) -> None:
    agent = onlooker.agent(driver.pid)["id"]
    with onlooker.watch(agent) as watch:
        watch.next("rows")
        known = {row["id"] for row in watch.rows}
        driver.call("evaluate", script="fetch('/api/broken').then(() => console.error('alas'))")
        said = watch.until(lambda row: row["text"].endswith("alas"))
        begun = watch.until(lambda row: row["lane"] == "steps" and row["id"] not in known)
    # Browser and worker have clocks of their own.
    assert begun["at"] <= said["at"] + 200
    told = onlooker.json("moment", agent=agent, id=said["id"])
    joined = {one["lane"]: one for one in told["related"]}
    assert "/api/broken" in joined["network"]["url"]
    assert joined["network"]["guess"] is True
    assert "failed" in joined["network"]["why"]
    assert "OutOfStock" in str([one["text"] for one in told["related"]])


def test_an_app_that_does_not_answer_well_is_shown_as_its_agent_last_found_it(
    hub: Server, home: str, onlooker: Onlooker
) -> None:
    script = (
        "import http.server as h, os\n"
        "class One(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(503 if os.path.exists('sick') else 200)\n"
        "        self.end_headers()\n"
        "h.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), One).serve_forever()\n"
    )
    folder = Path(home) / "sickly"
    folder.mkdir()
    with Relayed(home, PILOTHOUSE_ROOTS=str(folder)) as agent:
        agent.call("startSession", command=[sys.executable, "-c", script], cwd=str(folder))
        (app,) = onlooker.agent(agent.pid)["apps"]
        assert app["state"] == "running"
        (folder / "sick").touch()
        assert agent.call("getSessionStatus")["status"] == "unhealthy"
        wait_until(lambda: onlooker.agent(agent.pid)["apps"][0]["state"] == "unhealthy")
        (folder / "sick").unlink()
        agent.call("getSessionStatus")
        wait_until(lambda: onlooker.agent(agent.pid)["apps"][0]["state"] == "running")
        agent.leave()


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("moment", {"id": "step:99999"}),
        ("moment", {"id": "nowhere:0"}),
        ("moment", {"id": "step:-1"}),
        ("moment", {"id": "step:" + "9" * 50}),
        ("moment", {"id": "step"}),
        ("body", {"req": "no.such"}),
        ("viewport", {"app": "no-such"}),
        ("file", {"app": "no-such", "name": "dossier-1.html"}),
    ],
)
def test_what_an_agent_does_not_have_is_not_found(
    driver: Relayed, onlooker: Onlooker, path: str, query: dict[str, str]
) -> None:
    agent = onlooker.agent(driver.pid)["id"]
    error = onlooker.error(404, path, agent=agent, **query)
    assert error["code"] == "not_found"
    assert error["hint"]


def test_the_viewport_is_a_picture_unless_a_dialog_is_open(
    driver: Relayed, onlooker: Onlooker
) -> None:
    agent = onlooker.agent(driver.pid)["id"]
    where = {"agent": agent, "app": driver.app}
    shown = onlooker.get("viewport", **where)
    assert shown.status_code == 200
    assert shown.headers["content-type"] == "image/jpeg"
    assert shown.content.startswith(b"\xff\xd8\xff")
    assert onlooker.get("viewport", **where, tab="t1").status_code == 200
    assert onlooker.get("viewport", **where, tab="t99").status_code == 204
    driver.call("evaluate", script="setTimeout(() => confirm('really?'), 0)")
    wait_until(lambda: onlooker.get("viewport", **where).status_code == 204)
    driver.call("handleDialog", accept=True)
    assert onlooker.get("viewport", **where).status_code == 200


def test_the_dossier_of_a_failed_step_is_shown_and_nothing_else_of_its_folder(
    driver: Relayed, onlooker: Onlooker
) -> None:
    driver.fault("click", selector="#nowhere", timeout=100)
    agent = onlooker.agent(driver.pid)
    (app,) = wait_until(
        lambda: [one for one in onlooker.agent(driver.pid)["apps"] if one["dossiers"]]
    )
    dossier = app["dossiers"][0]
    assert dossier["title"] == "click #nowhere"
    assert dossier["at"] > 1e12
    where = {"agent": agent["id"], "app": driver.app}
    name = dossier["uri"].rpartition("/")[2]
    page = onlooker.get("file", **where, name=name)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox;")
    assert "script-src" not in policy
    assert "#nowhere" in page.text
    picture = onlooker.get("file", **where, name=f"failure-{dossier['step']}.unmasked.png")
    assert picture.headers["content-type"] == "image/png"
    assert picture.content.startswith(b"\x89PNG")
    for wrong in (
        "../" + name, f"../{driver.app}/{name}", f"/etc/{name}", "/etc/passwd", "..", "", ".",
        "stdout.log", "stderr.log", f"x/{name}", f"{name}\0", f"{name}/", "dossier-999.html",
        "dossier-1.html%00", "DOSSIER-1.HTML", "downloads", "dossier-\u0661.html",
    ):  # fmt: skip
        error = onlooker.error(404, "file", **where, name=wrong)
        assert error["code"] == "not_found", wrong
