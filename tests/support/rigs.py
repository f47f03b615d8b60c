"""The declared rigs: what the tests of a module share, in the module's own place.

A test that uses one leaves it as it was: what a rig holds (processes, tabs, files) is compared
before and after each, and a difference fails the test by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pytest

from tests.support.chromium import Chromium
from tests.support.driving import Driver
from tests.support.hermetic import leftovers
from tests.support.servers import incidents
from tests.support.site import Site
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.hermetic.place import Place

type Inventory = dict[str, frozenset[str]]
"""Names of what a rig holds, by their kind."""


@runtime_checkable
class Rig(Protocol):
    """Something shared that knows what it holds."""

    def inventory(self) -> Inventory: ...


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """The pages of our own that a browser is observed with."""
    with Site() as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """A browser with a debugging port, and a process for each site."""
    with Chromium("--site-per-process") as running:
        yield running


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    """`pilothouse` with an open session in the shop."""
    with Driver() as running:
        running.start()
        yield running
        assert not incidents(running.log().splitlines())


# Before the fixtures of the test, so that it is over after they have tidied up.
@pytest.fixture(autouse=True)
def rigs_left_as_found(request: pytest.FixtureRequest, place: Place) -> Iterator[None]:
    """Fail the test that leaves something in a rig, or takes something out of it."""
    manager = request._pyfuncitem._fixtureinfo.name2fixturedefs
    shared = [name for name, found in manager.items() if found[-1].scope == "module"]
    rigs = [rig for name in shared if isinstance(rig := request.getfixturevalue(name), Rig)]
    before = [rig.inventory() for rig in rigs]
    yield
    for rig, found in zip(rigs, before, strict=True):
        check_inventory(rig, found)


def check_inventory(rig: Rig, before: Inventory) -> None:
    """Raise AssertionError if a rig comes to hold something else than before, and keeps it."""

    def difference() -> str:
        now = rig.inventory()
        return "; ".join(
            f"{kind}: {sign} {name}"
            for kind in before
            for sign, names in (("+", now[kind] - before[kind]), ("-", before[kind] - now[kind]))
            for name in sorted(names)
        )

    wait_until(
        lambda: not difference(),
        lambda: f"the test changed its {type(rig).__name__} rig ({difference()})",
        leftovers.GRACE_S,
    )
