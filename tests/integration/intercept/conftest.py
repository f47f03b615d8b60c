"""What several tests of the intercepting proxy start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.intercept.resend_rig import Rig as JobsRig
from tests.integration.intercept.resend_rig import Wire, open_jobs, wire_server
from tests.support.engine_rig import Rig, running_engine
from tests.support.intercepting import Tap
from tests.support.upstreams import Authority, authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def upstream_ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("upstream"))


@pytest.fixture(scope="module")
async def rig(
    tmp_path_factory: pytest.TempPathFactory, upstream_ca: Authority
) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("engine")
    async with running_engine(folder, "--upstream-ca", str(upstream_ca.ca_file)) as running:
        yield running


@pytest.fixture(scope="module")
def tap() -> Iterator[Tap]:
    with Tap() as running:
        running.listen()
        yield running


@pytest.fixture
async def jobs_rig(tmp_path: Path) -> AsyncIterator[JobsRig]:
    """Jobs that send packets of a history again."""
    async with open_jobs(tmp_path) as running:
        yield running


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    """A server that keeps what it is sent."""
    async with wire_server() as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"
