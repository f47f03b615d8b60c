"""Tests run by module, the slowest first, or in an order that finds who leans on whom."""

from __future__ import annotations

import itertools

import pytest

from tests.support.order import arranged

TESTS = ["a.py::one", "a.py::two", "b.py::one", "c.py::T::one", "c.py::T::two", "c.py::T::three"]
SECONDS = {"a.py": 1.0, "b.py": 20.0}


def test_the_slowest_module_is_first_and_an_unknown_one_counts_as_slow() -> None:
    assert arranged(TESTS, SECONDS, "slowest") == [*TESTS[3:], TESTS[2], *TESTS[:2]]


def test_reverse_is_reverse_to_the_last_test() -> None:
    assert arranged(TESTS, SECONDS, "reverse") == arranged(TESTS, SECONDS, "slowest")[::-1]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_order_has_every_test_once_and_keeps_modules_together(seed: int) -> None:
    found = arranged(TESTS, SECONDS, f"random:{seed}")
    modules = [one.partition("::")[0] for one in found]
    assert sorted(found) == sorted(TESTS)
    assert sum(one != other for one, other in itertools.pairwise(modules)) == 2
    assert found == arranged(TESTS, SECONDS, f"random:{seed}")


def test_seeds_give_orders_of_their_own() -> None:
    assert len({tuple(arranged(TESTS, SECONDS, f"random:{seed}")) for seed in range(20)}) > 10
