"""What a failed step tells of the server's log, beside its error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from tests.support.driving import Driver, whole_text
from tests.support.serving import serving
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser

MOST_CHARACTERS = 16_000
MOST_TOKENS = 2_500
LEAST_LINES, MOST_LINES, LEAST_WIDTH = 40, 100, 80

NOISY = """
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = parse_qs(urlsplit(self.path).query)
        for name, stream in (("stderr", sys.stderr), ("stdout", sys.stdout)):
            for number in range(int(asked.get(name, ["0"])[0])):
                line = f"{asked['tag'][0]} {name} {number} "
                stream.write(line.ljust(int(asked.get("width", ["0"])[0]), "x") + "\\n")
            stream.flush()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """A session whose server writes what it is asked to."""
    with Driver() as running:
        program = running.files / "noisy.py"
        program.write_text(NOISY)
        running.start(command=[sys.executable, str(program)])
        running.visit("/")
        yield running


def test_what_oauth_sends_is_masked_in_a_line(driver: Driver) -> None:
    tag = quote("GET /cb?code=4-0AfJohX&state=af0ifjsl", safe="")
    driver.visit(f"/?tag={tag}&stderr=1")
    shown = "GET /cb?code=[redacted]&state=[redacted] stderr 0"

    def read() -> dict[str, Any] | None:
        result = fails(driver)
        return result if any(line.startswith(shown) for line in stderr_of(result)) else None

    texts = [whole_text(wait_until(read, shown)), driver.call("readServerLogs")["content"]]
    assert shown in texts[1]
    assert not [text for text in texts if "AfJohX" in text or "af0ifjsl" in text]


def fails(driver: Driver, **arguments: Any) -> dict[str, Any]:
    """The whole answer of a step that fails."""
    result = driver.ask("click", **{"selector": "#nothing", "timeout": 200, **arguments})
    assert result["isError"]
    return result


def stderr_of(result: dict[str, Any]) -> list[str]:
    lines: list[str] = result["structuredContent"]["serverLogs"]["stderr"].splitlines()
    return lines


def after_writing(driver: Driver, tag: str, lines: int, width: int = 0) -> dict[str, Any]:
    """A failure after the server has written so many lines and they have all been read."""
    driver.visit(f"/?tag={tag}&stderr={lines}&width={width}")
    last = f"{tag} stderr {lines - 1} "

    def read() -> dict[str, Any] | None:
        result = fails(driver)
        return result if (stderr_of(result) or [""])[-1].startswith(last) else None

    found: dict[str, Any] = wait_until(read)
    return found


def check_affordable(result: dict[str, Any]) -> None:
    assert len(result["content"][0]["text"]) / 4 < MOST_TOKENS
    assert len(whole_text(result)) < MOST_CHARACTERS


def test_every_failure_has_the_newest_lines_beside_its_error(driver: Driver) -> None:
    result = after_writing(driver, "short", 250)
    content = result["structuredContent"]
    assert "serverLogs" not in content["error"]
    assert content["serverLogs"]["capturedAt"]
    assert content["serverLogs"]["sinceStep"] == 0
    assert stderr_of(result) == [f"short stderr {n} " for n in range(150, 250)]
    check_affordable(result)
    assert stderr_of(fails(driver)) == stderr_of(result), "the next failure has them again"


@pytest.mark.parametrize("width", [79, 100, 400])
def test_of_long_lines_there_are_the_newest_forty_at_least(driver: Driver, width: int) -> None:
    result = after_writing(driver, f"wide{width}", 200, width)
    lines = stderr_of(result)
    assert LEAST_LINES <= len(lines) <= MOST_LINES
    for line, number in zip(reversed(lines), range(199, 0, -1), strict=False):
        assert line.startswith(f"wide{width} stderr {number} ")
        assert len(line) >= min(width, LEAST_WIDTH)
    check_affordable(result)


def test_what_a_server_wrote_to_stdout_is_told_as_that(driver: Driver) -> None:
    before = stderr_of(after_writing(driver, "long", 200, 400))

    def read() -> dict[str, Any] | None:
        script = "fetch('/?tag=plain&stdout=3').then(() => { throw new Error('so far') })"
        content = driver.failure("evaluate", script=script)
        return content if "plain stdout 2" in content["serverLogs"].get("stdout", "") else None

    found: dict[str, Any] = wait_until(read)
    told = found["serverLogs"]["stderr"].splitlines()
    assert len(told) >= LEAST_LINES
    assert told[-LEAST_LINES:] == before[-LEAST_LINES:]
    assert found["serverLogs"]["sinceStep"] == 0


def test_a_flood_of_stdout_drives_no_error_out(driver: Driver) -> None:
    before = stderr_of(after_writing(driver, "kept", 50))
    driver.visit("/?tag=flood&stdout=5000")
    wait_until(lambda: "flood stdout 4999" in driver.call("readServerLogs", lines=1)["content"])
    assert stderr_of(fails(driver))[-50:] == before[-50:]


def test_lines_of_the_step_itself_are_counted(driver: Driver) -> None:
    def read() -> list[str] | None:
        script = "fetch('/?tag=during&stderr=3').then(() => { throw new Error('so far') })"
        logs = driver.failure("evaluate", script=script)["serverLogs"]
        # On a busy machine the lines are read after the step has ended.
        return logs["stderr"].splitlines()[-3:] if logs["sinceStep"] == 3 else None

    assert wait_until(read) == [f"during stderr {n} " for n in range(3)]
    assert fails(driver)["structuredContent"]["serverLogs"]["sinceStep"] == 0


# An app that runs already


@contextmanager
def running_app(log: Path) -> Iterator[str]:
    """An app that writes a line to its log before it answers a request for /log."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/log":
                with log.open("a") as file:
                    file.write("written by a request\n")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_a_log_that_the_server_writes_itself_is_told_the_same_way(driver: Driver) -> None:
    log = driver.files / "running.log"
    log.write_text("".join(f"old {n}\n" for n in range(120)))
    with running_app(log) as url:
        started = driver.call("startSession", url=url, logs={"stderr": str(log)})
        of = {"sessionId": started["sessionId"]}
        driver.call("navigate", url=url, **of)
        old = [f"old {n}" for n in range(20, 120)]
        for _ in range(2):
            result = fails(driver, **of)
            assert stderr_of(result) == old
            assert result["structuredContent"]["serverLogs"]["sinceStep"] == 0
        driver.call("evaluate", script="fetch('/log')", **of)
        script = "fetch('/log').then(() => { throw new Error('so far') })"
        logs = driver.failure("evaluate", script=script, **of)["serverLogs"]
        assert logs["stderr"].splitlines() == [*old[2:], *["written by a request"] * 2]
        assert logs["sinceStep"] == 1
        driver.call("endSession", **of)
    log.unlink()


def test_an_app_whose_log_is_not_known_has_none(driver: Driver) -> None:
    with running_app(driver.files / "unused.log") as url:
        of = {"sessionId": driver.call("startSession", url=url)["sessionId"]}
        assert "serverLogs" not in fails(driver, **of)["structuredContent"]
        driver.call("endSession", **of)
