"""The pairing code: 128 bits that a person can read aloud, type badly and still be let in."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from pilothouse.bookmarks.extension.pairing import (
    ALPHABET,
    BITS,
    FORM,
    LENGTH,
    LONGEST_LOCK_S,
    Pairing,
    as_meant,
    make_token,
    shown,
)
from pilothouse.core.declare.faults import RateLimited
from pilothouse.core.secrets.check import MAX_FAILURES, PER_SECONDS
from tests.support.clock import Clock

TOKEN = "7ZZZ0123ABCDEFGHJKMNPQRSTV"


@dataclass
class Kept:
    token: str = TOKEN

    def value(self) -> str:
        return self.token

    def renew(self) -> str:
        self.token = TOKEN[::-1]
        return self.token


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pairing(clock: Clock) -> Pairing:
    return Pairing(Kept(), clock)


def test_a_token_holds_128_bits_of_which_each_is_a_coin() -> None:
    made = [make_token() for _ in range(2_000)]
    assert len(set(made)) == len(made)
    assert all(FORM.fullmatch(token) for token in made)
    numbers = [sum(ALPHABET.index(c) << 5 * at for at, c in enumerate(t[::-1])) for t in made]
    assert max(numbers) < 1 << BITS
    for bit in range(BITS):
        assert 0.4 < sum(number >> bit & 1 for number in numbers) / len(made) < 0.6, bit


def test_the_code_is_shown_in_groups_and_read_back() -> None:
    token = make_token()
    code = shown(token)
    assert re.fullmatch("([0-9A-Z]{4}-){6}[0-9A-Z]{2}", code)
    assert as_meant(code) == token
    assert len(token) == LENGTH


@pytest.mark.parametrize(
    "typed",
    [
        TOKEN,
        TOKEN.lower(),
        shown(TOKEN),
        f"  {shown(TOKEN)}\n",
        shown(TOKEN).replace("-", " "),
        shown(TOKEN).replace("-", "\u2011"),
        TOKEN.replace("0", "O").replace("1", "I"),
        TOKEN.replace("0", "o").replace("1", "l"),
    ],
)
def test_the_code_is_right_however_it_is_typed(pairing: Pairing, typed: str) -> None:
    assert pairing.admits(typed)


@pytest.mark.parametrize(
    "typed",
    [None, "", "-", " ", 0, True, [TOKEN], TOKEN[:-1], TOKEN + "0", TOKEN[::-1], "U" * 26,
     "A" * 1_000_000, "\uff10" * 26, "\ud800" * 26, TOKEN + "\0", b"7ZZZ"],
)  # fmt: skip
def test_anything_else_is_wrong(pairing: Pairing, typed: object) -> None:
    assert not pairing.admits(typed)
    assert pairing.admits(TOKEN)


def test_ten_wrong_codes_lock_out_for_a_minute_and_then_longer_each_time(
    pairing: Pairing, clock: Clock
) -> None:
    for _ in range(MAX_FAILURES):
        assert not pairing.admits("WRONG")
    waits = []
    for _ in range(6):
        with pytest.raises(RateLimited) as caught:
            pairing.admits(TOKEN)
        assert "pilothouse pair" in caught.value.hint
        waits.append(caught.value.details["retryAfterSec"])
        clock.now += caught.value.details["retryAfterSec"]  # type: ignore[operator]
        assert not pairing.admits("WRONG")
    assert waits == [*(times * PER_SECONDS for times in (1, 2, 4, 8)), LONGEST_LOCK_S, 900]


def test_strangers_lock_out_nobody_who_is_known(pairing: Pairing) -> None:
    for _ in range(MAX_FAILURES):
        pairing.admits("WRONG")
    with pytest.raises(RateLimited):
        pairing.admits(TOKEN)
    assert pairing.admits(TOKEN, "profile-1")


def test_an_extension_without_a_code_is_refused_and_not_counted(pairing: Pairing) -> None:
    for _ in range(3 * MAX_FAILURES):
        assert not pairing.admits("")
    assert pairing.admits(TOKEN)


def test_a_new_code_ends_the_old_one(clock: Clock) -> None:
    kept = Kept()
    pairing = Pairing(kept, clock)
    assert pairing.is_current(shown(TOKEN))
    kept.renew()
    assert not pairing.is_current(TOKEN)
    assert not pairing.admits(TOKEN)
    assert pairing.admits(kept.token)
