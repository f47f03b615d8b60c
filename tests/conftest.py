"""Fixtures that every test may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.servers import Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.issuer import Issuer

# How long an example takes, or is thought out, says more of a busy machine than of what is tested.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The fixture server with all tools, shared by a module's tests."""
    with http_server("--profile", "full") as running:
        yield running


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """Of tokens, with its keys on a port of loopback."""
    from tests.support.issuer import Issuer  # makes keys, which takes time

    with Issuer() as running:
        yield running
