"""Starts with real apps: what went wrong is told soon and once, with what mends it; an app that
runs already is opened; and a call that names no session is told what became of the last one."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.machine.net.local_ports import free_port
from tests.support.apps import INSTALLED, app_folder
from tests.support.driving import SHOP, Driver
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

START_MS = 300_000
"""None of these starts may take as long: they fail by what is seen, not by the time."""

# Its traceback is of a thread that it does without.
SURVIVOR = """\
import http.server, os, threading, time

def measure():
    raise ValueError("no metrics today")

thread = threading.Thread(target=measure, name="metrics")
thread.start()
thread.join()
time.sleep(1.5)
port = int(os.environ["PORT"])
http.server.HTTPServer(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""

# Of two servers under one command the one that a page needs is up, and slow to answer at first.
HALF = """\
import os, socket, sys, time

page = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
print("Process SpawnProcess-1:", file=sys.stderr)
print("Traceback (most recent call last):", file=sys.stderr)
print("ValueError: no api today", file=sys.stderr)
time.sleep(3)
while True:
    asked, _ = page.accept()
    asked.recv(65536)
    asked.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
    asked.close()
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Return a short folder for apps that tests write themselves."""
    with tempfile.TemporaryDirectory(prefix="ph-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def driver(place: Path) -> Iterator[Driver]:
    with Driver(env={"PILOTHOUSE_ROOTS": os.pathsep.join((str(place), str(INSTALLED)))}) as running:
        yield running


@pytest.fixture
def folder(place: Path) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(dir=place))
    yield made
    shutil.rmtree(made)


def failed(driver: Driver, **arguments: Any) -> dict[str, Any]:
    error = driver.fault("startSession", timeout=START_MS, **arguments)
    assert error["type"] == "server_start_failed", error
    return error


def test_a_crash_that_the_reloader_outlives_fails_the_start_and_is_told_once(
    driver: Driver,
) -> None:
    with app_folder("django") as app:
        manage = app / "manage.py"
        manage.write_text(
            manage.read_text().replace("DEBUG =", 'INSTALLED_APPS = ["nope"]\nDEBUG =')
        )
        error = failed(driver, cwd=str(app))
    crash = "ModuleNotFoundError: No module named 'nope'"
    assert error["cause"] == {"type": "crashed", "error": crash}
    assert crash in error["message"]
    assert error["stderr"].endswith(crash)
    rest = {name: value for name, value in error.items() if name != "stderr"}
    assert "importlib._bootstrap" not in json.dumps(rest), "the traceback is told once"
    assert "nope" in error["suggestion"]
    read = driver.call("readServerLogs", sessionId=error["sessionId"], logType="stderr")
    assert crash in read["content"]
    assert read["path"] == error["logs"]["stderr"]


def test_a_traceback_that_the_server_survives_is_no_failure(driver: Driver, folder: Path) -> None:
    (folder / "app.py").write_text(SURVIVOR)
    session = driver.call("startSession", command=[sys.executable, "app.py"], cwd=str(folder))
    logs = driver.call("readServerLogs", sessionId=session["sessionId"])
    assert "Exception in thread metrics" in logs["content"]
    driver.call("endSession", sessionId=session["sessionId"])


def test_a_crash_beside_a_port_that_is_open_is_no_failure(driver: Driver, folder: Path) -> None:
    (folder / "app.py").write_text(HALF)
    session = driver.call("startSession", command=[sys.executable, "app.py"], cwd=str(folder))
    logs = driver.call("readServerLogs", sessionId=session["sessionId"])
    assert "no api today" in logs["content"]
    driver.call("endSession", sessionId=session["sessionId"])


def test_a_server_that_crashed_below_uvicorns_reloader_fails_the_start(driver: Driver) -> None:
    with app_folder("uvicorn") as app:
        main = app / "main.py"
        main.write_text("import nope\n" + main.read_text())
        error = failed(driver, cwd=str(app))
    assert error["cause"] == {
        "type": "crashed",
        "error": "ModuleNotFoundError: No module named 'nope'",
    }


@pytest.mark.parametrize(
    ("lock", "command"),
    [
        ("package-lock.json", "npm install"),
        ("pnpm-lock.yaml", "pnpm install"),
        ("yarn.lock", "yarn"),
    ],
)
def test_a_missing_package_names_the_projects_own_manager(
    driver: Driver, folder: Path, lock: str, command: str
) -> None:
    package = {"dependencies": {"left-pad": "1"}, "scripts": {"dev": "node server.js"}}
    (folder / "package.json").write_text(json.dumps(package))
    (folder / lock).touch()
    (folder / "server.js").write_text('require("left-pad")')
    (folder / "node_modules").mkdir()
    error = failed(driver, command=["node", "server.js"], cwd=str(folder))
    assert f"left-pad is not installed: run `{command}" in error["suggestion"]
    assert error["exitCode"] == error["cause"]["exitCode"] == 1


def test_a_missing_python_package_names_the_requirements(driver: Driver, folder: Path) -> None:
    (folder / "requirements.txt").write_text("quart-of-milk==1\n")
    (folder / "app.py").write_text("import quart_of_milk\n")
    error = failed(driver, command=[sys.executable, "app.py"], cwd=str(folder))
    assert "pip install -r requirements.txt`" in error["suggestion"]
    (folder / "app.py").write_text("import something_else\n")
    error = failed(driver, command=[sys.executable, "app.py"], cwd=str(folder))
    assert "pip install something_else`" in error["suggestion"]


def test_the_npm_among_a_projects_packages_is_not_run(driver: Driver, folder: Path) -> None:
    with app_folder("node") as app:
        shutil.copytree(app, folder, dirs_exist_ok=True)
    programs = folder / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    (programs / "npm").write_text(f"#!/bin/sh\ntouch {folder}/ran\nexit 1\n")
    (programs / "npm").chmod(0o755)
    session = driver.call("startSession", command=["npm", "start"], cwd=str(folder))
    assert not (folder / "ran").exists()
    driver.call("endSession", sessionId=session["sessionId"])


# Apps that run already


def test_the_page_of_an_app_that_runs_is_opened(driver: Driver) -> None:
    shop = driver.call("startSession", command=[sys.executable, str(SHOP / "server.py")])
    joined = driver.call("startSession", url=shop["url"])
    in_it = {"sessionId": joined["sessionId"]}
    wait_until(lambda: driver.call("tabs", **in_it)["tabs"][0]["url"].startswith(shop["url"]))
    assert driver.call("getSessionStatus", **in_it)["notices"] == []
    # At once, a navigation of the agent's own is the one that counts.
    third = driver.call("startSession", url=shop["url"])
    in_third = {"sessionId": third["sessionId"]}
    assert driver.call("navigate", url="/?third", **in_third)["url"].endswith("/?third")
    assert driver.call("getSessionStatus", **in_third)["notices"] == []
    for session in (shop, joined, third):
        driver.call("endSession", sessionId=session["sessionId"])


def test_a_page_that_cannot_be_opened_is_a_notice(driver: Driver) -> None:
    url = f"http://localhost:{free_port()}/"
    session = driver.call("startSession", url=url)
    in_it = {"sessionId": session["sessionId"]}
    (notice,) = wait_until(lambda: driver.call("getSessionStatus", **in_it)["notices"])
    assert (notice["type"], notice["url"]) == ("navigation_failed", url)
    assert "ERR_CONNECTION_REFUSED" in notice["reason"]
    driver.call("endSession", **in_it)


# No session named


def test_a_call_without_a_session_is_told_what_became_of_the_last_one(driver: Driver) -> None:
    session = driver.call("startSession", command=[sys.executable, str(SHOP / "server.py")])
    driver.call("endSession")
    error = driver.fault("navigate", url="/")
    assert error["type"] == "session_not_found"
    assert (error["sessionId"], error["reason"]) == (session["sessionId"], "manual")
    assert error["endedAt"] in json.dumps(error)
    crashed = driver.call("startSession", command=[sys.executable, str(SHOP / "server.py")])
    for browser in driver.processes():
        browser.kill()
    error = wait_until(lambda: _fault(driver))
    assert (error["type"], error["sessionId"]) == ("browser_crashed", crashed["sessionId"])
    failed(driver, command=[sys.executable, "-c", "raise SystemExit(2)"])
    error = driver.fault("navigate", url="/")
    assert error["type"] == "session_not_found"
    assert "its start failed" in error["message"]
    assert driver.call("readServerLogs")["content"] == ""


def _fault(driver: Driver) -> dict[str, Any] | None:
    result = driver.ask("tabs")
    error: dict[str, Any] | None = result["structuredContent"].get("error")
    return error


# Logs


def test_the_log_tells_of_sessions_and_calls_with_their_levels(driver: Driver) -> None:
    session = driver.call("startSession", command=[sys.executable, str(SHOP / "server.py")])
    in_it = {"sessionId": session["sessionId"]}
    driver.call("navigate", url="/", **in_it)
    driver.fault("waitFor", text="never", timeout=1, **in_it)
    driver.call("endSession", **in_it)
    error = failed(driver, command=[sys.executable, "-c", "raise SystemExit(2)"])

    def logged() -> set[tuple[str, str, str]]:
        lines = [json.loads(line) for line in driver.log().splitlines()]
        assert all(line["severity"] in ("INFO", "WARNING", "ERROR") for line in lines)
        return {
            (line["level"], line["event"], line.get("details", {}).get("tool", ""))
            for line in lines
            if line.get("sessionId") in (session["sessionId"], error["sessionId"])
        }

    expected = {
        ("info", "session_started", ""),
        ("info", "tool_invoked", "startSession"),
        ("info", "tool_invoked", "navigate"),
        ("warn", "error_occurred", "waitFor"),
        ("info", "session_terminated", ""),
        ("error", "error_occurred", "startSession"),
    }
    wait_until(lambda: expected <= logged())
