"""A test that leaves something in a rig that others share is failed by name."""

from __future__ import annotations

import pytest

from tests.support.hermetic import leftovers
from tests.support.rigs import Rig, check_inventory

BEFORE = {"tabs": frozenset({"t1"}), "files": frozenset[str]()}


class Shared:
    """A rig whose tabs are, one question after the other, those that the test says."""

    def __init__(self, *tabs: set[str]) -> None:
        self._tabs = list(tabs)

    def inventory(self) -> dict[str, frozenset[str]]:
        tabs = self._tabs.pop(0) if len(self._tabs) > 1 else self._tabs[0]
        return {"tabs": frozenset(tabs), "files": frozenset()}


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_S", 0.1)


@pytest.mark.parametrize(
    ("left", "named"), [({"t1", "t2"}, r"tabs: \+ t2"), (set(), r"tabs: - t1")]
)
def test_what_is_left_or_taken_away_is_named(left: set[str], named: str) -> None:
    with pytest.raises(AssertionError, match=rf"changed its Shared rig \({named}\)"):
        check_inventory(Shared(left), BEFORE)


def test_what_is_as_before_or_comes_to_be_so_passes() -> None:
    check_inventory(Shared({"t1"}), BEFORE)
    check_inventory(Shared({"t1", "t2"}, {"t1"}), BEFORE)


def test_only_what_has_an_inventory_is_a_rig() -> None:
    assert isinstance(Shared(set()), Rig)
    assert not isinstance(object(), Rig)
