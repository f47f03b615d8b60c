"""Secrets of proxies are not in what logs and tracebacks show of their holders."""

from __future__ import annotations

import pytest

from pilothouse.e2e.browser.playwright import ContextOptions
from pilothouse.e2e.ports import Entrance
from pilothouse.intercept.engine.listen_modes import Wanted
from pilothouse.intercept.engine.listeners import Listener
from pilothouse.intercept.replay.sockets import Gateway

SECRET = "the-secret-of-a-session"


@pytest.mark.parametrize(
    "holder",
    [
        ContextOptions(proxy_secret=SECRET),
        Entrance(1, SECRET),
        Gateway(1, SECRET),
        Listener(Wanted(0, 1, "HTTP_PROXY"), secret=SECRET),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_a_secret_is_not_in_what_is_shown_of_its_holder(holder: object) -> None:
    assert SECRET not in repr(holder)
