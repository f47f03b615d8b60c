"""Every error code of the spec over the wire, and reads that say what they left out."""

from __future__ import annotations

import base64
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import Debugger
from tests.support.observing import Watcher, texts, visit
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.chromium import Chromium
    from tests.support.site import Site

pytestmark = pytest.mark.browser


def test_targets_of_all_types_are_listed_and_filtered(
    chromium: Chromium, site: Site, watcher: Watcher
) -> None:
    target = chromium.open(site.url("/frames"))

    def told() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = watcher.call("cdp_list_targets")["targets"]
        return listed

    def is_whole() -> bool:
        """Without types, what is listed is all that the browser lists, its own surfaces too."""
        with Debugger(chromium.ws_url) as browser:
            infos = browser.send("Target.getTargets")["targetInfos"]
        wanted = sorted((info["targetId"], info["type"]) for info in infos)
        return sorted((entry["id"], entry["type"]) for entry in told()) == wanted

    wait_until(is_whole, told)  # frames come on their own
    assert all({"id", "type", "title", "url", "attached"} == entry.keys() for entry in told())
    only = watcher.call("cdp_list_targets", filterUrlIncludes="/frames", types=["page"])["targets"]
    assert [entry["id"] for entry in only] == [target]
    chromium.close_tab(target)


def test_a_tab_is_found_by_part_of_its_url(
    chromium: Chromium, site: Site, watcher: Watcher
) -> None:
    target = chromium.open(site.url("/spa"))
    observed = watcher.call("cdp_observe", urlIncludes="/spa")
    assert observed == {
        "targetId": target,
        "resourceUri": f"cdp://events/{target}",
        "attached": True,
    }
    again = watcher.fault("cdp_observe", targetId=target)
    assert again["code"] == "ALREADY_OBSERVING"
    assert "cdp_read_events" in again["details"]["hint"]
    chromium.close_tab(target)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("cdp_observe", {"targetId": "nope"}, "TARGET_NOT_FOUND"),
        ("cdp_observe", {"urlIncludes": "no-such-page"}, "TARGET_NOT_FOUND"),
        ("cdp_observe", {}, "INVALID_INPUT"),
        ("cdp_read_events", {"targetId": "nope"}, "NOT_OBSERVING"),
        ("cdp_stop_observe", {"targetId": "nope"}, "NOT_OBSERVING"),
        ("cdp_clear_events", {"targetId": "nope"}, "NOT_OBSERVING"),
        ("cdp_get_filters", {"targetId": "nope"}, "NOT_OBSERVING"),
        ("cdp_set_filters", {"targetId": "nope"}, "NOT_OBSERVING"),
        ("cdp_get_response_body", {"targetId": "nope", "requestId": "1"}, "NOT_OBSERVING"),
        ("cdp_list_targets", {"port": 1}, "BROWSER_UNREACHABLE"),
        ("cdp_list_targets", {"host": "no-such-host.invalid"}, "BROWSER_UNREACHABLE"),
        ("cdp_list_targets", {"port": 0}, "INVALID_INPUT"),
        ("cdp_list_targets", {"host": "0.0.0.0"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "8.8.8.8"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "::"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "134744072"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "0x08080808"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "[::ffff:8.8.8.8]"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "10.1"}, "SECURITY_BLOCKED"),
        ("cdp_list_targets", {"host": "169.254.169.254"}, "SECURITY_BLOCKED"),
    ],
)
def test_each_error_code_is_reached_with_a_hint(
    watcher: Watcher, tool: str, arguments: dict[str, Any], code: str
) -> None:
    error = watcher.fault(tool, **arguments)
    assert error["code"] == code
    assert error["message"]
    assert error["details"]["hint"]
    if code == "BROWSER_UNREACHABLE":
        assert error["details"]["cause"]


@pytest.fixture
def impostor() -> Iterator[Any]:
    """A program on a loopback port that claims to be a browser living elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        answer = b"{}"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(self.answer)))
            self.end_headers()
            self.wfile.write(self.answer)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "ws://8.8.8.8:{port}/devtools/browser/1",
        "ws://127.0.0.1:1/devtools/browser/1",
        "ws://evil.example:{port}/devtools/browser/1",
        "ws://0.0.0.0:{port}/devtools/browser/1",
    ],
)
def test_a_browser_that_points_elsewhere_is_refused(
    watcher: Watcher, impostor: Any, url: str
) -> None:
    port = impostor.server_address[1]
    answer = {"webSocketDebuggerUrl": url.format(port=port)}
    impostor.RequestHandlerClass.answer = json.dumps(answer).encode()
    error = watcher.fault("cdp_list_targets", port=port)
    assert error["code"] == "SECURITY_BLOCKED"


def test_a_port_that_is_no_browser_says_so(watcher: Watcher, impostor: Any) -> None:
    error = watcher.fault("cdp_list_targets", port=impostor.server_address[1])
    assert error["code"] == "BROWSER_UNREACHABLE"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        error = watcher.fault("cdp_list_targets", port=closed.getsockname()[1])
    assert error["code"] == "BROWSER_UNREACHABLE"
    assert "pilothouse chrome" in error["details"]["hint"]


def test_a_body_that_is_not_there_says_why(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, "fetch('/redirect/1').then(r => r.text())")
    watcher.wait_for(tab, lambda found: found, kinds=["loadingFinished"], urlIncludes="/redirect/0")
    error = watcher.fault("cdp_get_response_body", targetId=tab, requestId="12345.6")
    assert error["code"] == "BODY_NOT_AVAILABLE"
    assert "12345.6" in error["message"]
    chromium.evaluate(
        tab, "fetch('/slow?ms=60000'); fetch('http://no-such.invalid/').catch(() => 1)"
    )
    watcher.wait_for(tab, bool, kinds=["loadingFailed"])
    for part, why in (
        ("/slow", "no answer to it was recorded yet"),
        ("no-such", "ERR_NAME_NOT_RESOLVED"),
    ):
        (asked,) = watcher.events(tab, kinds=["request"], urlIncludes=part)
        wanted = {"targetId": tab, "requestId": asked["requestId"]}
        error = watcher.fault("cdp_get_response_body", **wanted)
        assert (error["code"], why in error["message"]) == ("BODY_NOT_AVAILABLE", True), error


def test_what_was_thrown_is_told_also_when_it_is_nothing(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(
        tab, "setTimeout(() => { throw null }); setTimeout(() => { throw undefined }); 1"
    )
    events = watcher.wait_for(tab, lambda found: len(found) == 2, kinds=["log"])
    assert [event["text"] for event in events] == ["Uncaught null", "Uncaught undefined"]


@pytest.mark.parametrize("url", ["data:text/plain,hello", "blob:"])
def test_what_never_came_over_the_network_has_no_body_and_says_so(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str, url: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    asked = "URL.createObjectURL(new Blob(['hello']))" if url == "blob:" else f"'{url}'"
    chromium.evaluate(tab, f"fetch({asked}).then(r => r.text())")
    (loaded,) = watcher.wait_for(tab, bool, kinds=["loadingFinished"], urlIncludes=url)
    asked_for = {"targetId": tab, "requestId": loaded["requestId"]}
    error = watcher.fault("cdp_get_response_body", **asked_for)
    assert error["code"] == "BODY_NOT_AVAILABLE"
    assert "never came over the network" in error["message"]


def test_filters_at_the_source_block_first_then_allow(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    assert watcher.call("cdp_get_filters", targetId=tab)["filters"] == {
        "kinds": [],
        "urlAllowlist": [],
        "urlBlocklist": [],
        "maxBodyBytes": 64000,
    }
    watcher.call("cdp_clear_events", targetId=tab)
    answer = watcher.call(
        "cdp_set_filters",
        targetId=tab,
        kinds=["network", "console"],
        urlAllowlist=["/item/", "/status/"],
        urlBlocklist=["/item/2"],
        maxBodyBytes=10,
    )
    assert answer == {"updated": True}
    chromium.evaluate(
        tab,
        "Promise.all(['/item/1', '/item/2', '/status/404', '/slow?ms=1']"
        ".map(u => fetch(u).then(r => r.text())))"
        ".then(() => console.log('0123456789abcdef'))",
    )
    events = watcher.wait_for(tab, lambda found: texts(found))
    paths = {e["url"].split("/", 3)[3] for e in events if e["kind"] == "request"}
    assert paths == {"item/1", "status/404"}
    line = next(e for e in events if e["kind"] == "console")
    assert line["text"] == "0123456789"
    assert line["truncated"]["text"] == 16
    item = next(e for e in events if e["kind"] == "request" and "/item/1" in e["url"])
    watcher.wait_for(tab, lambda f: f, kinds=["loadingFinished"], requestId=item["requestId"])
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=item["requestId"])
    assert len(body["body"]) == 10
    assert body["length"] > 10
    rest = watcher.call(
        "cdp_get_response_body",
        targetId=tab,
        requestId=item["requestId"],
        offset=body["nextOffset"],
    )
    assert rest["body"]


def test_a_reader_that_pages_through_a_flood_misses_nothing_unreported(
    chromium: Chromium, site: Site, watcher: Watcher
) -> None:
    tab = chromium.open(site.url("/flood?n=25000"))
    watcher.call("cdp_observe", targetId=tab, bufferSize=10_000)
    chromium.evaluate(tab, "setTimeout(start, 0)")
    seen: list[int] = []
    dropped = offset = 0
    while True:
        page = watcher.call("cdp_read_events", targetId=tab, offset=offset, limit=200)
        assert not page["dropped"] or page["notes"]
        dropped += page["dropped"]
        seen += [event["seq"] for event in page["events"]]
        offset = page["nextOffset"]
        if any("24999" in event.get("args", []) for event in page["events"]):
            break
    assert seen == sorted(set(seen))
    assert len(seen) + dropped == seen[-1] + 1
    chromium.close_tab(tab)


def test_limits_and_budgets_are_told(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/mix?n=20"))
    chromium.wait_for_title(tab)
    clamped = watcher.call("cdp_read_events", targetId=tab, limit=5000)
    assert any("clamped to 1000" in note for note in clamped["notes"])
    whole = len(watcher.ask("cdp_read_events", targetId=tab)["content"][0]["text"]) / 4
    for budget in (whole * 0.6, whole * 0.25, 400):
        result = watcher.ask("cdp_read_events", targetId=tab, maxTokens=int(budget))
        assert len(result["content"][0]["text"]) / 4 <= budget * 1.05
        content = result["structuredContent"]
        assert content["detail"] in ("compact", "summary")
        assert content["notes"]
    small = watcher.call("cdp_read_events", targetId=tab, maxTokens=400)
    following = watcher.call("cdp_read_events", targetId=tab, offset=small["nextOffset"], limit=1)
    assert following["events"][0]["seq"] == small["nextOffset"]
    errors = watcher.events(tab, level="error")
    assert errors
    assert all(event["type"] == "error" for event in errors)
    posts = watcher.events(tab, method="post")
    assert posts
    assert all(event["method"] == "POST" for event in posts)


def test_a_status_may_be_a_number_and_an_offset_beyond_the_end_is_told(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(tab, "fetch('/status/404').then(r => r.text())")
    watcher.wait_for(tab, bool, kinds=["loadingFinished"], urlIncludes="/status/404")
    missing = watcher.events(tab, status=404, kinds=["response"])
    assert [event["status"] for event in missing] == [404]
    beyond = watcher.call("cdp_read_events", targetId=tab, offset=100_000)
    assert beyond["events"] == []
    assert any("offset 100000 is beyond" in note for note in beyond["notes"])
    end = watcher.call("cdp_read_events", targetId=tab)["nextOffset"]
    assert watcher.call("cdp_read_events", targetId=tab, offset=end)["notes"] == []


def test_a_body_is_cut_by_its_bytes_and_read_on_by_its_characters(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    watcher.call("cdp_set_filters", targetId=tab, maxBodyBytes=10)
    whole = chromium.evaluate(
        tab, "fetch('/api/echo', {method: 'POST', body: '舵'.repeat(8)}).then(r => r.text())"
    )
    (loaded,) = watcher.wait_for(tab, bool, kinds=["loadingFinished"], urlIncludes="/echo")
    body = ""
    offset: int | None = 0
    while offset is not None:
        part = watcher.call(
            "cdp_get_response_body", targetId=tab, requestId=loaded["requestId"], offset=offset
        )
        assert len(part["body"].encode()) <= 10
        body, offset = body + part["body"], part.get("nextOffset")
    assert (body, part["length"]) == (whole, len(whole))
    assert "舵" * 8 in whole


def test_secrets_of_forms_are_masked_whatever_type_they_are_sent_as(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    form = "application/x-www-form-urlencoded"
    for kind, body in (
        ("text/plain", "code=4-0AfJohX&state=af0ifjsl&page=1"),
        (form, "code=4-0AfJohX"),
        (form, "key=4-0AfJohX%27&page=1"),
    ):
        options = {"method": "POST", "body": body, "headers": {"content-type": kind}}
        chromium.evaluate(tab, f"fetch('/empty', {json.dumps(options)}).then(a => a.text())")
    sent = watcher.wait_for(
        tab, lambda found: len([e for e in found if e["method"] == "POST"]) == 3, kinds=["request"]
    )
    assert [event["postDataPreview"] for event in sent if event["method"] == "POST"] == [
        "code=[redacted]&state=[redacted]&page=1",
        "code=[redacted]",
        "key=[redacted]&page=1",
    ]


def test_secrets_in_a_binary_message_are_masked_too(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    visit(chromium, tab, site.url("/empty"))
    secret = '{"password": "hunter2hunter2", "name": "Ann"}'
    chromium.evaluate(
        tab,
        f"""(async () => {{
          const socket = new WebSocket(location.origin.replace('http', 'ws') + '/ws');
          await new Promise(open => socket.onopen = open);
          socket.send(new TextEncoder().encode('{secret}'));
        }})()""",
    )
    sent = [
        event
        for event in watcher.wait_for(tab, lambda found: len(found) >= 3, kinds=["websocket"])
        if event.get("direction") == "sent"
    ]
    assert [(e["opcode"], e["payloadLength"]) for e in sent] == [(2, len(secret))]
    shown = json.loads(base64.b64decode(sent[0]["payloadPreview"]))
    assert shown == {"password": "[redacted]", "name": "Ann"}


def test_secrets_are_masked_in_events_bodies_and_har(
    chromium: Chromium, site: Site, watcher: Watcher, tab: str
) -> None:
    from tests.support.site_routes import SECRETS

    visit(chromium, tab, site.url("/empty"))
    chromium.evaluate(
        tab,
        "fetch('/secret?access_token=tok_0123456789abcdef', {headers: {authorization: "
        "'Bearer hunter2hunter2hunter2'}}).then(r => r.text()).then(t => console.log(t))",
    )
    watcher.wait_for(tab, lambda found: texts(found), kinds=["console"])
    answered = watcher.events(tab, kinds=["loadingFinished"], urlIncludes="/secret")[0]
    body = watcher.call("cdp_get_response_body", targetId=tab, requestId=answered["requestId"])
    har = watcher.request("resources/read", {"uri": f"cdp://har/{tab}"}, id=77)
    shown = json.dumps(watcher.events(tab)) + json.dumps(body) + json.dumps(har)
    for secret in ("tok_0123456789abcdef", "hunter2hunter2hunter2", *SECRETS.values()):
        assert str(secret) not in shown
    log = json.loads(har["result"]["contents"][0]["text"])["log"]
    assert log["version"] == "1.2"
    entry = next(e for e in log["entries"] if "/secret" in e["request"]["url"])
    assert entry["response"]["status"] == 200
    assert entry["response"]["content"]["text"]
