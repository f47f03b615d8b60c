"""The fixtures and hooks that keep tests apart; tests/conftest.py loads them for every test.

There are three places, one within the other: the worker's, for what lives as long as it (declared
rigs); the module's, for its fixtures; and the test's own. Each is looked at when its time is over,
and what it left fails the test that was the last to use it.
"""

from __future__ import annotations

import inspect
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import forkserver
from tests.support.hermetic import guard, leftovers
from tests.support.hermetic.place import Place, make_place, neutral_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

_worker_place = pytest.StashKey[Place]()
_temp_folder = pytest.StashKey[Path | None]()
_number = itertools.count()
_unused: list[Place] = []
"""Places in which nobody left or started anything, for the next one who needs a place."""

RIGS_WITH_SOCKETS = frozenset({"browser", "fuzzing_agent", "paired", "services_hub"})
"""Fixtures of a module that connect to something, in this very process, when they are asked to.
What they hold is looked at when their module is over."""
STARTS_NOTHING = ("tests/unit/", "tests/contract/")
"""Folders whose tests start no process unless they are marked for it: `make quick` runs them."""


# First: pytest itself reads then where the folders for tmp_path are to be.
@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leave the user's environment for good, before any test module is imported."""
    if config.getoption("basetemp") is None:
        # By itself it counts its runs in the path, which one day is too long for a socket.
        folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
        config.option.basetemp = str(folder / "b")
        config.stash[_temp_folder] = folder
    if config.getoption("dist", "no") != "no":
        return  # this process only hands tests out to others
    environ = neutral_environment(os.environ)
    # Not below the user's TMPDIR, which may be too long for sockets.
    root = Path(tempfile.mkdtemp(prefix="p", dir="/tmp"))
    root.chmod(0o711)
    place = make_place(root / "w")
    os.environ.clear()
    os.environ.update({**environ, **place.variables()})
    tempfile.tempdir = str(place.temp)
    config.stash[_worker_place] = place
    forkserver.home_environ.update(os.environ)
    guard.install()
    leftovers.note_makers()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep the folders for tmp_path of a run that failed: somebody will look into them."""
    if exitstatus != 0:
        session.config.stash[_temp_folder] = None


def pytest_unconfigure(config: pytest.Config) -> None:
    if folder := config.stash.get(_temp_folder, None):
        shutil.rmtree(folder, ignore_errors=True)
    place = config.stash.get(_worker_place, None)
    if place is not None:
        leftovers.end_processes_of(place)
        Place(place.root.parent).remove()


@pytest.fixture(scope="session")
def worker_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The place of declared rigs, which live until this worker ends."""
    place = request.config.stash[_worker_place]
    yield place
    forkserver.close()
    _check(place, "the rigs of this worker")


@pytest.fixture(scope="module", autouse=True)
def module_place(request: pytest.FixtureRequest, worker_place: Place) -> Iterator[Place]:
    """The place of a module's own fixtures."""
    who = f"the fixtures of {request.node.nodeid}"
    sockets = leftovers.open_sockets()
    yield from _lived_in(worker_place, who)
    _check_sockets(sockets, who)


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest, module_place: Place) -> Iterator[Place]:
    """The test's own home, state and temporary folder; its environment names them."""
    sockets = leftovers.open_sockets()
    started = len(guard.starts)
    leaves_files = request.node.get_closest_marker("leaves_files") is not None
    yield from _lived_in(module_place, "the test", leaves_files=leaves_files)
    if not RIGS_WITH_SOCKETS & set(request.fixturenames):
        # What an event loop was told to close it closes when it next runs, which may be in the
        # next test; what still listens was told nothing. The module's end sees the rest.
        has_loop = inspect.iscoroutinefunction(getattr(request.node, "function", None))
        _check_sockets(sockets, "the test", listening=has_loop)
    _check_mark(request.node, guard.starts[started:])


def _lived_in(outer: Place, who: str, *, leaves_files: bool = False) -> Iterator[Place]:
    place = _unused.pop() if _unused else make_place(outer.root.with_name(f"{next(_number)}"))
    started = len(guard.starts)
    with place.entered():
        yield place
    if len(guard.starts) == started and place.is_empty:
        _unused.append(place)  # most tests use nothing of it, and making one takes milliseconds
    else:
        _check(place, who, has_started=len(guard.starts) > started, leaves_files=leaves_files)


def _check(place: Place, who: str, *, has_started: bool = True, leaves_files: bool = False) -> None:
    """Fail for what was refused here, and for processes and files that are left."""
    refused = place.report.read_text() if place.report.exists() else ""
    processes = leftovers.left_after(lambda: leftovers.processes_of(place)) if has_started else []
    files = [] if leaves_files else leftovers.files_of(place)
    if processes:
        leftovers.end_processes_of(place)
    place.remove()
    assert not refused, f"{who} touched what is the user's own:\n{refused}"
    assert not processes, f"{who} left processes:\n" + "\n".join(processes)
    assert not files, f"{who} left files in TMPDIR: {', '.join(files)}"


def _check_sockets(before: leftovers.Sockets, who: str, *, listening: bool = False) -> None:
    left = leftovers.new_sockets(before, listening=listening)
    assert not left, f"{who} left sockets open: {', '.join(left)}"


def _check_mark(item: pytest.Item, starts: list[str]) -> None:
    is_quick = item.nodeid.startswith(STARTS_NOTHING)
    if is_quick and item.get_closest_marker("process") is None:
        assert not starts, (
            "the test starts a process, but is not marked so (pytest.mark.process): "
            + ", ".join(starts)
        )
