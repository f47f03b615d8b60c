"""A packet of a session's browser, sent again: it goes where that browser may go."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.driving import SHOP
from tests.support.intercepting import token_of
from tests.support.session_life import Driver, open_place
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

COMMAND = [sys.executable, str(SHOP / "server.py")]


@pytest.fixture
def driver() -> Iterator[Driver]:
    """One to whose sessions nothing but their own servers and one host is open."""
    with open_place() as place:
        env = {"ALLOWED_HOSTS": "listed.example", "PACKET_PROXY_ACCESS_TOKEN": token_of(place.home)}
        with Driver(place, env=env) as running:
            yield running


def test_it_reaches_the_sessions_own_server_while_the_session_lasts(driver: Driver) -> None:
    session = driver.call("startSession", command=COMMAND, intercept=True)
    driver.call("navigate", url="/second.html")
    asked = {"filter": "url == /second.html && status == 200"}
    rows: list[dict[str, Any]] = wait_until(lambda: driver.call("get_history", **asked)["packets"])
    packet = rows[-1]["id"]
    sent = driver.call("resend_packet", packet_id=packet)
    assert (sent["sent_count"], sent["failed_count"]) == (1, 0)
    driver.call("endSession", sessionId=session["sessionId"])
    # Its own proxy is gone, and with it what had opened this server.
    refused = driver.call("resend_packet", packet_id=packet)
    assert refused["failed_count"] == 1
    assert "nothing may be sent" in str(refused)
