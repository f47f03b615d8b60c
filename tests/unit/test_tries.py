"""What the tests' own time limits let pass and what they do not."""

from __future__ import annotations

import pytest

from tests.support.tries import TRIES, tries


def tried(*times: float) -> int:
    """How many tries were made, of which each took so long and may take half a second."""
    left = [*times]
    for once in tries():
        once.took(0.1, 0.5, "the question")
        once.took(left.pop(0), 0.5, "the answer")
    return len(times) - len(left)


def wrong() -> None:
    for once in tries():
        with once.within(0.0):
            raise AssertionError("wrong, and late")


def test_what_is_slow_each_time_fails_and_says_how_long_it_took() -> None:
    with pytest.raises(AssertionError, match=r"^(the answer took 0\.9\d0 s, not 0\.5\n?){3}$"):
        tried(0.9, 0.91, 0.92, 0.1)
    assert TRIES == 3


@pytest.mark.parametrize("times", [(0.1,), (0.9, 0.1), (0.9, 0.9, 0.1)])
def test_one_try_in_time_is_enough_and_the_last(times: tuple[float, ...]) -> None:
    assert tried(*times, 0.9) == len(times)


def test_what_is_wrong_is_not_tried_again() -> None:
    with pytest.raises(AssertionError, match="wrong, and late"):
        wrong()
