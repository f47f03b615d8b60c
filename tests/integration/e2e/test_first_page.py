"""An agent that goes elsewhere while its session opens the app's page gets where it wants to go."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pilothouse.e2e.start import OPEN_S
from tests.support.driving import Driver
from tests.support.rounds import ROUNDS
from tests.support.serving import serving

pytestmark = [pytest.mark.browser, pytest.mark.chaos]

AROUND_S = 0.1
"""How much sooner or later than `startSession` answers the app's page may come."""


class App(ThreadingHTTPServer):
    """An app whose front page takes its time."""

    daemon_threads = True
    delay_s = 0.0


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, App)
        if self.path == "/":
            time.sleep(self.server.delay_s)
        body = f"<title>{self.path}</title>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        with suppress(ConnectionError):  # the browser went elsewhere
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def test_the_agents_own_navigation_is_not_interrupted_by_the_first_page() -> None:
    chance = random.Random(7)
    with serving(App(("127.0.0.1", 0), Answer)) as app, Driver() as driver:
        for number in range(ROUNDS):
            app.delay_s = OPEN_S + chance.uniform(-AROUND_S, AROUND_S)
            session = {"sessionId": driver.call("startSession", url=url_of(app))["sessionId"]}
            reached = driver.call("navigate", url=f"/{number}", **session)
            assert (reached["status"], reached["title"]) == (200, f"/{number}")
            assert driver.call("getSessionStatus", **session)["notices"] == []
            driver.call("endSession", **session)


def url_of(app: App) -> str:
    return f"http://127.0.0.1:{app.server_address[1]}/"
