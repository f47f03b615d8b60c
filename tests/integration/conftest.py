"""What tests of several folders start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.intercepting import App, app

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def shop() -> Iterator[App]:
    """An app to have a proxy in front of."""
    with app() as running:
        yield running
