"""A secret check: one guess is right, everything else is refused alike, and not for ever."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pilothouse.core.declare.faults import RateLimited
from pilothouse.core.secrets.check import MAX_FAILURES, MAX_KNOWN, PER_SECONDS, SecretCheck
from tests.support.clock import Clock

RIGHT = "QwErTyUiOpAsDfGhJkLz"


@dataclass
class Kept:
    secret: str = RIGHT

    def value(self) -> str:
        return self.secret

    def renew(self) -> str:
        self.secret = self.secret[::-1]
        return self.secret


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


def check_of(clock: Clock, **options: float) -> SecretCheck:
    return SecretCheck(Kept(), clock, name="token", shown_by="pilothouse token", **options)


@pytest.fixture
def check(clock: Clock) -> SecretCheck:
    return check_of(clock)


WRONG: dict[str, object] = {
    "none": None,
    "empty": "",
    "blank": " ",
    "a prefix": RIGHT[:-1],
    "longer": RIGHT + "a",
    "other case": RIGHT.swapcase(),
    "a line after it": RIGHT + "\n",
    "a blank before it": " " + RIGHT,
    "a list": [RIGHT],
    "bytes": RIGHT.encode(),
    "a number": 0,
    "true": True,
    "look-alikes": "".join(chr(0xFF21 + (ord(c) | 32) - 97) for c in RIGHT),
    "a surrogate": "\ud800" * len(RIGHT),
    "NUL": RIGHT + "\0",
    "a megabyte": RIGHT * 50_000,
}


@pytest.mark.parametrize("what", WRONG)
def test_anything_but_the_secret_is_refused(check: SecretCheck, what: str) -> None:
    assert check.check(WRONG[what]) is False
    assert check.check(RIGHT) is True


def test_a_new_secret_holds_at_once(check: SecretCheck) -> None:
    new = check.secret.renew()
    assert not check.check(RIGHT)
    assert check.check(new)


def test_after_ten_wrong_in_a_minute_none_is_looked_at(check: SecretCheck, clock: Clock) -> None:
    for _ in range(MAX_FAILURES):
        assert check.wait() == 0
        assert not check.check("wrong")
        clock.now += 1
    for given in ("wrong", RIGHT):
        with pytest.raises(RateLimited) as caught:
            check.check(given)
        assert caught.value.details["retryAfterSec"] == PER_SECONDS - MAX_FAILURES
        assert "pilothouse token" in caught.value.hint
    assert not check.check(None)
    assert check.wait() == PER_SECONDS - MAX_FAILURES
    clock.now = 100 + PER_SECONDS
    assert check.check(RIGHT)
    assert not check.check("wrong")
    with pytest.raises(RateLimited):
        check.check(RIGHT)


def test_whoever_forgets_the_secret_is_not_locked_out(check: SecretCheck) -> None:
    for given in (None, "") * MAX_FAILURES:
        assert not check.check(given)
    assert check.check(RIGHT)


def test_right_ones_count_for_nothing(check: SecretCheck) -> None:
    for _ in range(3 * MAX_FAILURES):
        assert check.check(RIGHT)


@pytest.mark.parametrize("longest", [0, 8 * PER_SECONDS])
def test_wrong_ones_now_and_then_do_not_lock_anybody_out(clock: Clock, longest: float) -> None:
    check = check_of(clock, longest_lock_s=longest)
    for _ in range(3 * MAX_FAILURES):
        assert not check.check("wrong")
        clock.now += PER_SECONDS / (MAX_FAILURES - 2)


def guess_until_locked_out(check: SecretCheck) -> float:
    while not check.wait():
        assert not check.check("wrong")
    return check.wait()


def test_each_wrong_guess_after_a_lock_out_doubles_the_next_one_up_to_the_longest(
    clock: Clock,
) -> None:
    check = check_of(clock, longest_lock_s=8 * PER_SECONDS)
    waits = []
    for _ in range(6):
        waits.append(guess_until_locked_out(check))
        clock.now += waits[-1]
    assert waits == [times * PER_SECONDS for times in (1, 2, 4, 8, 8, 8)]


def test_whoever_waits_long_after_a_lock_out_starts_anew(clock: Clock) -> None:
    check = check_of(clock, longest_lock_s=8 * PER_SECONDS)
    for _ in range(3):
        clock.now += guess_until_locked_out(check)
    clock.now += 100 * PER_SECONDS
    for _ in range(MAX_FAILURES):
        assert check.wait() == 0
        assert not check.check("wrong")
    assert check.wait() == PER_SECONDS


def test_whoever_guesses_locks_out_nobody_else(check: SecretCheck) -> None:
    for _ in range(MAX_FAILURES):
        check.check("wrong", "one")
    assert check.wait("one") > 0
    assert check.wait("other") == 0
    assert check.check(RIGHT, "other")


def test_only_so_many_are_counted_and_one_who_goes_on_guessing_is_not_forgotten(
    check: SecretCheck,
) -> None:
    for at in range(MAX_FAILURES):
        for other in range(MAX_KNOWN // MAX_FAILURES):
            check.check("wrong", f"{at} {other}")
        check.check("wrong", "one")
    assert check.wait("one") > 0
    for other in range(MAX_KNOWN):
        check.check("wrong", f"later {other}")
    assert check.wait("one") == 0
