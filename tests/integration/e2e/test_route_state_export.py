"""Rules for requests, saved logins and what a session leaves behind, over the MCP wire."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.browser import find_browser, needs_no_sandbox
from pilothouse.core.urls import Policy
from pilothouse.e2e.routes import Edit, Routes, Rule
from tests.integration.e2e.browser_rig import open_world
from tests.support.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

GUARD_S = 60
PASSWORD = "correct-horse-battery"

APP = '''
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HOME = """<!doctype html><title>Shop</title><h1>Shop</h1><p id=who></p>
<form id=login><label>Name <input name=user></label>
<label>Password <input name=password type=password></label><button>Log in</button></form>
<label>Size <select id=size><option>S</option><option>L</option></select></label>
<label><input id=terms type=checkbox> Terms</label>
<button id=buy>Buy "it" now</button><button id=ask>Ask</button>
<a href="/order/17">my order</a> <a href="/popup" target=_blank>help</a><ul id=list></ul>
<script>
const byId = id => document.getElementById(id);
byId('who').textContent = (localStorage.user ?? 'nobody') + ';' + document.cookie;
byId('login').onsubmit = event => {
  event.preventDefault();
  const form = new FormData(event.target);
  localStorage.user = form.get('user');
  document.cookie = 'visits=' + form.get('password').length + '; max-age=9999';
  location = '/';
};
byId('buy').onclick = async () => {
  const item = document.createElement('li');
  try {
    const answer = await fetch('/api/cart?size=' + byId('size').value, {method: 'POST'});
    item.textContent = answer.status + ' ' + await answer.text();
  } catch (error) { item.textContent = String(error); }
  byId('list').append(item);
};
byId('ask').onclick = () => { document.title = prompt('Who?'); };
</script>"""


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        if address.path == "/go":
            self.answer(302, "", Location=query["to"][0])
        elif address.path == "/api/cart":
            body = json.dumps({"cart": {"items": [{"price": 5}]}, "real": True})
            self.answer(200, body, "application/json")
        elif address.path.startswith("/order/") or address.path == "/popup":
            self.answer(200, f"<title>Two</title><h1>{address.path}</h1><button>Close</button>")
        else:
            self.answer(200, HOME)

    do_POST = do_GET

    def answer(self, status, text, kind="text/html", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(text), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Answer).serve_forever()
'''

OPEN = """new Promise(done => {
  const opening = indexedDB.open('notes', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore('notes');
  opening.onsuccess = () => {
    const notes = opening.result.transaction('notes', 'readwrite').objectStore('notes');
    const asked = ASK;
    asked.onsuccess = () => { opening.result.close(); done(asked.result); };
  };
})"""
STORE = OPEN.replace("ASK", "notes.put('kept', 1)")
READ = OPEN.replace("ASK", "notes.get(1)")

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {{**browser_type_launch_args, "executable_path": {path!r}, "args": {args!r}}}
"""


def start(driver: Driver, **more: Any) -> dict[str, Any]:
    app = driver.files / "app.py"
    app.write_text(APP)
    return driver.start(command=[sys.executable, str(app)], **more)


@pytest.fixture(scope="module")
def running() -> Iterator[Driver]:
    with Driver() as driver:
        start(driver)
        yield driver


@pytest.fixture
def app(running: Driver) -> Iterator[Driver]:
    running.visit("/")
    yield running
    running.call("route", action="remove")


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


@contextmanager
def canary() -> Iterator[tuple[int, list[str]]]:
    """A server that nobody may reach: its port, and who did."""
    seen: list[str] = []

    class Count(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()
            self.wfile.write(b"canary")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Count)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server.server_port, seen
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


# Rules


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
        routes = Routes(
            context, lambda: everywhere, lambda what, _: notes.append(what), lambda _: True
        )
        await routes.add(Rule("r1", "127.0.0.1", edit=Edit(status=200)))
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


# Saved states


def log_in(driver: Driver) -> None:
    fields = [
        {"selector": "[name=user]", "value": "ada"},
        {"selector": "[name=password]", "value": PASSWORD},
    ]
    driver.call("fillForm", fields=fields, submit="text=Log in")
    driver.call("waitFor", text="ada;")


def test_a_saved_login_holds_in_this_session_and_in_the_next() -> None:
    with Driver() as driver:
        started = start(driver)
        driver.visit("/")
        log_in(driver)
        driver.value(STORE)
        saved = driver.call("saveState", name="ada")
        assert saved == {"name": "ada", "cookies": 1, "origins": 1, "message": ""}

        file = driver.home / "logins" / "ada.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert os.listdir(file.parent) == ["ada.json"]

        driver.value("localStorage.clear(); document.cookie = 'visits=; max-age=0'")
        driver.visit("/")
        assert driver.text("#who") == "nobody;"
        assert driver.call("loadState", name="ada")["cookies"] == 1
        driver.visit("/")
        assert driver.text("#who").startswith("ada;visits=")

        url, port = started["url"], started["port"]
        command = [sys.executable, str(driver.files / "app.py")]
        driver.call("endSession")
        again = driver.start(command=command, port=port, state="ada")
        assert again["url"] == url
        driver.visit("/")
        assert driver.text("#who").startswith("ada;visits=")
        assert driver.value(READ) == "kept"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a\x00", "ä", "a" * 65])
def test_a_name_that_is_none_is_refused(app: Driver, name: str) -> None:
    for tool in ("saveState", "loadState"):
        fault = app.fault(tool, name=name)
        assert (fault["type"], fault["field"]) == ("invalid_input", "name")
    if name:
        assert app.fault("startSession", state=name, url=app.url)["type"] == "invalid_input"


def test_a_state_that_was_never_saved_is_refused_before_anything_starts(app: Driver) -> None:
    assert "no saved state nobody" in app.fault("loadState", name="nobody")["message"]
    fault = app.fault("startSession", state="nobody", command=["true"])
    assert (fault["type"], fault["field"]) == ("invalid_input", "name")


def test_an_open_dialog_is_named_instead_of_hanging(app: Driver) -> None:
    app.call("click", selector="#ask")
    assert app.fault("saveState", name="x")["type"] == "dialog_open"
    app.call("handleDialog", accept=False)
    assert app.call("saveState", name="x")["name"] == "x"


# What is left of a session


def run_exported(driver: Driver, source: Path, folder: Path, **env: str) -> Any:
    """Run the written test with pytest-playwright, as its new owner would."""
    browser = find_browser(os.environ)
    assert browser is not None
    args = ["--no-sandbox"] if needs_no_sandbox() else []
    shutil.copy(source, folder / "test_session.py")
    (folder / "conftest.py").write_text(CONFTEST.format(path=str(browser.path), args=args))
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_session.py"],
        cwd=folder,
        # Chromium's sockets have short names only.
        env={**os.environ, "TMPDIR": "/tmp", **env},
        capture_output=True,
        text=True,
        timeout=GUARD_S * 2,
        check=False,
    )


def take_a_tour(driver: Driver) -> None:
    """A step of every kind that a test can repeat."""
    driver.visit("/")
    log_in(driver)
    tree = driver.call("snapshot")["snapshot"]
    ref = tree.split('button "Buy \\"it\\" now" [ref=')[1].split("]")[0]
    driver.call("fillForm", fields=[{"selector": "#size", "value": "L"}])
    driver.call("selectOption", selector="#size", values=["S"])
    driver.call("fillForm", fields=[{"selector": "#terms", "value": True}])
    driver.call("type", selector="[name=user]", text='O\'Neil "x" \\ ü\t')
    driver.call("pressKey", selector="[name=user]", key="End")
    driver.call("route", url="/api/cart", respond={"status": 202, "body": '{"n": "it\'s"}'})
    driver.call("click", selector=ref)
    driver.call("waitForSelector", selector="li")
    assert driver.fault("click", selector="#nothing", timeout=100)["type"] == "element_not_found"
    driver.call("click", selector="#ask")
    driver.call("handleDialog", accept=True, text="Bob")
    driver.until(lambda: driver.value("document.title") == "Bob")
    driver.call("click", selector="text=help")
    driver.until(lambda: len(driver.call("tabs")["tabs"]) == 2)
    driver.call("click", selector="text=Close", tabId="t2")
    driver.call("click", selector="text=my order")
    driver.call("waitFor", text="/order/17", url="/order/")
    driver.call("goBack")


def test_the_exported_test_runs_and_fails_where_the_app_is_another(tmp_path: Path) -> None:
    with Driver() as driver:
        start(driver)
        take_a_tour(driver)
        exported = driver.call("exportSession")
        (file,) = exported["files"]
        source = driver.resource(file["uri"]).decode()
        assert Path(file["path"]).read_text() == source
        assert file["bytes"] == len(source.encode())
        assert PASSWORD not in source
        assert exported["variables"] == ["E2E_PASSWORD"]
        assert exported["leftOut"] == []
        assert 'get_by_role("button", name="Buy \\"it\\" now").click()' in source
        # Known although the form had been sent a moment later.
        assert 'get_by_role("textbox", name="Password").fill(os.environ["E2E_PASSWORD"])' in source

        ran = run_exported(driver, Path(file["path"]), tmp_path, E2E_PASSWORD=PASSWORD)
        assert ran.returncode == 0, ran.stdout[-3000:] + source
        assert "1 passed" in ran.stdout

        with canary() as (port, seen):
            elsewhere = {"E2E_BASE_URL": f"http://127.0.0.1:{port}", "E2E_PASSWORD": "x"}
            # Without the app there is nothing to fill in; the test must not pass.
            broken = Path(file["path"]).read_text().replace(".fill(", ".fill(timeout=500, value=")
            Path(file["path"]).write_text(broken)
            ran = run_exported(driver, Path(file["path"]), tmp_path, **elsewhere)
            assert ran.returncode == 1, ran.stdout[-3000:]
            assert seen


def test_a_session_without_steps_cannot_be_made_a_test() -> None:
    with Driver() as driver:
        start(driver)
        assert driver.fault("exportSession")["type"] == "invalid_input"
        for kind in ("trace", "video"):
            fault = driver.fault("exportSession", **{"as": kind})
            assert (fault["type"], fault["field"]) == ("invalid_input", "as")
            assert f'record: ["{kind}"]' in fault["suggestion"]


def test_a_trace_is_whole_holds_no_secret_and_is_followed_by_the_next() -> None:
    with Driver() as driver:
        start(driver, record=["trace"])
        driver.visit("/")
        log_in(driver)
        (first,) = driver.call("exportSession", **{"as": "trace"})["files"]
        driver.call("click", selector="#buy")
        (second,) = driver.call("exportSession", **{"as": "trace"})["files"]
        assert len(driver.resource(first["uri"])) == first["bytes"]
        contents = [_texts(Path(file["path"])) for file in (first, second)]
        assert '"method": "fill"' in contents[0]
        assert "[redacted]" in contents[0]
        assert not any(PASSWORD in content for content in contents)
        assert '"method": "fill"' not in contents[1]
        assert '"method": "click"' in contents[1]
        assert [path.name for path in Path(first["path"]).parent.glob(".trace*")] == []
        for file in (first, second):
            assert stat.S_IMODE(Path(file["path"]).stat().st_mode) == 0o600


def _texts(path: Path) -> str:
    with zipfile.ZipFile(path) as trace:
        assert trace.testzip() is None
        return "\n".join(trace.read(name).decode("utf-8", "replace") for name in trace.namelist())


def test_a_video_is_complete_when_the_session_has_ended() -> None:
    with Driver(env=_browsers()) as driver:
        result = driver.ask("startSession", record=["video"], command=_command(driver))
        if result["isError"]:
            error = result["structuredContent"]["error"]
            assert error["type"] == "browser_launch_failed"
            assert "playwright install ffmpeg" in error["suggestion"]
            pytest.skip("recording a video needs Playwright's ffmpeg, which is not installed")
        driver.visit("/")
        driver.call("tabs", action="new", url="/order/1")
        driver.call("tabs", action="close", tabId="t2")
        files = driver.call("exportSession", **{"as": "video"})["files"]
        assert sorted(file["complete"] for file in files) == [False, True]
        driver.call("endSession")
        for file in files:
            assert Path(file["path"]).read_bytes()[:4] == b"\x1aE\xdf\xa3"  # a Matroska file
            assert Path(file["path"]).stat().st_size >= file["bytes"]


def _command(driver: Driver) -> list[str]:
    (driver.files / "app.py").write_text(APP)
    return [sys.executable, str(driver.files / "app.py")]


def _browsers() -> dict[str, str]:
    name = "PLAYWRIGHT_BROWSERS_PATH"
    return {name: os.environ[name]} if name in os.environ else {}
