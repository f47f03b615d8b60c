"""The access token of the intercept group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pilothouse.core.declare.faults import RateLimited
from pilothouse.core.secrets.check import MAX_FAILURES
from pilothouse.intercept.token import FORM, LENGTH, make_token, token_check
from pilothouse.machine.secret_file import SecretFile

if TYPE_CHECKING:
    from pathlib import Path


def test_a_token_is_twenty_letters_and_never_the_same() -> None:
    made = {make_token() for _ in range(100)}
    assert len(made) == 100
    assert {len(token) for token in made} == {LENGTH}
    assert all(FORM.fullmatch(token) for token in made)


def test_the_token_of_the_file_is_right_and_whoever_guesses_is_told_the_command(
    tmp_path: Path,
) -> None:
    secret = SecretFile(tmp_path / "token", FORM, make_token)
    tokens = token_check(secret)
    assert tokens.check(secret.value())
    for _ in range(MAX_FAILURES):
        assert not tokens.check("wrong")
    with pytest.raises(RateLimited) as caught:
        tokens.check(secret.value())
    assert "pilothouse token" in caught.value.hint
