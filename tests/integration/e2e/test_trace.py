"""Traces over the MCP wire: none of an app's secrets is in them, and Playwright opens them."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.driving import Driver
from tests.support.spelled import spelled_in

pytestmark = pytest.mark.browser

SECRETS = {
    "password": 'corr"ect horse/bätt+ery',
    "bearer": "opaq7ue-b3arer-zzq91",
    "cookie": "c00kie-v4lue-kkx72",
    "key": "k3y-value-123456",
    "refresh": "r3fresh-value-99",
    "filled in": "aut0filled-pw-1",
    "hidden": "csrf-h1dden-t0ken",
    "socket": "s0cket-t0ken-5151",
    "pattern": "ACME-4711",
}
APP = '''
import base64, hashlib, json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

SECRETS = json.loads(os.environ["SHOWN"])
HOME = """<!doctype html><meta charset=utf-8><title>Shop</title>
<form id=login method=post action=/login><label>Name <input name=user></label>
<label>Password <input name=password type=password></label><button>Log in</button></form>"""
WITHIN = """<!doctype html><meta charset=utf-8><title>Within</title><h1>Welcome</h1>
<button id=go>Go</button><p id=out></p><input type=password value=%(filled in)s>
<input type=hidden name=csrf_token value=%(hidden)s>
<script>
const pw = PASSWORD, plain = '%(bearer)s', base64 = btoa(unescape(encodeURIComponent(pw)));
const post = (path, body) => fetch(path, {method: 'POST', body}).then(said => said.text());
go.onclick = async () => {
  const headers = {Authorization: 'Bearer ' + plain, 'X-Api-Key': '%(key)s'};
  await fetch('/api/me', {headers}).then(said => said.json());
  await post('/api/base64?q=' + encodeURIComponent(base64), base64);
  const form = new FormData();
  form.set('password', pw);
  form.set('file', new Blob([pw]), 'x.bin');
  await post('/api/form', form);
  await post('/api/json', JSON.stringify({password: pw, token: plain, inner: JSON.stringify(pw)}));
  await post('/api/bytes', new Blob([new Uint8Array([0, 1, 255]), pw, plain]));
  await post('/text', new URLSearchParams({password: pw, refresh_token: '%(refresh)s'}));
  await post('/text', 'order %(pattern)s, ' + plain);
  console.log('is in', pw, {token: plain}, document.cookie);
  const socket = new WebSocket(`ws://${location.host}/socket`);
  await new Promise(open => { socket.onopen = open; });
  socket.send(JSON.stringify({token: '%(socket)s'}));
  socket.send(new TextEncoder().encode(JSON.stringify({token: '%(socket)s', pw})));
  document.title = 'Hello ' + plain;
  const shown = document.createElement('p');
  shown.textContent = pw + ' ' + plain;
  document.body.append(shown);
  setTimeout(() => { out.textContent = 'all done'; }, 300);
};
</script>"""
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    password = ""

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path == "/socket":
            key = self.headers["Sec-WebSocket-Key"] + GUID
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_response(101)
            for name, value in {
                "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.rfile.read(1)
            self.close_connection = True
        elif path == "/login":
            App.password = parse_qs(body.decode())["password"][0]
            cookie = f"sid={SECRETS['cookie']}; Path=/"
            self.answer(303, b"", Location="/within", **{"Set-Cookie": cookie})
        elif path == "/within":
            page = (WITHIN % SECRETS).replace("PASSWORD", json.dumps(App.password))
            self.answer(200, page.encode())
        elif path == "/api/me":
            told = {"a": self.headers["Authorization"], "c": self.headers["Cookie"]}
            told |= {"plain": SECRETS["bearer"], "id": 17}
            self.answer(200, json.dumps(told).encode(), "application/json")
        elif path.startswith("/api/"):
            self.answer(200, bytes([0, 1, 255]) + body, "application/octet-stream")
        elif path == "/text":
            self.answer(200, body, "text/plain")
        else:
            self.answer(200, HOME.encode())

    do_POST = do_GET

    def answer(self, status, body, kind="text/html", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), App).serve_forever()
'''


def traced(driver: Driver) -> tuple[dict[str, Any], Path]:
    """Log in to an app that repeats its secrets in all places; export the trace."""
    (driver.files / "app.py").write_text(APP)
    driver.start(
        command=[sys.executable, str(driver.files / "app.py")],
        env={"SHOWN": json.dumps(SECRETS)},
        record=["trace"],
    )
    driver.visit("/")
    fields = [
        {"selector": "[name=user]", "value": "ada"},
        {"selector": "[name=password]", "value": SECRETS["password"]},
    ]
    driver.call("fillForm", fields=fields, submit="text=Log in")
    driver.call("waitFor", text="Welcome")
    driver.call("click", selector="#go")
    driver.call("waitFor", text="all done")
    exported = driver.call("exportSession", **{"as": "trace"})
    return exported, Path(exported["files"][0]["path"])


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as trace:
        assert trace.testzip() is None
        return {entry.filename: trace.read(entry) for entry in trace.infolist()}


def test_no_secret_is_in_a_trace_and_it_opens_as_before(tmp_path: Path) -> None:
    with Driver("--redact", r"ACME-\d{4}") as driver:
        exported, path = traced(driver)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [one.name for one in path.parent.glob(".trace*")] == []
        held = entries(path)
        for name, content in {**held, "the zip itself": path.read_bytes()}.items():
            found = {what: spelled_in(content, secret) for what, secret in SECRETS.items()}
            assert {what: where for what, where in found.items() if where} == {}, name

        # Pictures show the page, so the file and the answer say that they are not masked.
        pictures = [name for name in held if name.startswith("screencast/")]
        assert path.name == "trace-1.unmasked-pictures.zip"
        assert f"its {len(pictures)} pictures show what the page showed" in exported["message"]

        assert refers_to(held) <= held.keys()
        texts = b"\n".join(held.values()).decode("utf-8", "replace")
        for kept in ('"ada"', "all done", "/api/me", "Welcome", "X-Api-Key", "[redacted]"):
            assert kept in texts, kept
        opened = _playwright(tmp_path, "trace", "open", str(path))
        assert "Errors:       0" in opened
        shown = _playwright(tmp_path, "trace", "actions")
        assert 'Fill "ada"' in shown
        assert 'Fill "[redacted]"' in shown
        assert "POST" in _playwright(tmp_path, "trace", "requests")


def test_a_server_that_reveals_secrets_gives_the_trace_as_it_is() -> None:
    with Driver(env={"PILOTHOUSE_REVEAL_SECRETS": "1"}) as driver:
        exported, path = traced(driver)
        texts = b"\n".join(entries(path).values())
        assert [what for what, secret in SECRETS.items() if not spelled_in(texts, secret)] == []
        assert path.name == "trace-1.unmasked.zip"
        assert "Nothing in it is masked" in exported["message"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def refers_to(held: dict[str, bytes]) -> set[str]:
    """Return the entries that the lines of a trace name; each line must be JSON."""
    named = set()
    for name, content in held.items():
        if name.endswith((".trace", ".network", ".stacks")):
            for line in content.splitlines():
                record = json.loads(line)
                snapshot = record.get("snapshot", {})
                named.add(record.get("file"))
                for message, body in (("request", "postData"), ("response", "content")):
                    named.add((snapshot.get(message, {}).get(body) or {}).get("_file"))
    return named - {None}


def _playwright(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "playwright", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_traces_that_are_asked_for_at_once_are_written_in_turn() -> None:
    with Driver() as driver:
        driver.start(record=["trace"])
        driver.visit("/")
        asked = {driver.begin("exportSession", **{"as": "trace"}) for _ in range(4)}
        results: list[dict[str, Any]] = []
        while len(results) < len(asked):
            said = driver.receive()
            if said.get("id") in asked:
                results.append(said["result"])
        assert [one for one in results if one["isError"]] == []
        paths = [Path(one["structuredContent"]["files"][0]["path"]) for one in results]
        assert len(set(paths)) == len(asked)
        for path in paths:
            assert any(name.endswith(".trace") for name in entries(path))
        assert [one.name for one in paths[0].parent.glob(".trace*")] == []


def test_an_export_that_is_cancelled_leaves_nothing_behind_and_the_next_one_works() -> None:
    with Driver() as driver:
        driver.start(record=["trace"])
        driver.visit("/")
        first = driver.call("exportSession", **{"as": "trace"})
        folder = Path(first["files"][0]["path"]).parent
        for looks in (0, 50_000):  # at once, and when something is there that has to be removed
            asked = driver.begin("exportSession", **{"as": "trace"})
            assert any(any(folder.glob(".trace*")) for _ in range(looks)) or not looks
            about = {"requestId": asked, "reason": "enough"}
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about}
            driver.send(json.dumps(cancel).encode())
        exported = driver.call("exportSession", **{"as": "trace"})
        path = Path(exported["files"][0]["path"])
        assert any(name.endswith(".trace") for name in entries(path))
        assert [one.name for one in path.parent.glob(".trace*")] == []


def test_a_trace_that_is_being_written_when_pilothouse_ends_is_not_lost() -> None:
    with Driver() as driver:
        driver.start(record=["trace"])
        driver.visit("/")
        # Much to mask, so that it takes a moment.
        driver.value("document.body.append([...Array(100_000).keys()].join(' x'))")
        folder = driver.home / "sessions" / driver.session_id
        driver.begin("exportSession", **{"as": "trace"})
        looks = (path.name for _ in range(500_000) for path in folder.glob(".trace*"))
        assert next(looks, None) == ".trace-1.unmasked.raw", "nothing in it is masked yet"
        driver.process.terminate()
        driver.process.wait(60)
        held = entries(folder / "trace-1.unmasked-pictures.zip")
        assert any(name.endswith(".trace") for name in held)
        assert list(folder.glob(".trace*")) == []
