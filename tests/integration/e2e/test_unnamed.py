"""Where the system does not tell who has connected, a session's browser shows its secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.apart import told_apart

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

GUARD_S = 170
REFUSED = "HTTP/1.1 407 Proxy Authentication Required"


@pytest.fixture(scope="module")
def trials() -> list[dict[str, Any]]:
    """Without the intercepting proxy, and with it."""
    done: list[dict[str, Any]] = told_apart(
        "tests.integration.e2e.unnamed",
        within_s=GUARD_S,
        cannot="there can be no user without a name here",
    )
    assert [one["intercept"] for one in done] == [False, True]
    return done


def test_the_browser_gets_through_and_is_judged_as_ever(trials: list[dict[str, Any]]) -> None:
    for trial in trials:
        assert trial["told"] == []
        assert {"/first", "/second", "/third", "/socket"} <= trial["came"].keys()
        assert trial["fetched"] == "answered"
        assert trial["rule"] == "link_local"


def test_a_browser_that_would_show_the_secret_to_servers_is_not_started(
    trials: list[dict[str, Any]],
) -> None:
    for trial in trials:
        assert trial["webkit"].startswith("webkit cannot be used here")


def test_nobody_else_does(trials: list[dict[str, Any]]) -> None:
    for trial in trials:
        assert trial["strangers"] == [REFUSED, REFUSED]


def test_no_server_and_no_packet_sees_the_secret(trials: list[dict[str, Any]]) -> None:
    for trial in trials:
        for path, names in trial["came"].items():
            assert "proxy-authorization" not in names, path
        assert "proxy-authorization" not in json.dumps(trial["packets"]).lower()
    assert trials[1]["packets"]
