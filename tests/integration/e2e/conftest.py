"""The shops that tests drive; `driver` is a declared rig (tests/support/rigs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.e2e import little_shop
from tests.support.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def shop(driver: Driver) -> Iterator[Driver]:
    """The session that is open in the shop, with one tab and no dialog afterwards."""
    yield driver
    driver.tidy()


@pytest.fixture(scope="module")
def in_little_shop() -> Iterator[Driver]:
    """A server with an open session in the shop that has a login."""
    with Driver() as running:
        little_shop.start(running)
        yield running


@pytest.fixture
def app(in_little_shop: Driver) -> Iterator[Driver]:
    """The same, on its first page; without rules for requests afterwards."""
    in_little_shop.visit("/")
    yield in_little_shop
    in_little_shop.call("route", action="remove")
    in_little_shop.tidy_files()
