"""What a run of `make fuzz` reports as a trouble, and which of its inputs are kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz import corpus
from tests.fuzz.corpus import SLOW_TOGETHER_S, Keeper, kept_calls, kept_frames
from tests.fuzz.judge import Figures
from tests.fuzz.lanes import FrameLane
from tests.fuzz.pipe import PipePlace
from tests.fuzz.run import GROWTH_MB, ended, grown

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PIPE_ROUNDS = 150


@dataclass
class Process:
    code: int | None

    def poll(self) -> int | None:
        return self.code


def test_a_process_that_has_ended_is_named_whichever_it_is() -> None:
    processes = {"the hub": Process(None), "standalone a": Process(-9), "standalone b": Process(0)}
    assert list(ended(processes)) == [
        "standalone a has ended with -9",
        "standalone b has ended with 0",
    ]


def test_memory_that_grows_or_that_cannot_be_compared_is_a_trouble() -> None:
    at_rest = [100.0, 200.0, 200.0 + GROWTH_MB]
    assert list(grown({"a": at_rest})) == []
    (told,) = grown({"a": [100.0, 200.0, 201.0 + GROWTH_MB]})
    assert "has grown" in told
    for few in ([], [1.0], [1.0, 2.0]):
        (told,) = grown({"a": at_rest, "b": few})
        assert told == f"b has ended too few sessions to compare its memory: {len(few)}"


def test_what_broke_something_is_kept_first_then_what_was_slow_then_of_each_way_the_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MENDED", "CALLS", "FRAMES"):
        monkeypatch.setattr(corpus, name, tmp_path / name)
        (tmp_path / name).touch()
    keeper = Keeper()
    keeper.add_call("find", {"a": "b"}, "ok", 0.1, broke=False)
    keeper.add_call("find", {"a": "long"}, "ok", 0.1, broke=False)
    keeper.add_call("find", {"a": "other"}, "INVALID_INPUT", 0.1, broke=False)
    keeper.add_call("click", {"a": "x" * 5_000}, "ok", 0.1, broke=False)
    keeper.add_call("click", {"a": "too slow"}, "ok", SLOW_TOGETHER_S, broke=False)
    for number in range(9):
        keeper.add_call("click", {"slow": number}, "ok", 1 + number / 100, broke=False)
    keeper.add_call("endSession", {}, "ok", 0.1, broke=False)
    keeper.add_call("endSession", {"a": "y" * 5_000}, "internal", 30, broke=True)
    keeper.add_frames("mcp", [b"GET \xff"], 0.1, broke=False)
    keeper.add_frames("mcp", [b"X"], 0.1, broke=True)
    keeper.write()
    kept = [(call.tool, call.arguments) for call in kept_calls()]
    assert kept[0] == ("endSession", {"a": "y" * 5_000})
    assert kept[1:4] == [("click", {"slow": number}) for number in (8, 7, 6)]
    assert kept[4:] == [("find", {"a": "long"}), ("find", {"a": "other"})]
    assert [one.frames for one in kept_frames()] == [[b"X"], [b"GET \xff"]]


def test_a_shared_pipe_takes_whatever_a_browser_or_a_driver_says() -> None:
    figures, random, place = Figures(), Random(1), PipePlace()
    sender = FrameLane((), random, figures)
    for _ in range(PIPE_ROUNDS):
        sender.send(place, place.draw(random))
    assert figures.incidents == []
    assert figures.frames == {"pipe": PIPE_ROUNDS}


def test_a_pipe_that_ends_is_an_incident(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(message: bytes) -> None:
        raise ValueError("not this one")

    monkeypatch.setattr("pilothouse.machine.chromium.shared_pipe.is_about_leaving", broken)
    place = PipePlace()
    place.send([b"B" + json.dumps({"method": "x"}).encode() + b"\0"])
    assert "not this one" in place.trouble()
    assert "a sound message does not arrive" in place.trouble()
