"""What time does to the connection, with nothing of ours attached that would keep Chrome awake."""

from __future__ import annotations

import time

import pytest

from tests.support.bookmark_chrome import BAR, BookmarkChrome, Desk
from tests.support.rounds import IS_SOAK

pytestmark = [pytest.mark.browser, pytest.mark.chaos]

IDLE_S = 200.0 if IS_SOAK else 40.0
"""A worker without messages lives for 30 s, so that the short form fails without them, too."""
DOWN_S = 120.0 if IS_SOAK else 5.0
BACK_WITHIN_S = 60.0


@pytest.mark.timeout(IDLE_S + 120)
def test_an_idle_connection_stays_and_a_dead_worker_is_back_by_its_alarm() -> None:
    with Desk() as desk, BookmarkChrome(name="Idle") as idle, BookmarkChrome(name="Dead") as dead:
        desk.open()
        for chrome in (idle, dead):
            chrome.connect(desk)
            chrome.leave_alone()
        worker = idle.worker
        dead.kill_worker()
        desk.until_connected("Idle")
        fault = desk.fault("bookmark_get", id=BAR, profile="Dead")
        assert fault["code"] == "PROFILE_NOT_FOUND"
        ends = time.monotonic() + IDLE_S
        while time.monotonic() < ends:
            assert "Idle" in desk.profiles  # the server's own knowledge: nothing is sent
            assert idle.worker == worker
            time.sleep(1)
        desk.until_connected("Idle", "Dead", guard_s=BACK_WITHIN_S)
        for name in ("Idle", "Dead"):
            assert desk.call("bookmark_get", id=BAR, profile=name)["nodes"]
        assert idle.worker == worker, "it was another worker that answered"


@pytest.mark.timeout(DOWN_S + 240)
def test_a_server_that_comes_back_is_found() -> None:
    with BookmarkChrome() as chrome, Desk() as desk:
        chrome.connect(desk.open())
        chrome.leave_alone()
        desk.stop()
        time.sleep(DOWN_S)  # what is tested is what so long a time does
        with Desk(home=desk.home, port=desk.bookmarks_port) as again:
            again.open().until_connected("Work", guard_s=BACK_WITHIN_S)
            assert again.call("bookmark_get", id=BAR)["nodes"]
