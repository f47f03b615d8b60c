"""Fixtures that every test may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.servers import Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The fixture server with all tools, shared by a module's tests."""
    with http_server("--profile", "full") as running:
        yield running
