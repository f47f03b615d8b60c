"""Workers of the hub, with real processes."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from pilothouse.hub.mcp import template_probe
from pilothouse.hub.workers import command
from tests.support.forkserver import REAL_PROCESSES
from tests.support.living import living, none_left
from tests.support.services_rig import sharing
from tests.support.until import GUARD_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.hermetic.place import Place
    from tests.support.services_rig import Rig

collect_ignore = [] if sys.platform == "linux" else ["test_forked.py"]


@pytest.fixture
def real_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test's hubs, and the parents of their workers, started by the commands users have.

    For tests of whose child somebody is, what a process has inherited and what is left of one that
    was killed: what is forked instead differs there.
    """
    for variable, value in REAL_PROCESSES.items():
        monkeypatch.setenv(variable, value)


@pytest.fixture
def mark() -> Iterator[str]:
    """In the environment of all that a test starts; nothing that bears it may outlive the test."""
    mine = uuid.uuid4().hex
    yield mine
    none_left(living(mine))


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let other people's servers start as slowly as they do on a busy machine.

    A client that waits for what they all answer alike would be told to come again after 8 s.
    """
    monkeypatch.setattr(command, "TEMPLATE_S", GUARD_S)
    monkeypatch.setattr(template_probe, "OTHER_ERA_S", GUARD_S)


@pytest.fixture
def sockets(place: Place) -> Path:
    """A folder with a short name, as sockets need it."""
    folder = place.root / "x"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="module")
async def services_hub() -> AsyncIterator[Rig]:
    async with sharing() as opened:
        yield opened


@pytest.fixture
async def services(services_hub: Rig) -> AsyncIterator[Rig]:
    """The hub of all tests of a file, with workers of this test's own."""
    yield services_hub
    await services_hub.clear()
