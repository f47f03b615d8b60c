"""Patterns made to be slow: RE2 refuses them or is done soon, and nobody else waits."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import TYPE_CHECKING

import pytest

from pilothouse.intercept.model import BadFilter
from pilothouse.intercept.ports import HistoryAsk
from pilothouse.intercept.query.reader import HistoryReader
from tests.support.beats import beating
from tests.support.packets import History, made

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MEGABYTE = 1 << 20
TEXTS = {
    "a": b"a" * MEGABYTE,
    "ab": b"ab" * (MEGABYTE // 2),
    "mixed": bytes(range(32, 127)) * (MEGABYTE // 95),
    "random": bytes(random.Random(1).choices(b"ab", k=MEGABYTE)),
}
GUARD_S = 1.5
"""Five times the 300 ms that each may take."""


def evil_patterns() -> list[str]:
    """Two hundred: nested repeats, overlapping choices, large counts, wide classes, deep groups."""
    atoms = ["a", "[ab]", r"\w", "(a|aa)", "(a|ab|b)", r"\s", ".", "(?i:a)"]
    shapes = ["({0}+)+$", "({0}*)*$", "({0}|{0})*$", "^({0}+)+!", "({0}*{0}*)*!", "{0}*{0}*{0}*!"]
    patterns = [shape.format(atom) for atom, shape in itertools.product(atoms, shapes)]
    counts = [5, 20, 50, 100, 200, 500, 1000]
    counted = ["({0}){{{1}}}$", "({0}?){{{1}}}a{{{1}}}!", "({0}{{1,{1}}})+!", "(.*{0}){{{1}}}!"]
    patterns += [
        shape.format(atom, count)
        for shape, count, atom in itertools.product(counted, counts, ["a", "[a-b]", r"\w"])
    ]
    patterns += [f"({'a?' * n}){'a' * n}!" for n in (10, 30, 100, 300)]
    patterns += ["(" * n + "a" + ")*" * n + "!" for n in (10, 50, 200)]
    patterns += [f"(x+x+)+{'y' * n}" for n in range(1, 20)]
    patterns += [rf"\pL{{{n}}}\pN\b.*!" for n in (2, 10, 50)]
    patterns += [f"[ab]*a[ab]{{{n}}}!" for n in range(5, 500, 10)]
    return patterns[-200:]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryReader]:
    path: Path = tmp_path_factory.mktemp("evil") / "history.db"
    history = History(path)
    for body in TEXTS.values():
        history.add(made("POST", "/evil", response=body))
    reader = HistoryReader(path)
    yield reader
    reader.close()
    history.close()


def judged(reader: HistoryReader, pattern: str, packet: int) -> float | None:
    """Seconds of the CPU for one packet of a megabyte; None if the pattern was refused."""
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    ask = HistoryAsk(filter=f'id == {packet} && response =~ "{quoted}"', limit=1)
    started = time.thread_time()
    try:
        reader.page(ask)
    except BadFilter:
        return None
    return time.thread_time() - started


def test_two_hundred_evil_patterns_are_refused_or_done_soon(reader: HistoryReader) -> None:
    patterns = evil_patterns()
    assert len(set(patterns)) == 200
    slow: dict[str, float] = {}
    refused = 0
    for at, pattern in enumerate(patterns):
        took = judged(reader, pattern, 2 + 2 * (at % len(TEXTS) if "*a[ab]" not in pattern else 3))
        refused += took is None
        if took is not None and took > GUARD_S:
            slow[pattern] = took
    assert slow == {}
    assert 0 < refused < 50


def test_a_text_that_a_pattern_takes_too_long_for_is_told(reader: HistoryReader) -> None:
    for operator in ("=~", "!~"):
        page = reader.page(HistoryAsk(filter=f"id == 8 && response {operator} [ab]*a[ab]{{400}}!"))
        assert page.rows == []
        assert "would take too long on 1 large texts" in page.warning
        assert "packets 8" in page.warning
    quick = reader.page(HistoryAsk(filter="id == 8 && response =~ [ab]*a[ab]{5}a$"))
    assert "too long" not in quick.warning


@pytest.mark.anyio
async def test_the_event_loop_goes_on_while_a_pattern_is_tried(reader: HistoryReader) -> None:
    for pattern in ("(.*a){20}!", "(a?){50}a{50}!", "(a|aa)*$!"):
        async with beating() as beats:
            took = await asyncio.to_thread(judged, reader, pattern, 2)
        # A pattern that held the interpreter's lock would let none through, or one before it.
        assert took is None or took < 0.1 or len(beats) > 2, pattern
