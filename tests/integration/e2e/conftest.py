"""One server, one shop and one browser for each module of tests that drive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.driving import Driver
from tests.support.servers import incidents

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """A server with an open session in the shop."""
    with Driver() as running:
        running.start()
        yield running
        assert not incidents(running.log().splitlines())


@pytest.fixture
def shop(driver: Driver) -> Iterator[Driver]:
    """The same, with one tab and no dialog afterwards."""
    yield driver
    driver.tidy()
