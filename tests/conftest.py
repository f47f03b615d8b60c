"""Fixtures that every test may use."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.rounds import examples
from tests.support.servers import Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.issuer import Issuer

pytest_plugins = [
    "tests.support.hermetic.plugin",
    "tests.support.order",
    "tests.support.rigs",
    "tests.support.timing",
]

# How long an example takes, or is thought out, says more of a busy machine than of what is tested.
settings.register_profile(
    "steady",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


_attach: Any = asyncio.Server._attach  # type: ignore[attr-defined]


def _attach_or_close(server: Any, transport: Any) -> None:
    """Close a connection that is accepted in the very tick in which its server is closed.

    asyncio drops it open, and the next test to collect garbage would be failed for the socket of
    another: python/cpython#109564, open in 3.13 and 3.14 and mended in no release yet (its pull
    request is 131009). Take this out with the first release that has it.
    """
    if server._sockets is None:
        transport._sock.close()
        transport._sock = None
    _attach(server, transport)


asyncio.Server._attach = _attach_or_close  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def level_of_logs() -> None:
    """Undo what a server that ran in this process has set for all logs: a test hears warnings."""
    logging.getLogger().setLevel(logging.WARNING)


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
