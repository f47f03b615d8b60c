"""Several servers in one session, by their names."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.driving import SHOP, Driver
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

COMMAND = [sys.executable, str(SHOP / "server.py")]
DYING = (
    "import http.server, os\n"
    "class Dying(http.server.SimpleHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        if self.path == '/die': os._exit(3)\n"
    "        self.send_response(204)\n"
    "        self.end_headers()\n"
    "address = ('127.0.0.1', int(os.environ['PORT']))\n"
    "http.server.ThreadingHTTPServer(address, Dying).serve_forever()\n"
)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as running:
        yield running


def test_a_service_is_named_where_it_is_told_of_and_asked_for(driver: Driver) -> None:
    api = {"name": "api", "command": [sys.executable, "-c", DYING]}
    started = driver.start(services=[{"name": "web", "command": COMMAND}, api])
    assert [service["name"] for service in started["services"]] == ["api"]
    status = driver.call("getSessionStatus")
    assert [service["name"] for service in status["services"]] == ["web", "api"]
    assert driver.call("readServerLogs", service="api")["path"].endswith("/api.combined.log")
    wrong = driver.fault("readServerLogs", service="db")
    assert (wrong["type"], wrong["field"], wrong["expected"]) == (
        "invalid_input",
        "service",
        "one of web, api",
    )
    driver.call("navigate", url="/")
    url = started["services"][0]["url"]
    driver.call("evaluate", script=f"fetch('{url}/die', {{mode: 'no-cors'}}).catch(() => 0)")
    wait_until(lambda: driver.call("getSessionStatus")["status"] == "stopped")
    web = driver.call("restartServer", service="web")["pid"]
    assert driver.call("getSessionStatus")["status"] == "stopped"
    assert driver.call("restartServer")["pid"] != web
    assert driver.call("getSessionStatus")["status"] == "running"
    driver.call("endSession")


def test_a_service_that_does_not_start_is_named(driver: Driver) -> None:
    # Both may be started by the same words, each in a folder of its own.
    ends = {"name": "api", "command": [sys.executable, "-c", "raise SystemExit('no database')"]}
    error = driver.fault("startSession", services=[{"name": "web", "command": COMMAND}, ends])
    assert (error["type"], error["service"]) == ("server_start_failed", "api")
    assert error["message"].startswith("The server api did not start")
    assert "no database" in error["stderr"]


def test_an_app_that_does_not_run_yet_is_told_of(driver: Driver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    assert driver.start(url=url)["message"].startswith(f"nothing answers at {url} yet")
    driver.call("endSession")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": ["node"], "args": ["--x"]}, "args are for commandPath"),
        ({"url": "http://127.0.0.1:3000/", "port": 4000}, "env and port are for a server"),
        ({"services": [{"name": "a"}, {"name": "a"}]}, "a name of its own"),
    ],
)
def test_arguments_that_would_be_passed_over_are_refused(
    driver: Driver, arguments: dict[str, Any], said: str
) -> None:
    wrong = driver.fault("startSession", **arguments)
    assert wrong["type"] == "invalid_input"
    assert said in wrong["message"]


def test_half_a_place_is_none(driver: Driver) -> None:
    driver.start()
    assert driver.fault("emulate", latitude=3.0)["type"] == "invalid_input"
    driver.call("endSession")
