"""The journal on a machine of paper: whose processes are ended, and whose are not."""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING

from pilothouse.hub.workers.leftovers import COMPACT_AT, SUFFIX, Leftovers, sweep

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HUB = os.getpid()


class PaperMachine:
    """Processes by number, each with its start time."""

    def __init__(self) -> None:
        self.living = {HUB: "1"}
        self.killed: list[int] = []
        self.booted = "boot 1"

    def started(self, pid: int) -> str:
        return self.living.get(pid, "")

    def boot(self) -> str:
        return self.booted

    def kill(self, pid: int, start: str) -> bool:
        if self.living.get(pid) != start:
            return False
        del self.living[pid]
        self.killed.append(pid)
        return True


def crashed(folder: Path, machine: PaperMachine, *pids: int) -> Leftovers:
    """A hub that started these and died."""
    journal = Leftovers(folder, machine)
    for pid in pids:
        machine.living[pid] = f"start of {pid}"
        journal.add(pid)
    machine.living[HUB] = "2"  # the number went to another process
    return journal


def test_what_a_crash_left_is_ended_once(tmp_path: Path) -> None:
    machine = PaperMachine()
    crashed(tmp_path, machine, 5, 6)
    assert sweep(tmp_path, machine) == [5, 6]
    assert sweep(tmp_path, machine) == []
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_lives_is_left_alone(tmp_path: Path) -> None:
    machine = PaperMachine()
    journal = Leftovers(tmp_path, machine)
    machine.living[5] = "now"
    journal.add(5)
    assert sweep(tmp_path, machine) == []
    assert len(list(tmp_path.iterdir())) == 1
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_what_had_ended_is_not_looked_for(tmp_path: Path) -> None:
    machine = PaperMachine()
    journal = crashed(tmp_path, machine, 5, 6)
    journal.remove(5)
    assert sweep(tmp_path, machine) == [6]


def test_a_number_that_was_used_again_is_somebody_else_s(tmp_path: Path) -> None:
    wrong = 0
    for seed in range(1000):
        chance = random.Random(seed)
        machine = PaperMachine()
        pids = chance.sample(range(2, 40), 10)
        pids = [pid for pid in pids if pid != HUB]
        crashed(tmp_path, machine, *pids)
        again = [pid for pid in pids if chance.random() < 0.5]
        machine.living |= dict.fromkeys(again, "later")
        sweep(tmp_path, machine)
        wrong += sum(pid not in machine.living for pid in again)
        assert set(machine.killed) == set(pids) - set(again), f"seed {seed}"
    assert wrong == 0


def test_after_a_boot_all_numbers_are_somebody_else_s(tmp_path: Path) -> None:
    machine = PaperMachine()
    crashed(tmp_path, machine, 5)
    machine.booted = "boot 2"
    assert sweep(tmp_path, machine) == []
    assert list(tmp_path.iterdir()) == []


def test_half_a_line_and_a_file_of_nonsense_stop_nothing(tmp_path: Path) -> None:
    machine = PaperMachine()
    crashed(tmp_path, machine, 5)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + '{"pid": 6, "sta')
    (tmp_path / f"1{SUFFIX}").write_bytes(b"\xff\x00[1]\nnull\n")
    assert sweep(tmp_path, machine) == [5]
    assert list(tmp_path.iterdir()) == []


def test_the_run_folder_of_a_crash_is_removed(tmp_path: Path) -> None:
    machine = PaperMachine()
    run = tmp_path / "run"
    (run / "deep").mkdir(parents=True)
    journals = tmp_path / "journals"
    journals.mkdir()
    Leftovers(journals, machine, run)
    machine.living[HUB] = "2"
    sweep(journals, machine)
    assert not run.exists()
    assert list(journals.iterdir()) == []


def test_a_run_folder_that_is_still_held_is_left_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = PaperMachine()
    run = tmp_path / "run"
    run.mkdir()
    journals = tmp_path / "journals"
    journals.mkdir()
    Leftovers(journals, machine, run)
    machine.living[HUB] = "2"
    with monkeypatch.context() as held:
        held.setattr(shutil, "rmtree", lambda folder, ignore_errors: None)
        sweep(journals, machine)
    assert len(list(journals.iterdir())) == 1
    sweep(journals, machine)
    assert not run.exists()
    assert list(journals.iterdir()) == []


def test_the_file_does_not_grow_with_the_hub_s_age(tmp_path: Path) -> None:
    machine = PaperMachine()
    journal = crashed(tmp_path, machine, 5)
    machine.living[HUB] = "1"
    for pid in range(100, 100 + 2 * COMPACT_AT):
        machine.living[pid] = "now"
        journal.add(pid)
        journal.remove(pid)
    (path,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) <= COMPACT_AT + 10
    machine.living[HUB] = "2"
    assert sweep(tmp_path, machine) == [5]
