"""A session's browser through the intercepting proxy, from startSession to the packet."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.intercepting import App, Tap, app
from tests.support.until import wait_until
from tests.support.upstreams import authority

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

PAGE = b"<!doctype html><title>Over TLS</title><script>fetch('/data')</script>"


@contextmanager
def secure_site(folder: Path) -> Iterator[tuple[int, str]]:
    """An HTTPS server whose authority only the proxy is told of."""
    signed = authority(folder)

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    context: ssl.SSLContext = signed.context()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server.server_port, str(signed.ca_file)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_packets_of_the_browser_are_the_sessions_own_and_joined_with_its_requests(
    shop: App,
) -> None:
    with Tap() as tap:
        started = tap.call("startSession", url=shop.url, intercept=True)
        tap.call("navigate", url="/page")
        request, response = tap.both("url == /page", fields=["id", "session", "group"])
        assert request["session"] == response["session"] == "stdio"
        # The id that the proxy added is in what the browser saw, and in what the server got.
        events = tap.call("cdp_read_events", targetId=started["targetId"], kinds=["response"])
        seen = next(e for e in events["events"] if e["url"].endswith("/page"))
        key = seen["headers"]["x-pilothouse-exchange"]
        got = next(one for one in shop.seen if one["path"] == "/page")
        assert dict(got["headers"])["x-pilothouse-exchange"] == key
        timeline = json.loads(tap.resource("pilothouse://timeline"))["events"]
        joined = [one for one in timeline if f"exchange:{key}" in one["keys"]]
        assert {one["event"] for one in joined} >= {"PacketRecorded", "ResponseReceived"}
        tap.call("endSession")


def test_the_browser_trusts_our_authority_and_the_proxy_the_servers(tmp_path: Path) -> None:
    with secure_site(tmp_path) as (port, ca):
        with Tap(env={"PILOTHOUSE_UPSTREAM_CA": ca}) as tap:
            tap.call("startSession", url=f"https://127.0.0.1:{port}", intercept=True)
            assert tap.call("navigate", url="/")["title"] == "Over TLS"
            # The start has opened the page already: there is more than one such exchange.
            wait_until(lambda: tap.packets("url == /data && status == 200"), "the packets of /data")
            tap.call("endSession")
        with Tap(env={"PILOTHOUSE_UPSTREAM_CA": ca}) as tap:
            tap.call("startSession", url=f"https://127.0.0.1:{port}")
            assert tap.fault("navigate", url="/")["type"] == "navigation_failed"
            tap.call("endSession")


def test_the_policy_still_holds_behind_the_proxy(shop: App) -> None:
    own = f"127.0.0.1:{shop.port}"
    with app() as canary, Tap(env={"ALLOWED_HOSTS": own}) as tap:
        tap.call("startSession", url=shop.url, intercept=True)
        tap.call("navigate", url="/policy")
        script = f"fetch('{canary.url}/', {{mode: 'no-cors'}}).then(() => 'reached', () => 'not')"
        tap.call("evaluate", script=script)
        assert canary.seen == []
        tap.call("endSession")


def name_of_this_machine() -> str:
    """Return a name that only a resolver knows to lead here."""
    for name in (socket.gethostname(), "ip6-localhost", "ip6-loopback"):
        with suppress(OSError):
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            if all(ip_address(address[0]).is_loopback for *_, address in found):
                return name
    pytest.skip("no name of this machine but localhost leads to it")


def test_a_name_that_leads_to_pilothouse_itself_is_refused_as_such(shop: App) -> None:
    name = name_of_this_machine()
    with Tap() as tap:
        tap.call("startSession", url=shop.url, intercept=True)
        assert httpx.get(f"{tap.rest}/mcp/tools").status_code == 401  # it is there
        port = tap.env["PILOTHOUSE_REST_PORT"]
        for url in (f"http://{name}:{port}/mcp/tools", f"https://{name}:{port}/mcp/tools"):
            fault = tap.fault("navigate", url=url)
            assert (fault["type"], fault["rule"]) == ("url_not_allowed", "blocked_port"), url
        tap.call("endSession")


def test_a_mock_answers_the_browser(shop: App) -> None:
    with Tap() as tap:
        tap.call("startSession", url=shop.url, intercept=True)
        tap.call("navigate", url="/")
        rule = {"url": "/api/cart", "status": 503, "body": "sold out"}
        tap.call("mock_rules", rules=[rule])
        script = "fetch('/api/cart').then(async r => [r.status, await r.text()])"
        assert tap.call("evaluate", script=script)["result"] == [503, "sold out"]
        tap.call("endSession")


def test_your_own_chrome_cannot_be_intercepted(shop: App) -> None:
    with Tap() as tap:
        fault = tap.fault("startSession", cdp="127.0.0.1:9222", intercept=True)
        assert fault["type"] == "invalid_input"
        assert "without cdp" in fault["message"]
