"""What OAuth and forms send, and every place in which it could be shown: none shows it."""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.dashboard.conftest import Relayed
from tests.support.intercepting import token_of
from tests.support.spelled import spelled_in
from tests.support.until import wait_until
from tests.support.watching import Onlooker

if TYPE_CHECKING:
    from tests.support.servers import Server

pytestmark = pytest.mark.browser

SECRETS = {
    "code": "4-0AfJohXmAbCdE",
    "state": "af0ifjsldkjST4te",
    "verifier": "dBjftJeZ4CVPmB92",
    "refresh": "rt-8xLOxBtZp8",
    "password": "p4ss w/rd+9",
    "session": "s3ssion-c00kie-1",
    "bearer": "b3arer-0paque-77",
}
APP = '''
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote_plus

S = json.loads(os.environ["SHOWN"])
CALLBACK = f"/callback?code={S['code']}&state={S['state']}"
PAGE = """<!doctype html><title>In</title><h1>in</h1><p id=out></p><script>
// Backwards: a page's own variables are no secrets by their names.
const S = JSON.parse([...%s].reverse().join(''));
const send = (path, pairs, headers = {}) =>
  fetch(path, {method: 'POST', body: new URLSearchParams(pairs), headers});
async function all() {
  const grant = {grant_type: 'authorization_code', code: S.code, code_verifier: S.verifier};
  await send('/token', {...grant, redirect_uri: location.href, client_secret: S.refresh});
  await send('/token', {grant_type: 'refresh_token', refresh_token: S.refresh});
  await send('/token', {grant_type: 'password', username: 'ada', password: S.password});
  await fetch('/token', {method: 'POST', headers: {'Content-Type': 'text/plain'},
    body: 'user=ada&password=' + encodeURIComponent(S.password)});
  await fetch('/api/me', {headers: {Authorization: 'Bearer ' + S.bearer}});
  console.error('failed at ' + location.href);
  console.log('sent', 'grant_type=authorization_code&code=' + S.code + '&state=' + S.state);
  new WebSocket('ws://' + location.host + '/socket?code=' + S.code + '&state=' + S.state);
  history.pushState({}, '', '?code=' + S.code + '&state=' + S.state + '&again=1');
  document.getElementById('out').textContent = 'all done';
}
all();
</script>"""


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        print("out", self.command, self.path, body, flush=True)
        print("err", json.dumps({"path": self.path, "body": body}), file=sys.stderr, flush=True)
        path = self.path.partition("?")[0]
        if path == "/login":
            cookie = f"session={S['session']}; Path=/"
            self.answer(302, b"", Location=CALLBACK, **{"Set-Cookie": cookie})
        elif path == "/callback":
            self.answer(200, (PAGE % json.dumps(json.dumps(S)[::-1])).encode())
        elif path == "/token":
            self.answer(400, body.encode(), "application/x-www-form-urlencoded")
        elif path == "/socket":
            self.answer(500, b"no")
        else:
            self.answer(200, b'{"ok": true}', "application/json")

    do_POST = do_GET

    def answer(self, status, body, kind="text/html", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *args):
        print("log", form % args, file=sys.stderr, flush=True)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), App).serve_forever()
'''


class Shown:
    """Everything that was shown, by where."""

    def __init__(self) -> None:
        self.places: dict[str, bytes] = {}

    def keep(self, where: str, what: Any) -> Any:
        content = what if isinstance(what, bytes) else json.dumps(what, ensure_ascii=False).encode()
        self.places[where] = self.places.get(where, b"") + content
        return what

    def leaks(self) -> dict[str, list[str]]:
        return {
            where: found
            for where, content in self.places.items()
            if (found := [name for name, one in SECRETS.items() if spelled_in(content, one)])
        }


@pytest.fixture(scope="module")
def shown(hub: Server, home: str) -> Shown:
    """An app that sends all of them, asked by every tool and path that reads."""
    everything = Shown()
    with (
        tempfile.TemporaryDirectory(prefix="ph-") as files,
        Relayed(
            home, PILOTHOUSE_ROOTS=files, PACKET_PROXY_ACCESS_TOKEN=token_of(Path(home))
        ) as agent,
    ):
        file = Path(files) / "app.py"
        file.write_text(APP)
        started = agent.call(
            "startSession",
            command=[sys.executable, str(file)],
            env={"SHOWN": json.dumps(SECRETS)},
            intercept=True,
            record=["trace"],
        )
        agent.app = started["sessionId"]
        ask_tools(agent, started, everything)
        look_on(hub, home, agent, everything)
        agent.leave()
    return everything


def ask_tools(agent: Relayed, started: dict[str, Any], shown: Shown) -> None:
    """Ask all tools that read."""

    def ask(tool: str, *, fails: bool = False, **arguments: Any) -> Any:
        result = agent.ask(tool, **arguments)
        shown.keep(tool, {"content": result["content"], "told": result["structuredContent"]})
        assert result["isError"] == fails, result["content"]
        return result["structuredContent"]

    ask("navigate", url="/login")
    ask("waitFor", text="all done")
    target: Any = {"targetId": started["targetId"]}
    wait_until(lambda: "/api/me" in json.dumps(ask("cdp_read_events", **target, limit=1000)))
    for detail in (2_000, 30_000):
        ask("cdp_read_events", **target, limit=1000, maxTokens=detail)
    events = ask("cdp_read_events", **target, limit=1000)["events"]
    for request in {event["requestId"] for event in events if event.get("requestId")}:
        shown.keep(
            "cdp_get_response_body", agent.ask("cdp_get_response_body", requestId=request, **target)
        )
    ask("evaluate", script="location.href + ' ' + document.cookie")
    ask("cdp_list_targets", sessionId=started["sessionId"])
    for kind in ("events", "har"):
        shown.keep(f"cdp://{kind}", agent.resource(f"cdp://{kind}/{started['targetId']}"))
    failed = ask("click", selector="#nothing", timeout=300, fails=True)["error"]
    shown.keep("dossier", agent.resource(failed["dossier"]["uri"]))
    for stream in ("stdout", "stderr", "combined"):
        ask("readServerLogs", logType=stream)
    for tool in ("getSessionStatus", "tabs", "snapshot", "get_logs", "get_config", "timeline"):
        ask(tool)
    moments = ask("timeline", limit=500, maxTokens=50_000)["moments"]
    for moment in moments:
        ask("causes", of=moment["key"])
    for filter_ in ("full_text == session", "type == HTTP"):
        ask("get_history", limit=100, filter=filter_)
    packets = ask("get_history", limit=100)["packets"]
    ids = [packet["id"] for packet in packets]
    assert len(ids) > 10
    for packet in ids:
        ask("get_packet_detail", packet_id=packet, include_body=True)
        ask("export_curl", packet_id=packet)
    ask("export_har", packet_ids=ids)
    ask("diff_packets", a=ids[0], b=ids[2])
    for kind in ("test", "trace"):
        wanted: Any = {"as": kind}
        exported = ask("exportSession", **wanted)
        for one in exported["files"]:
            content = agent.resource(one["uri"])
            if kind == "trace":
                with zipfile.ZipFile(BytesIO(content)) as trace:
                    content = b"".join(map(trace.read, trace.namelist()))
            shown.keep(f"exported {kind}", content)


def look_on(hub: Server, home: str, agent: Relayed, shown: Shown) -> None:
    """Ask all paths of the dashboard, as a page does that a person has opened."""
    page = Onlooker(hub.url, **{"X-Intercept-Token": token_of(Path(home))})
    name = page.agent(agent.pid)["id"]
    shown.keep("/api/overview", page.json("overview"))
    with page.watch(name) as watch:
        watch.until(lambda row: row["lane"] == "packets")
        watch.until(lambda row: row["lane"] == "steps" and "#nothing" in json.dumps(row))
        rows = shown.keep("/api/stream", list(watch.rows))
    for row in rows:
        shown.keep("/api/moment", page.get("moment", agent=name, id=row["id"]).json())
        if row.get("req"):
            shown.keep("/api/body", page.get("body", agent=name, req=row["req"]).json())
    for one in page.json("packets", limit=100)["packets"]:
        shown.keep("/api/packets", one)
        path = f"packets/{one['id']}"
        shown.keep("/api/packets", page.json(path, include_body="true"))
    page.close()


def test_no_place_shows_what_oauth_and_forms_send(shown: Shown) -> None:
    assert shown.leaks() == {}
    unmasked = {where for where, content in shown.places.items() if b"[redacted]" not in content}
    # What these tell of has no secrets.
    assert unmasked <= {
        "cdp_list_targets",
        "tabs",
        "getSessionStatus",
        "get_config",
        "get_logs",
        "exportSession",
        "exported test",
        "snapshot",
    }
