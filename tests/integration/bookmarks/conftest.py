"""A Chromium with the extension, paired with a server, for the tests of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.bookmark_chrome import BookmarkChrome, Desk

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Desk() as desk:
        yield desk.open()


@pytest.fixture(scope="module")
def paired(desk: Desk) -> Iterator[BookmarkChrome]:
    with BookmarkChrome() as chrome:
        yield chrome.connect(desk)


@pytest.fixture
def chrome(paired: BookmarkChrome) -> BookmarkChrome:
    """Without bookmarks; what is made on it is seen through a page of the extension."""
    paired.clear()
    return paired
