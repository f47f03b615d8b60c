"""A browser to look with, and something to see, shared by the tests of a file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.dashboard import product, shopping
from tests.support.driving import SHOP
from tests.support.intercepting import token_of
from tests.support.pages import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def intercepted() -> Iterator[tuple[str, str]]:
    """The address of a Pilothouse through whose proxy somebody shopped, and its token.

    The shop lies where any could lie: the server's log names the place, and pictures show the log.
    """
    with tempfile.TemporaryDirectory(prefix="shop-") as folder:
        app = shutil.copytree(SHOP, Path(folder) / "app")
        with product(PILOTHOUSE_ROOTS=folder) as (server, home):
            token = token_of(home)
            agent = shopping(server.url, app, intercept=True)
            yield server.url, token
            agent.end()
