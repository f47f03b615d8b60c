"""Rules for requests, over the MCP wire."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pilothouse.core.net.url_policy import Policy
from pilothouse.e2e.browser.routes import BrowserRoutes, Edit, RouteRule
from tests.integration.e2e.browser_rig import open_world
from tests.integration.e2e.little_shop import canary, start
from tests.support.driving import Driver

pytestmark = pytest.mark.browser


def buy(driver: Driver) -> str:
    """What the page makes of the answer to the request that the button sends."""
    count = driver.value("document.querySelectorAll('li').length")
    driver.call("click", selector="#buy")
    driver.call("waitForSelector", selector=f"li >> nth={count}")
    return driver.text(f"li >> nth={count}")


def fetched(driver: Driver, url: str, options: str = "{}") -> Any:
    """Status and text of what the page's own `fetch` gets, or the name of its error."""
    return driver.value(
        f"fetch({json.dumps(url)}, {options}).then(async r => [r.status, await r.text()])"
        ".catch(e => e.name)"
    )


@pytest.mark.parametrize("headers", [{"X-A": "one\r\ntwo"}, {"no name": "x"}, {"": "x"}])
@pytest.mark.parametrize("kind", ["respond", "edit"])
def test_a_header_that_no_browser_takes_is_refused(
    app: Driver, kind: str, headers: dict[str, str]
) -> None:
    error = app.fault("route", url="/api/cart", **{kind: {"headers": headers}})
    assert (error["type"], error["field"]) == ("invalid_input", f"{kind}.headers")
    assert not app.call("route", action="list")["rules"]


def test_a_mocked_answer_reaches_the_page_and_the_observer(app: Driver) -> None:
    added = app.call("route", url="/api/cart", respond={"status": 418, "body": '{"mocked": 1}'})
    assert buy(app) == '418 {"mocked": 1}'
    (rule,) = app.call("route", action="list")["rules"]
    assert (rule["id"], rule["hits"], rule["matched"]) == (added["added"], 1, 1)
    target = app.call("tabs")["tabs"][0]["targetId"]
    kinds = ["request", "response", "loadingFinished"]
    events = app.call("cdp_read_events", targetId=target, kinds=kinds, limit=200)["events"]
    sent = [e for e in events if e["kind"] == "request" and "/api/cart" in e["url"]][-1]
    seen = [e for e in events if e["requestId"] == sent["requestId"]]
    assert [e["kind"] for e in seen] == kinds
    assert seen[1]["status"] == 418


def test_headers_and_content_type_of_a_mocked_answer_are_kept(app: Driver) -> None:
    reply = {"body": "<b>", "contentType": "text/html", "headers": {"X-Seen": "yes"}}
    app.call("route", url="**/anything", respond=reply)
    script = "fetch('/anything').then(r => ['content-type', 'x-seen'].map(n => r.headers.get(n)))"
    assert app.value(script) == ["text/html", "yes"]


def test_a_blocked_request_fails_as_often_as_asked(app: Driver) -> None:
    app.call("route", url="/api/*", block="connectionrefused", times=2)
    outcomes = [buy(app) for _ in range(3)]
    assert outcomes[:2] == ["TypeError: Failed to fetch"] * 2
    assert outcomes[2].startswith("200")


def test_only_the_nth_request_fails_and_its_failure_is_told(app: Driver) -> None:
    app.call("route", url="/api/cart", failNth=2)
    app.call("route", url="/api/cart", failNth=3, respond={"status": 503, "body": "busy"})
    outcomes = [buy(app) for _ in range(4)]
    assert [outcome.split(" ")[0] for outcome in outcomes] == ["200", "TypeError:", "503", "200"]
    failed = app.call("route", action="list")["rules"]
    assert [(rule["matched"], rule["hits"]) for rule in failed] == [(4, 1), (3, 1)]


def test_a_delayed_request_takes_its_time_and_is_then_answered_by_the_server(app: Driver) -> None:
    app.call("route", url="/api/cart", method="post", delayMs=400)
    began = time.monotonic()
    assert fetched(app, "/api/cart", "{method: 'POST'}")[0] == 200
    assert time.monotonic() - began >= 0.4


def test_an_edited_answer_is_the_servers_own_but_for_the_edit(app: Driver) -> None:
    edit = {
        "status": 201,
        "headers": {"X-Edited": "1"},
        "bodyReplace": [{"from": "true", "to": "false"}],
        "jsonSet": {"cart.items.0.price": 99, "cart.note": "ü"},
    }
    app.call("route", url="/api/cart", edit=edit)
    status, text = buy(app).split(" ", 1)
    assert status == "201"
    expected = {"cart": {"items": [{"price": 99}], "note": "ü"}, "real": False}
    assert json.loads(text) == expected


def test_an_edit_follows_redirects_within_the_app(app: Driver) -> None:
    app.call("route", url="/go", edit={"jsonSet": {"real": "edited"}})
    status, text = fetched(app, "/go?to=/api/cart")
    assert (status, json.loads(text)["real"]) == (200, "edited")


def test_an_edit_that_does_not_fit_leaves_the_answer_and_says_so(app: Driver) -> None:
    app.call("route", url="/order", edit={"jsonSet": {"a": 1}})
    assert "<h1>/order/1</h1>" in fetched(app, "/order/1")[1]
    said = app.call("click", selector="h1").get("browser", [])
    # The answer of the script may have told it already.
    assert all("left as it was" in line for line in said)


def test_rules_hold_for_every_tab_and_the_newest_wins(app: Driver) -> None:
    app.call("route", url="/order", respond={"body": "<h1>old</h1>", "contentType": "text/html"})
    newer = app.call("route", url="/order/2", respond={"body": "new", "contentType": "text/html"})
    app.call("tabs", action="new", url="/order/2")
    assert app.text("body") == "new"
    app.call("route", action="remove", id=newer["added"])
    app.visit("/order/2")
    assert app.text("body") == "old"
    app.call("route", action="remove")
    app.visit("/order/2")
    assert app.text("h1") == "/order/2"
    app.tidy()


def test_a_har_file_answers_for_a_server_that_had_another_port(app: Driver) -> None:
    reply = {"status": 200, "headers": [], "content": {"text": "canned", "mimeType": "text/plain"}}
    request = {"method": "GET", "url": "http://127.0.0.1:1/api/cart?size=S"}
    har = {"log": {"entries": [{"request": request, "response": reply}]}}
    file = app.files / "shop.har"
    file.write_text(json.dumps(har))
    app.call("route", har=str(file))
    assert fetched(app, "/api/cart?size=S") == [200, "canned"]
    assert json.loads(fetched(app, "/api/cart?size=L")[1])["real"] is True
    (rule,) = app.call("route", action="list")["rules"]
    assert rule["hits"] == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"url": "/x"}, "respond"),
        ({"respond": {}}, "url"),
        ({"url": "/x", "respond": {}, "block": "failed"}, "block"),
        ({"url": "/x", "edit": {}, "failNth": 2}, "failNth"),
        ({"url": "*" + "a*" * 240, "block": "failed"}, "url"),
        ({"action": "remove", "id": "r99"}, "id"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(
    app: Driver, arguments: dict[str, Any], field: str
) -> None:
    fault = app.fault("route", **arguments)
    assert (fault["type"], fault["field"]) == ("invalid_input", field)
    assert app.call("route", action="list")["rules"] == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "no-such.har"])
def test_a_har_file_outside_of_the_sessions_folders_is_refused(app: Driver, path: str) -> None:
    assert app.fault("route", har=path)["type"] == "file_not_allowed"
    # A path may be meant from another folder than the one that it is taken from.
    message = app.fault("route", har="no/such.har")["message"]
    assert message == f"there is no file {Path.cwd() / 'no/such.har'}"


def test_a_file_that_is_no_har_is_refused(app: Driver) -> None:
    (app.files / "bad.har").write_text('{"log": {}}')
    fault = app.fault("route", har=str(app.files / "bad.har"))
    assert (fault["type"], fault["field"]) == ("invalid_input", "har")


def test_an_edit_rule_leads_to_no_address_that_the_browser_may_not_visit() -> None:
    edit = {"status": 200, "headers": {"Access-Control-Allow-Origin": "*"}}
    with canary() as (port, seen):
        address = f"http://127.0.0.1:{port}/"
        with Driver(env={"ALLOWED_HOSTS": f"127.0.0.1:{port}"}) as driver:
            start(driver)
            driver.visit("/")
            driver.call("route", url="/", edit=edit)
            # An address that may be visited is reached: else what follows would prove nothing.
            assert fetched(driver, address) == [200, "canary"]
            assert seen == ["/"]
            seen.clear()
        with Driver(env={"ALLOWED_HOSTS": ""}) as driver:
            start(driver)
            driver.visit("/")
            driver.call("route", url="/", edit=edit)
            ways = [
                address,
                f"http://localhost:{port}/",
                f"http://2130706433:{port}/",
                f"http://[::ffff:127.0.0.1]:{port}/",
                f"/go?to={address}",
                f"/go?to=/go?to={address}",
            ]
            outcomes = [fetched(driver, way) for way in ways]
            driver.ask("navigate", url=f"/go?to={address}")
            frame = f"document.body.innerHTML = '<iframe src={address}></iframe>'"
            driver.visit("/")
            driver.ask("evaluate", script=frame)
            assert fetched(driver, "/api/cart")[0] == 200
        assert "canary" not in json.dumps(outcomes)
        assert seen == []


@pytest.mark.anyio
async def test_what_a_rule_fetches_goes_through_the_proxy_as_well() -> None:
    async with open_world() as world, world.context() as context:
        page = await context.new_page()
        notes: list[str] = []
        # A policy that lets everything pass stands for a check that was forgotten.
        everywhere = Policy(allowed_hosts=("127.0.0.1", "localhost"))
        routes = BrowserRoutes(
            context, lambda: everywhere, lambda what, _: notes.append(what), lambda _: True
        )
        await routes.add(RouteRule("r1", "127.0.0.1", edit=Edit(status=200)))
        world.clear(Policy(own_origins=world.own_origins, allowed_hosts=()))
        await page.goto(world.app())
        url = f"http://127.0.0.1:{world.canary_port}/"
        get = "url => fetch(url).then(r => r.text()).catch(e => e.name)"
        assert await page.evaluate(get, url) == "TypeError"
        assert world.canary.connections == 0
        assert notes == ["refused"]
        world.clear(Policy(own_origins=world.own_origins, allowed_hosts=("127.0.0.1",)))
        assert await page.evaluate(get, url) == "good"
        assert world.canary.connections == 1
