"""Known secrets by the hundred: all are found, and nobody else waits for it."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.secrets.needles import Needles
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from tests.support.rounds import examples

_WORDS = st.text("abc[]", min_size=4, max_size=6)
TURNS = 20
"""That another thread gets meanwhile, at least; a pattern of all of them left it hardly any."""


@given(st.lists(_WORDS, max_size=120), st.lists(_WORDS | st.just(MASK), max_size=20).map("".join))
@settings(max_examples=examples(200))
def test_each_is_found_and_gone_outside_of_masks(words: list[str], text: str) -> None:
    needles = Needles(words)
    assert {*needles.found_in(text)} == {word for word in words if word in text}
    masked = needles.mask(text)
    assert needles.mask(masked) == masked
    for part in masked.split(MASK):
        assert not any(word in part for word in words)


@pytest.mark.parametrize(
    ("words", "text", "masked"),
    [
        (["abcd", "abcdef"], "xabcdefx", f"x{MASK}x"),
        (["abcd", "cdef"], "xabcdefx", f"x{MASK}x"),
        (["abcd"], "abcdabcd", MASK * 2),
        (["acted", "redacted"], f"a{MASK}b", f"a{MASK}b"),
        ([], "abcd", "abcd"),
    ],
)
def test_masks_are_whole(words: list[str], text: str, masked: str) -> None:
    assert Needles(words).mask(text) == masked
    assert Needles([*words, *(f"none of it {n}" for n in range(100))]).mask(text) == masked


@pytest.mark.parametrize("repeated", [0, 1], ids=["none is there", "all are there"])
def test_hundreds_of_secrets_in_a_large_text_hold_nobody_up(repeated: int) -> None:
    chance = random.Random(7)
    secrets = [chance.randbytes(12).hex() for _ in range(300)]
    text = chance.randbytes(2 * 2**20).hex() + " ".join(secrets * repeated)
    redactor = Redactor().learn(*secrets)
    worker = threading.Thread(target=redactor.header, args=("Accept", text))
    turns = 0
    worker.start()
    while worker.is_alive():
        worker.join(0.01)
        turns += 1
    assert turns >= TURNS


def test_a_secret_with_half_of_a_character_is_learned() -> None:
    redactor = Redactor().learn("abcdefgh1\ud83d")
    assert redactor.text("it is abcdefgh1\ud83d") == f"it is {MASK}"
    assert redactor.text(r"it is abcdefgh1\ud83d") == f"it is {MASK}"
