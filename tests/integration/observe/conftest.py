"""One observer for each module of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.observing import Watcher
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.chromium import Chromium


@pytest.fixture(scope="module")
def watcher(chromium: Chromium) -> Iterator[Watcher]:
    with Watcher(chromium.port) as running:
        yield running


@pytest.fixture
def new_site() -> Iterator[Site]:
    """A site whose origin has no service worker of a test before, running on or registered."""
    with Site() as running:
        yield running


@pytest.fixture
def tab(chromium: Chromium, watcher: Watcher) -> Iterator[str]:
    """A fresh tab that is observed already."""
    target = chromium.open("about:blank")
    watcher.call("cdp_observe", targetId=target)
    yield target
    if any(t["id"] == target for t in chromium.targets()):
        chromium.close_tab(target)
