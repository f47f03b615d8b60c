"""The failure dossier, over the wire: all evidence in one answer, the planted cause first."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.agent import Agent
from tests.support.chromium import Chromium
from tests.support.driving import GUARD_S, SHOP, Driver, whole_text
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

MOST_CHARACTERS = 16_000
MOST_TOKENS = 2_500
"""How much later than its timeout a failure may be told; 300 ms is the figure."""

SELLS_OUT = (
    "window.sale = new BroadcastChannel('sale'); sale.onmessage = () => {"
    " byId('later').textContent = 'Sold out'; sale.postMessage('done'); }; 0"
)
BUYS = (
    "new Promise(done => { const sale = new BroadcastChannel('sale');"
    " sale.onmessage = () => done(0); sale.postMessage('buy'); })"
)


@pytest.fixture
def faults(shop: Driver) -> Driver:
    """The page of planted faults; everything before has been told."""
    shop.visit("/faults.html")
    shop.fault("evaluate", script="nowhere()")
    return shop


@pytest.fixture(scope="module")
def breakable() -> Iterator[Driver]:
    """A server whose sessions may be broken, and which tells all in its log."""
    with Driver(env={"LOG_LEVEL": "debug"}) as running:
        yield running


@pytest.fixture
def lone(breakable: Driver) -> Iterator[Driver]:
    """The one session of that server, started for the test and ended after it."""
    breakable.start()
    yield breakable
    breakable.ask("endSession", sessionId=breakable.session_id)


def until_title(shop: Agent, title: str) -> None:
    """Wait for a sign of the page, without a step that would tell of it."""
    wait_until(lambda: shop.call("tabs")["tabs"][0]["title"] == title)


def fails(shop: Driver, selector: str = "#nothing", **arguments: Any) -> dict[str, Any]:
    return shop.fault("click", **{"selector": selector, "timeout": 300, **arguments})


def logs(shop: Driver, selector: str = "#nothing", **arguments: Any) -> dict[str, Any]:
    """What a failed step tells of the server's log."""
    asked = {"selector": selector, "timeout": 300, **arguments}
    told: dict[str, Any] = shop.failure("click", **asked)["serverLogs"]
    return told


def fails_and_is_seen(shop: Driver, selector: str = "#nothing", **arguments: Any) -> dict[str, Any]:
    """The same until the page gave its picture and its snapshot in time, which are not waited for
    on a busy machine."""

    def seen() -> dict[str, Any] | None:
        error = fails(shop, selector, **arguments)
        return None if "missing" in error else error

    found: dict[str, Any] = wait_until(seen)
    return found


# One answer


def test_one_answer_holds_the_whole_story(faults: Driver) -> None:
    faults.call("click", selector="#broken")
    until_title(faults, "answered 500")
    faults.call("click", selector="#throw")
    failed = faults.failure("click", selector="#nothing", timeout=500)
    error = failed["error"]

    assert error["type"] == "element_not_found"
    assert error["message"] == 'Element not found: "#nothing" (500 ms)'
    assert error["suggestion"]
    assert error["context"]["tool"] == "click"
    assert error["context"]["args"] == {"selector": "#nothing", "timeout": 500}
    assert error["context"]["timestamp"] == error["timestamp"]

    (thrown,) = error["console"]
    assert thrown["level"] == "error"
    assert "Cannot read properties of undefined" in thrown["text"]
    assert thrown["at"][0].startswith(f"place ({faults.url}/faults.html:")

    (request,) = error["requests"]
    assert request["request"] == "POST /api/broken?item=17 → 500"
    assert request["sent"] == "coupon=SUMMER"
    assert "the stock service said no" in request["body"]

    assert "OutOfStock: lamp 17 is out of stock" in failed["serverLogs"]["stderr"]
    assert failed["serverLogs"]["capturedAt"]

    timeline = "\n".join(error["timeline"])
    for moment in ("click #broken ok", "500 from ", "OutOfStock", "click #nothing failed"):
        assert moment in timeline
    assert any("cdp_get_response_body" in call for call in error["next"])
    assert any("snapshot" in call for call in error["next"])


def test_the_next_calls_are_of_tools_that_this_agent_has() -> None:
    with Agent("--tools", "e2e", "--profile", "full") as alone:
        alone.call("startSession", command=[sys.executable, str(SHOP / "server.py")])
        alone.call("navigate", url="/faults.html")
        alone.call("click", selector="#broken")
        until_title(alone, "answered 500")
        error = alone.fault("click", selector="#nothing", timeout=300)
        assert error["requests"]
        assert [call.split("(")[0].split(",")[0] for call in error["next"]] == [
            "snapshot",
            "readServerLogs",
        ]
        alone.call("endSession")


def test_a_page_that_a_script_keeps_busy_is_not_said_to_lack_the_element(lone: Driver) -> None:
    lone.visit("/faults.html")
    lone.call("evaluate", script="void setTimeout(() => { for (;;); })")
    error = fails(lone, "#broken")
    assert error["type"] == "timeout"
    assert "the page answers nothing" in error["message"]
    assert "keep it busy" in error["causes"][0]
    assert not any("nothing matches" in cause for cause in error["causes"])
    assert lone.fault("pressKey", key="Enter", timeout=500)["type"] == "timeout"
    (stuck,) = lone.call("tabs")["tabs"]
    assert stuck["title"] == "Faults"
    opened = lone.call("tabs", action="new", url="/faults.html")["tabs"][1]
    lone.call("tabs", action="close", tabId=stuck["id"])
    assert lone.call("click", selector="#broken")["url"] == opened["url"]


def test_a_tab_that_waits_for_its_server_is_not_said_to_be_kept_busy(lone: Driver) -> None:
    never = "/api/slow?ms=600000"
    lone.visit("/faults.html")
    error = lone.fault("navigate", url=never, timeout=500)
    assert error["type"] == "timeout"
    assert f"{never}, which the server has not answered" in error["message"]
    assert error["causes"][0].startswith(f"the server has not answered GET {never} yet")
    assert "readServerLogs(logType: stderr)" in error["next"]
    assert "has not answered" in lone.fault("snapshot", timeout=500)["message"]
    lone.visit("/faults.html")
    # An address that a timer sets is no part of the step that set the timer.
    lone.call("evaluate", script=f"void setTimeout(() => {{ location = {never!r} }})")
    error = fails(lone, "#broken")
    assert error["type"] == "timeout"
    assert error["causes"][0].startswith(f"the server has not answered GET {never} yet")
    assert not any("busy" in cause for cause in error["causes"])
    lone.visit("/faults.html")
    assert fails(lone)["type"] == "element_not_found"


def test_a_script_whose_page_is_left_is_not_said_to_have_thrown(shop: Driver) -> None:
    shop.visit("/faults.html")
    error = shop.fault("evaluate", script="location = '/second.html'; new Promise(() => {})")
    assert error["type"] == "script_error"
    assert "another page was loaded meanwhile" in error["message"]
    assert "waitFor" in error["suggestion"]
    assert not any("threw" in cause for cause in error["causes"])


def test_a_drag_names_the_one_of_its_two_elements_that_is_not_there(shop: Driver) -> None:
    shop.visit("/")
    for ends in ({"from": "h1", "to": "#nowhere"}, {"from": "#nowhere", "to": "h1"}):
        error = shop.fault("drag", **ends, timeout=500)
        assert (error["type"], error["selector"]) == ("element_not_found", "#nowhere")


@pytest.mark.parametrize(
    ("tool", "arguments", "way"),
    [
        ("evaluate", {"script": "return 5"}, "write it as a function"),
        ("pressKey", {"key": "Retrun"}, "use a name of KeyboardEvent.key"),
    ],
)
def test_the_way_out_fits_the_mistake(
    shop: Driver, tool: str, arguments: dict[str, str], way: str
) -> None:
    shop.visit("/")
    assert shop.fault(tool, **arguments)["suggestion"].startswith(way)


def test_a_download_in_place_of_a_page_is_said_to_be_one(shop: Driver) -> None:
    shop.visit("/")
    error = shop.fault("navigate", url="/report.csv")
    assert (error["type"], error["reason"]) == ("navigation_failed", "it is a download, not a page")
    assert "getSessionStatus" in error["suggestion"]
    names = [saved["name"] for saved in shop.call("getSessionStatus")["downloads"]]
    assert "report.csv" in names


def test_a_failure_is_told_soon_after_its_timeout(faults: Driver) -> None:
    """How soon is a row in bench/; without the argument it would be half a minute."""
    began = time.monotonic()
    fails(faults, timeout=500)
    assert time.monotonic() - began < GUARD_S


def test_a_dossier_tells_what_changed_since_the_last_good_step(lone: Driver) -> None:
    tab = lone.call("tabs")["tabs"][0]["id"]
    other = lone.call("tabs", action="new", url="/second.html")["tabs"][-1]["id"]

    def remembered() -> int:
        """How often the state to compare with was taken, which is while the agent thinks."""
        lines = [json.loads(line) for line in lone.log().splitlines() if line[:1] == "{"]
        noted = [line["details"] for line in lines if line["event"] == "state_remembered"]
        return sum(details["tab"] == tab for details in noted)

    def do_and_think(tool: str, **arguments: Any) -> None:
        before = remembered()
        lone.call(tool, **arguments, tabId=tab)
        wait_until(lambda: remembered() > before)

    do_and_think("navigate", url="/obstacles.html")
    do_and_think("evaluate", script=SELLS_OUT)
    lone.call("evaluate", script=BUYS, tabId=other)
    error = fails_and_is_seen(lone, tabId=tab)
    changed = [line.strip("+- ") for line in error["snapshotDiff"]]
    assert 'button "Buy"' in changed
    assert 'button "Sold out"' in changed
    assert [line[0] for line in error["snapshotDiff"]] == ["-", "+"]


# Causes


def test_a_500_with_a_traceback_is_the_first_cause(faults: Driver) -> None:
    faults.call("click", selector="#broken")
    until_title(faults, "answered 500")
    cause = fails(faults)["causes"][0]
    assert cause.startswith("POST /api/broken?item=17 answered 500")
    assert "OutOfStock: lamp 17 is out of stock" in cause


def test_an_exception_of_the_page_is_the_first_cause(faults: Driver) -> None:
    faults.call("click", selector="#throw")
    cause = fails(faults)["causes"][0]
    assert cause.startswith("the page threw TypeError: Cannot read properties of undefined")
    assert "faults.html:" in cause


def test_an_exception_is_led_back_to_its_source(faults: Driver) -> None:
    faults.call("click", selector="#mapped")
    error = fails(faults)
    assert error["causes"][0].endswith("/src/pay.ts:7")
    assert "/src/pay.ts:7:" in error["console"][0]["at"][0]


def test_an_element_of_a_similar_name_is_the_first_cause(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    shop.fault("evaluate", script="nowhere()")
    cause = fails_and_is_seen(shop, "#chekout-button")["causes"][0]
    assert cause.startswith('nothing matches the selector; the page has button "Checkout" [ref=')


def test_what_the_page_was_refused_is_a_cause_until_there_is_another_page(shop: Driver) -> None:
    shop.visit("/obstacles.html")
    shop.call("evaluate", script="fetch('http://169.254.169.254/').catch(e => e.name)")
    assert "the URL policy refused http://169.254.169.254/" in str(fails(shop)["causes"])
    shop.visit("/obstacles.html")
    assert "URL policy" not in str(fails(shop)["causes"])


def test_a_server_that_has_exited_is_the_first_cause_and_told_with_its_log(
    faults: Driver,
) -> None:
    done = faults.call("click", selector="#exit", settle=300)
    wait_until(lambda: faults.call("getSessionStatus")["status"] == "stopped")
    failed = faults.failure("click", selector="#nothing", timeout=300)
    error = failed["error"]
    try:
        assert error["causes"][0].startswith("the dev server has exited (code 3)")
        assert error["server"] == {"type": "server_exited", "exitCode": 3}
        assert "fatal: the shop closes" in failed["serverLogs"]["stderr"]
        assert "fix the code, then restartServer" in error["next"]
        (notice,) = done.get("notices") or error["notices"]
        assert (notice["type"], notice["exitCode"]) == ("server_exited", 3)
        assert notice["log"][-1] == "fatal: the shop closes"
        assert faults.fault("navigate", url="/")["type"] == "navigation_failed"
    finally:
        faults.call("restartServer")
    assert faults.visit("/")["status"] == 200


def test_a_slow_request_is_told_with_the_time_it_took(faults: Driver) -> None:
    faults.call("click", selector="#slow")
    until_title(faults, "slow is over")
    (request,) = fails(faults)["requests"]
    assert request["request"].startswith("GET /api/slow?ms=1200 → 200 in 1")


# Once


def test_what_one_dossier_has_shown_the_next_does_not_repeat(faults: Driver) -> None:
    faults.call("click", selector="#broken")
    until_title(faults, "answered 500")
    faults.call("click", selector="#throw")
    first = fails(faults)
    assert {"console", "requests"} <= first.keys()
    second = fails(faults, "#flod")
    assert not {"console", "requests"} & second.keys()
    assert second["causes"][0].startswith("nothing matches the selector; the page has button")
    faults.call("click", selector="#throw")
    assert len(fails(faults)["console"]) == 1


def test_a_dossier_knows_nothing_of_the_servers_of_another_session(shop: Driver) -> None:
    first, url = shop.session_id, shop.url
    other = shop.start()["sessionId"]
    try:
        shop.call("navigate", url="/faults.html", sessionId=other)
        shop.call("navigate", url="/api/broken?of=the-other", sessionId=other)
        shop.call("navigate", url="/second.html", sessionId=first)
        error = fails(shop, sessionId=first)
        wait_until(lambda: "?of=the-other" in logs(shop, sessionId=other)["stderr"])
        assert "?of=the-other" not in logs(shop, sessionId=first)["stderr"]
        assert not any("OutOfStock" in cause for cause in error["causes"])
    finally:
        shop.call("endSession", sessionId=other)
        shop.session_id, shop.url = first, url


# Size


def test_a_dossier_stays_small_on_a_page_that_floods(faults: Driver) -> None:
    faults.call("click", selector="#flood", timeout=60_000)
    until_title(faults, "flooded")
    faults.call("click", selector="#large")
    until_title(faults, "large is over")
    faults.call("click", selector="#grow")
    result = faults.ask("click", selector="text=" + "long " * 800, timeout=300)
    error = result["structuredContent"]["error"]
    assert error["type"] == "element_not_found"
    assert len(whole_text(result)) < MOST_CHARACTERS
    assert len(result["content"][0]["text"]) / 4 < MOST_TOKENS
    assert error["causes"][0].startswith("GET /api/large?n=")
    assert "too large to show" in error["requests"][0]["body"]
    assert error["console"][0]["text"].startswith("flood line 9999")


# Partial evidence


def test_a_page_that_hangs_still_gets_its_error(lone: Driver) -> None:
    lone.call("tabs", action="new", url="/faults.html")
    lone.call("evaluate", script="setTimeout(() => { for (;;); }); null")
    error = fails(lone, "h1", timeout=500)
    assert error["type"] in ("timeout", "element_not_found")
    assert any("in time" in missing for missing in error["missing"])
    assert error["timeline"]
    assert Path(error["dossier"]["path"]).exists()
    assert lone.call("navigate", url="/", tabId="t1")["status"] == 200


def test_a_tab_that_crashes_is_told_and_the_session_goes_on(lone: Driver) -> None:
    lone.visit("/faults.html")
    waiting = lone.begin("waitFor", text="never", timeout=GUARD_S * 1_000)
    wait_until(lambda: lone.processes("renderer"))
    for renderer in lone.processes("renderer"):
        renderer.kill()
    error = lone.answer(waiting)["result"]["structuredContent"]["error"]
    assert error["type"] == "action_failed"
    assert "t1 crashed" in error["message"]
    assert error["missing"]
    assert Path(error["dossier"]["path"]).exists()
    assert "tabs" in error["suggestion"]
    assert fails(lone, "h1")["type"] == "action_failed"
    lone.call("tabs", action="new", url="/second.html")
    assert lone.text("h1") == "The second page"


def test_a_browser_that_ends_is_browser_crashed_in_every_call(lone: Driver) -> None:
    lone.visit("/")
    waiting = lone.begin("waitFor", text="never", timeout=GUARD_S * 1_000)
    (browser,) = lone.processes()
    browser.kill()
    errors = [lone.answer(waiting)["result"]["structuredContent"]["error"]]
    errors += [lone.fault("click", selector="h1", sessionId=lone.session_id) for _ in range(3)]
    for error in errors:
        assert error["type"] == "browser_crashed"
        assert error["sessionId"] == lone.session_id
        assert "start a new session" in error["recovery"]
    lone.start()
    assert lone.visit("/")["status"] == 200


# The page for people


def test_the_html_dossier_opens_without_a_request_or_a_script(faults: Driver) -> None:
    selector = "text=<img src=x onerror=document.title='caught'>"
    error = fails_and_is_seen(faults, selector)
    path = Path(error["dossier"]["path"])
    assert faults.resource(error["dossier"]["uri"]) == path.read_bytes()
    with Chromium() as chromium:
        target = chromium.open("about:blank")
        with chromium.debugger(target) as page:
            page.send("Network.enable")
            page.send("Page.enable")
            page.send("Page.navigate", url=path.as_uri())
            page.wait_for_event("Page.loadEventFired")
            text = page.evaluate("document.body.innerText")
            images = page.evaluate("[...document.images].map(i => [i.src.slice(0, 15), i.width])")
            scripts = page.evaluate("document.scripts.length")
            title = page.evaluate("document.title")
        asked = [
            event["params"]["request"]["url"]
            for event in page.events
            if event["method"] == "Network.requestWillBeSent"
        ]
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert scripts == 0
    assert title.startswith("click ")
    assert [image[0] for image in images] == ["data:image/png;"]
    assert images[0][1] > 100
    assert error["message"] in text
    assert error["causes"][0] in text
    assert selector in text


# Secrets


def test_secrets_appear_nowhere(shop: Driver) -> None:
    marked, password, refused, listed = (
        f"{name}-of-a-secret-kind" for name in ("amber", "cobalt", "indigo", "violet")
    )
    answers: list[dict[str, Any]] = []

    def ask(tool: str, **arguments: Any) -> None:
        answers.append(shop.ask(tool, **arguments))

    shop.visit("/")
    ask("type", selector="#who", text=marked, secret=True)
    ask("type", selector="#nothing", text=marked, secret=True, timeout=200)
    ask("type", selector="#password", text=password)
    ask("evaluate", script="show(who.value); console.error('typed ' + who.value); who.value")
    ask("evaluate", script="() => { throw new Error(document.querySelector('#password').value) }")
    ask("snapshot")
    ask("getContent")
    ask("find", text="kind")
    ask("click", selector="#nothing", timeout=200)
    # A step that fails shows what it was asked for: also then it must know a password.
    ask("evaluate", script="document.querySelector('#password').disabled = true")
    ask("type", selector="#password", text=refused, timeout=200)
    field = shop.call("find", text="textbox Password")["matches"][0]
    ref = field.split("[ref=")[1].split("]")[0]
    fields = [{"selector": "#nothing", "value": "x"}, {"selector": ref, "value": listed}]
    ask("fillForm", fields=fields, timeout=200)
    ask("evaluate", script="document.querySelector('#password').disabled = false")
    # The shop logs what it gets; the password stands where a dossier cuts that line.
    ask("type", selector="#user", text="a" * 250)
    ask("click", selector="#enter")
    ask("waitFor", text="Welcome aaa")
    ask("click", selector="#nothing", timeout=200)
    ask("readServerLogs")
    target = shop.call("tabs")["tabs"][0]["targetId"]
    har = shop.resource(f"cdp://har/{target}").decode()

    assert sum(result["isError"] for result in answers) == 6
    assert "login with" in whole_text(answers[-1])
    written = {
        path.name: path.read_bytes().decode("utf-8", "replace")
        for path in (shop.home / "sessions" / shop.session_id).iterdir()
        if path.suffix in (".html", ".json")
    }
    assert len(written) >= 5
    assert "/api/login" in har
    places = {
        **{f"answer {n}": whole_text(result) for n, result in enumerate(answers)},
        **written,
        "har": har,
        "log": shop.log(),
    }
    for secret in (marked, password, refused, listed):
        assert [name for name, text in places.items() if secret[:8] in text] == []


def test_a_failure_names_its_session_and_no_part_of_a_password(faults: Driver) -> None:
    faults.visit("/")
    faults.call(
        "evaluate",
        script="document.body.insertAdjacentHTML('beforeend',"
        "'<input id=who><input id=word type=password disabled>')",
    )
    fields = [
        {"selector": "#who", "value": "ada"},
        {"selector": "#word", "value": "correct-horse-battery"},
    ]
    error = faults.fault("fillForm", fields=fields, timeout=300)
    assert error["context"]["sessionId"] == faults.session_id
    assert "correct" not in json.dumps(error)
    assert '"selector": "#who"' in error["context"]["args"]["fields"]


def test_a_password_that_a_ref_names_is_learnt_before_anything_can_fail(shop: Driver) -> None:
    shop.visit("/")
    field = shop.call("find", text="textbox Password")["matches"][0]
    ref = field.split("[ref=")[1].split("]")[0]
    secret = "horse-battery-staple-by-ref"
    fields = [{"selector": "#nothing", "value": "x"}, {"selector": ref, "value": secret}]
    failed = shop.ask("fillForm", fields=fields, timeout=200)
    assert failed["isError"]
    assert secret[:8] not in whole_text(failed)
    assert secret not in whole_text(shop.ask("evaluate", script=f"'it was ' + '{secret}'"))
