"""The life of an e2e session over the wire: every way to its end leaves nothing running."""

from __future__ import annotations

import signal
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.ports import is_open
from tests.support.session_life import (
    GUARD_S,
    Driver,
    Place,
    bad,
    last_seen,
    lives,
    open_driver,
    open_place,
    words_of,
)
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

SLOW = "import time\ntime.sleep(600)\n"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with open_driver() as opened:
        yield opened


@pytest.fixture(scope="module")
def place(driver: Driver) -> Place:
    return driver.place


@pytest.fixture
def own() -> Iterator[Place]:
    """For a test that starts a Pilothouse of its own."""
    with open_place() as opened:
        yield opened


@pytest.fixture
def session(driver: Driver) -> Iterator[dict[str, Any]]:
    started = driver.start(env={"NAME": "this session"})
    yield started
    driver.ask("endSession", sessionId=started["sessionId"])


def in_session(session: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"sessionId": session["sessionId"], **more}


def only_the_engine_runs(driver: Driver) -> bool:
    """Playwright's driver serves all sessions of a process and stays."""
    return not [one for one in driver.below() if "run-driver" not in words_of(one) and lives(one)]


# States


def test_a_session_is_created_active_and_idle_as_calls_come_and_go(
    driver: Driver, session: dict[str, Any]
) -> None:
    assert driver.status(session)["state"] == "CREATED"
    driver.call("navigate", **in_session(session, url="/"))
    assert driver.status(session)["state"] == "IDLE"
    wait = driver.begin("waitFor", **in_session(session, text="never", timeout=60_000))
    wait_until(lambda: driver.status(session)["state"] == "ACTIVE")
    driver.cancel(wait)
    wait_until(lambda: driver.status(session)["state"] == "IDLE")


def test_status_tells_what_runs_and_when_it_would_end(
    driver: Driver, session: dict[str, Any]
) -> None:
    said = driver.status(session)
    assert (said["status"], said["healthy"], said["url"]) == ("running", True, session["url"])
    assert (said["tabs"], said["steps"], said["notices"]) == (1, 0, [])
    ends = datetime.fromisoformat(said["endsAt"]) - datetime.now(UTC)
    assert 500 < ends.total_seconds() <= 600


# Ends that somebody wants


def test_end_session_stops_browser_and_server_and_keeps_the_logs(
    driver: Driver, place: Place
) -> None:
    session = driver.start()
    browsers = driver.browsers()
    server = psutil.Process(session["pid"])
    assert browsers
    assert lives(server)
    assert driver.end(session) == {
        "success": True,
        "sessionId": session["sessionId"],
        "left": [],
        "forced": [],
    }
    # Nothing to wait for: the answer comes when all of it is over.
    assert [one for one in (*browsers, server) if lives(one)] == []
    assert only_the_engine_runs(driver)
    assert not is_open(session["port"])
    folder = place.home / "sessions" / session["sessionId"]
    assert "the app of nobody" in (folder / "app.stdout.log").read_text()


def test_an_ended_session_is_not_found_with_reason_and_time(driver: Driver) -> None:
    session = driver.start()
    before = datetime.now(UTC)
    driver.end(session)
    for tool, more in (
        ("getSessionStatus", {}),
        ("navigate", {"url": "/"}),
        ("readServerLogs", {}),
        ("endSession", {}),
    ):
        fault = driver.fault(tool, **in_session(session, **more))
        assert (fault["type"], fault["reason"]) == ("session_not_found", "manual"), tool
        ended = datetime.fromisoformat(fault["endedAt"])
        assert abs((ended - before).total_seconds()) < GUARD_S


def test_a_session_that_never_was_has_neither_reason_nor_time(driver: Driver) -> None:
    fault = driver.fault("getSessionStatus", sessionId="no-such-session")
    assert fault["type"] == "session_not_found"
    assert fault.get("reason") is None
    assert fault.get("endedAt") is None
    assert "startSession" in fault["suggestion"]


def test_remove_logs_leaves_no_folder_of_the_session(driver: Driver, place: Place) -> None:
    session = driver.start()
    driver.call("navigate", **in_session(session, url="/"))
    driver.call("screenshot", **in_session(session))
    assert (place.home / "sessions" / session["sessionId"]).is_dir()
    driver.end(session, removeLogs=True)
    assert session["sessionId"] not in [folder.name for folder in place.sessions()]


def test_a_step_under_way_when_the_session_ends_is_not_told_as_done(driver: Driver) -> None:
    session = driver.start()
    driver.call("navigate", **in_session(session, url="/"))
    wait = driver.begin("waitFor", **in_session(session, text="never", timeout=60_000))
    wait_until(lambda: driver.status(session)["state"] == "ACTIVE")
    driver.end(session)
    assert bad(driver.result(wait))["type"] == "session_not_found"


@pytest.mark.parametrize("ask", [{}, {"stopServer": True}], ids=["left", "asked to be stopped"])
def test_an_app_that_ran_before_is_left_running_and_that_is_said(
    driver: Driver, session: dict[str, Any], ask: dict[str, Any]
) -> None:
    guest = driver.call("startSession", url=session["url"])
    assert (guest["pid"], guest["port"]) == (0, session["port"])
    left = driver.end(guest, **ask)["left"]
    assert len(left) == 1
    assert session["url"] in left[0]
    assert is_open(session["port"])
    assert driver.status(session)["status"] == "running"


# The server dies


def test_the_death_of_the_server_is_told_once_and_does_not_end_the_session(
    driver: Driver, session: dict[str, Any]
) -> None:
    driver.call("navigate", **in_session(session, url="/"))
    driver.call("evaluate", **in_session(session, script="window.kept = 'as it was'"))
    psutil.Process(session["pid"]).kill()

    def told() -> list[dict[str, Any]]:
        said = driver.call("evaluate", **in_session(session, script="window.kept"))
        notices: list[dict[str, Any]] = said.get("notices", [])
        return notices

    notices = wait_until(told)
    assert [one["type"] for one in notices] == ["server_exited"]
    assert notices[0]["exitCode"] == -signal.SIGKILL
    assert "the app of this session" in notices[0]["log"]
    assert told() == []
    said = driver.status(session)
    assert (said["status"], said["healthy"]) == ("stopped", False)
    assert said["services"][0]["exitCode"] == -signal.SIGKILL

    restarted = driver.call("restartServer", **in_session(session))
    assert restarted["port"] == session["port"]
    assert restarted["url"] == session["url"]
    assert restarted["pid"] != session["pid"]
    assert driver.status(session)["status"] == "running"
    # The same tab with the same page: only the server is new.
    kept = driver.call("evaluate", **in_session(session, script="window.kept"))
    assert kept["result"] == "as it was"
    assert driver.call("navigate", **in_session(session, url="/"))["status"] == 200


def test_a_step_that_fails_because_the_server_died_says_so(
    driver: Driver, session: dict[str, Any]
) -> None:
    failed = driver.failure("navigate", **in_session(session, url="/?exit=7"))
    fault = failed["error"]
    assert fault["type"] == "navigation_failed"
    assert fault["server"] == {"type": "server_exited", "exitCode": 7}
    assert "the last words of the app" in failed["serverLogs"]["stderr"]
    assert "exited (code 7)" in fault["causes"][0]
    driver.call("restartServer", **in_session(session))
    after = driver.call("navigate", **in_session(session, url="/"))
    assert not after.keys() & {"notices", "browser"}, "the end of the one before is old news"


def test_a_running_server_is_restarted_on_the_same_port(
    driver: Driver, session: dict[str, Any]
) -> None:
    first = psutil.Process(session["pid"])
    restarted = driver.call("restartServer", **in_session(session))
    assert (restarted["port"], restarted["url"]) == (session["port"], session["url"])
    assert not lives(first)
    assert driver.call("navigate", **in_session(session, url="/"))["status"] == 200
    assert driver.status(session)["notices"] == []


# The browser dies


def test_a_browser_that_is_killed_is_told_as_browser_crashed_and_ends_the_session(
    driver: Driver,
) -> None:
    others = {one.pid for one in driver.browsers()}
    # Its server takes its whole grace to end; the crash must be told meanwhile as well.
    session = driver.start("stubborn.py")
    server = psutil.Process(session["pid"])
    (browser,) = [one for one in driver.browsers() if one.pid not in others]
    browser.kill()
    asked = time.monotonic()
    for tool, more in (("navigate", {"url": "/"}), ("getSessionStatus", {}), ("tabs", {})):
        fault = driver.fault(tool, **in_session(session, **more))
        assert fault["type"] == "browser_crashed", (tool, fault)
        assert fault["sessionId"] == session["sessionId"]
        assert "startSession" in fault["suggestion"]
    assert time.monotonic() - asked < GUARD_S
    wait_until(lambda: not lives(server))
    wait_until(lambda: only_the_engine_runs(driver))
    assert driver.fault("endSession", **in_session(session))["type"] == "browser_crashed"


def test_a_step_under_way_when_the_browser_dies_answers_browser_crashed(driver: Driver) -> None:
    session = driver.start()
    driver.call("navigate", **in_session(session, url="/"))
    wait = driver.begin("waitFor", **in_session(session, text="never", timeout=60_000))
    wait_until(lambda: driver.status(session)["state"] == "ACTIVE")
    for browser in driver.browsers():
        browser.kill()
    assert bad(driver.result(wait))["type"] == "browser_crashed"
    wait_until(lambda: only_the_engine_runs(driver))


def test_one_browser_that_dies_leaves_the_other_session_alone(
    driver: Driver, session: dict[str, Any]
) -> None:
    driver.call("navigate", **in_session(session, url="/"))
    kept = {one.pid for one in driver.browsers()}
    other = driver.start()
    (browser,) = [one for one in driver.browsers() if one.pid not in kept]
    browser.kill()
    said = last_seen(lambda: driver.ask("tabs", **in_session(other)), lambda said: said["isError"])
    assert bad(said)["type"] == "browser_crashed"
    assert driver.call("navigate", **in_session(session, url="/"))["status"] == 200
    assert driver.status(session)["status"] == "running"


# Starts that come to nothing


def test_a_browser_that_cannot_be_launched_takes_the_server_with_it(own: Place) -> None:
    with Driver(own, env={"PILOTHOUSE_BROWSER": "/bin/false"}) as driver:
        fault = driver.fault("startSession", cwd=str(own.app), command=[sys.executable, "app.py"])
        assert fault["type"] == "browser_launch_failed"
        assert only_the_engine_runs(driver)
        assert list(own.temp.iterdir()) == []
        assert driver.fault("getSessionStatus")["type"] == "session_not_found"


def test_a_server_that_never_answers_leaves_no_browser(driver: Driver, place: Place) -> None:
    place.script("slow.py", SLOW)
    before = len(driver.browsers())
    fault = driver.fault(
        "startSession", cwd=str(place.app), command=[sys.executable, "slow.py"], timeout=1_000
    )
    assert fault["type"] == "server_start_failed"
    assert fault["cause"]["type"] == "timeout"
    assert len(driver.browsers()) == before
    assert not [one for one in driver.below() if "slow.py" in one.cmdline()]


def test_a_start_that_the_client_cancels_leaves_nothing(own: Place) -> None:
    own.script("slow.py", SLOW)
    with Driver(own) as driver:
        points = {
            "at once": lambda: True,
            "the server runs": lambda: any("slow.py" in words_of(one) for one in driver.below()),
            "the browser runs": lambda: bool(driver.browsers()),
        }
        for point, reached in points.items():
            number = driver.begin(
                "startSession", cwd=str(own.app), command=[sys.executable, "slow.py"]
            )
            wait_until(reached, point)
            driver.cancel(number)
            wait_until(lambda: only_the_engine_runs(driver), point)
            assert driver.fault("getSessionStatus")["type"] == "session_not_found", point
            left = last_seen(lambda: list(own.temp.iterdir()), lambda found: not found)
            assert left == [], point
        assert driver.fault("navigate", url="/")["type"] == "session_not_found"


# Time


def test_an_idle_session_is_ended_and_a_busy_one_is_not(own: Place) -> None:
    with Driver(own, env={"PILOTHOUSE_SESSION_IDLE_SEC": "3"}) as driver:
        session = driver.start()
        driver.call("navigate", **in_session(session, url="/"))
        # A call that runs is no idling, however long it takes.
        fault = driver.fault("waitFor", **in_session(session, text="never", timeout=4_000))
        assert fault["type"] == "timeout"
        # Nor is reading what was recorded: any tool call is activity.
        for _ in range(20):
            driver.call("cdp_read_events", targetId=session["targetId"], limit=1)
            time.sleep(0.2)  # time passes without any other call
        assert driver.status(session)["state"] == "IDLE"
        # What the page does by itself is not the agent's doing.
        script = "setInterval(() => fetch('/'), 500); 0"
        driver.call("evaluate", **in_session(session, script=script))
        assert last_seen(driver.browsers, lambda found: not found) == []
        fault = last_seen(
            lambda: driver.fault("navigate", **in_session(session, url="/")),
            lambda said: "reason" in said,
        )
        assert (fault["type"], fault["reason"]) == ("session_not_found", "timeout")
        assert "idle" in fault["message"]
        assert datetime.fromisoformat(fault["endedAt"]).tzinfo is not None
        wait_until(lambda: only_the_engine_runs(driver))
        assert not is_open(session["port"])


def test_a_session_ends_at_its_age_but_not_in_the_middle_of_a_call(own: Place) -> None:
    with Driver(own, env={"PILOTHOUSE_SESSION_MAX_SEC": "6"}) as driver:
        session = driver.start()
        fault = driver.fault("waitFor", **in_session(session, text="never", timeout=6_000))
        assert fault["type"] == "timeout"

        def ended() -> dict[str, Any]:
            said = driver.ask("evaluate", **in_session(session, script="1"))
            found: dict[str, Any] = said["structuredContent"].get("error", {})
            return found

        # Calls in a quick row keep it from being idle, not from growing old.
        fault = last_seen(ended, lambda said: "reason" in said)
        assert (fault["type"], fault["reason"]) == ("session_not_found", "timeout")
        # The first that hears of it may have come while it ended; the next one is told why it did.
        assert "open for 6 s" in ended()["message"]
        wait_until(lambda: only_the_engine_runs(driver))


# Ends of Pilothouse itself


@pytest.mark.parametrize("how", ["SIGTERM", "stdin", "SIGKILL"])
def test_the_end_of_pilothouse_is_the_end_of_its_sessions(own: Place, how: str) -> None:
    with Driver(own) as driver:
        sessions = [driver.start() for _ in range(2 if how == "SIGTERM" else 1)]
        below = driver.below()
        assert len(driver.browsers()) == len(sessions)
        if how == "stdin":
            rest, log = driver.close()
            assert rest == b""
            assert "internal_error" not in log
        else:
            driver.process.send_signal(signal.Signals[how])
        code = driver.process.wait(GUARD_S)
        assert code == (-signal.SIGKILL if how == "SIGKILL" else 0)
        assert last_seen(lambda: [one for one in below if lives(one)], lambda left: not left) == []
        assert not [one for one in sessions if is_open(one["port"])]
        if how != "SIGKILL":
            assert list(own.temp.iterdir()) == []
