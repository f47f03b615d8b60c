"""One site and one browser for each module of the observer's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.chromium import Chromium
from tests.support.observing import Watcher
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with Chromium("--site-per-process") as running:
        yield running


@pytest.fixture(scope="module")
def watcher(chromium: Chromium) -> Iterator[Watcher]:
    with Watcher(chromium.port) as running:
        yield running


@pytest.fixture
def tab(chromium: Chromium, watcher: Watcher) -> Iterator[str]:
    """A fresh tab that is observed already."""
    target = chromium.open("about:blank")
    watcher.call("cdp_observe", targetId=target)
    yield target
    if any(t["id"] == target for t in chromium.targets()):
        chromium.close_tab(target)
