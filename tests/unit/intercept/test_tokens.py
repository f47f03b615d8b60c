"""The access token: one is right, everything else is refused alike, and not for ever."""

from __future__ import annotations

import re
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.faults import RateLimited
from pilothouse.intercept.tokens import (
    LENGTH,
    MAX_FAILURES,
    MAX_KNOWN,
    PER_SECONDS,
    TokenStore,
)

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> TokenStore:
    return TokenStore(tmp_path / "intercept", clock)


def test_a_token_is_twenty_letters_in_a_file_of_the_user_alone(
    store: TokenStore, tmp_path: Path
) -> None:
    token = store.token()
    assert re.fullmatch(f"[A-Za-z]{{{LENGTH}}}", token)
    (file,) = (tmp_path / "intercept").iterdir()
    assert file.read_text() == token + "\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_token_stays_until_a_new_one_is_asked_for(store: TokenStore, tmp_path: Path) -> None:
    first = store.token()
    assert store.token() == first
    assert TokenStore(tmp_path / "intercept").token() == first
    second = store.renew()
    assert second != first
    assert store.token() == second
    assert len(list((tmp_path / "intercept").iterdir())) == 1


def test_a_new_token_holds_at_once_in_every_process(store: TokenStore, tmp_path: Path) -> None:
    first = store.token()
    second = TokenStore(tmp_path / "intercept").renew()
    assert not store.check(first)
    assert store.check(second)


def test_many_who_need_one_first_get_the_same(tmp_path: Path) -> None:
    barrier = threading.Barrier(16)
    made: list[str] = []

    def need() -> None:
        mine = TokenStore(tmp_path)
        barrier.wait(30)
        made.append(mine.token())

    threads = [threading.Thread(target=need) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(made) == 16
    assert len(set(made)) == 1


WRONG = {
    "none": lambda right: None,
    "empty": lambda right: "",
    "blank": lambda right: " ",
    "a prefix": lambda right: right[:-1],
    "longer": lambda right: right + "a",
    "other case": lambda right: right.swapcase(),
    "a line after it": lambda right: right + "\n",
    "a blank before it": lambda right: " " + right,
    "a list": lambda right: [right],
    "bytes": lambda right: right.encode(),
    "a number": lambda right: 0,
    "true": lambda right: True,
    "look-alikes": lambda right: "".join(chr(0xFF21 + (ord(c) | 32) - 97) for c in right),
    "a surrogate": lambda right: "\ud800" * LENGTH,
    "NUL": lambda right: right + "\0",
    "a megabyte": lambda right: right * 50_000,
}


@pytest.mark.parametrize("what", WRONG)
def test_anything_but_the_token_is_refused(store: TokenStore, what: str) -> None:
    right = store.token()
    assert store.check(WRONG[what](right)) is False  # type: ignore[no-untyped-call]
    assert store.check(right) is True


@pytest.mark.parametrize("content", ["", "\n", "short", "a" * 19 + "1", "ä" * 20, "a b\n"])
def test_a_file_without_a_token_lets_nobody_in(
    store: TokenStore, tmp_path: Path, content: str
) -> None:
    store.token()
    (tmp_path / "intercept" / "token").write_text(content)
    assert not store.check(content)
    assert not store.check(content.strip())
    assert store.check(store.token())


def test_after_ten_wrong_in_a_minute_none_is_looked_at(store: TokenStore, clock: Clock) -> None:
    right = store.token()
    for _ in range(MAX_FAILURES):
        assert store.wait() == 0
        assert not store.check("wrong")
        clock.now += 1
    for given in ("wrong", right):
        with pytest.raises(RateLimited) as caught:
            store.check(given)
        assert caught.value.details["retryAfterSec"] == PER_SECONDS - MAX_FAILURES
    assert not store.check(None)
    assert store.wait() == PER_SECONDS - MAX_FAILURES
    clock.now = 100 + PER_SECONDS
    assert store.check(right)
    assert not store.check("wrong")
    with pytest.raises(RateLimited):
        store.check(right)


def test_whoever_forgets_the_token_is_not_locked_out(store: TokenStore) -> None:
    for given in (None, "") * MAX_FAILURES:
        assert not store.check(given)
    assert store.check(store.token())


def test_right_tokens_count_for_nothing(store: TokenStore) -> None:
    right = store.token()
    for _ in range(3 * MAX_FAILURES):
        assert store.check(right)


def test_wrong_tokens_now_and_then_do_not_lock_anybody_out(store: TokenStore, clock: Clock) -> None:
    for _ in range(3 * MAX_FAILURES):
        assert not store.check("wrong")
        clock.now += PER_SECONDS / MAX_FAILURES


def test_whoever_guesses_locks_out_nobody_else(store: TokenStore) -> None:
    for _ in range(MAX_FAILURES):
        store.check("wrong", "one")
    assert store.wait("one") > 0
    assert store.wait("other") == 0
    assert store.check(store.token(), "other")


def test_only_so_many_are_counted_and_one_who_goes_on_guessing_is_not_forgotten(
    store: TokenStore,
) -> None:
    for at in range(MAX_FAILURES):
        for other in range(MAX_KNOWN // MAX_FAILURES):
            store.check("wrong", f"{at} {other}")
        store.check("wrong", "one")
    assert store.wait("one") > 0
    for other in range(MAX_KNOWN):
        store.check("wrong", f"later {other}")
    assert store.wait("one") == 0
