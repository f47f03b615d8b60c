"""Processes are told with what they were started with, though each is read once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import process_table
from tests.support.until import wait_until

pytestmark = pytest.mark.process

WAITS = "import sys; sys.stdin.read()"


def started(pid: int) -> process_table.Started:
    return dict(process_table.processes())[pid]


def test_a_process_has_its_words_and_its_environment() -> None:
    argv = [sys.executable, "-c", WAITS, "a word", ""]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env={"ONE": "a=b", "TWO": ""}) as child:
        found = wait_until(lambda: one if (one := started(child.pid)).words == argv else None)
        assert (found.variable("ONE"), found.variable("TWO")) == ("a=b", "")
        assert found.variable("THREE") is None
        child.communicate()


def test_a_fork_that_becomes_another_program_is_read_again() -> None:
    script = "echo; read line; ONE=new exec cat"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", script], env={"ONE": "old"}, **pipes) as child:  # type: ignore[call-overload]
        child.stdout.readline()
        assert (started(child.pid).words[0], started(child.pid).variable("ONE")) == ("sh", "old")
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_until(lambda: started(child.pid).words == ["cat"])
        assert started(child.pid).variable("ONE") == "new"
        child.communicate()


def test_what_was_read_of_a_young_process_alone_is_read_again_however_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_table, "SETTLED_S", 0.0)
    assert started(os.getpid()).words
    known = process_table._known[os.getpid()]
    known.started, known.is_settled = process_table.Started(b"a fork\0", b""), False
    assert started(os.getpid()).words != ["a fork"]


def test_what_has_settled_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "SETTLED_S", 0.0)
    wait_until(lambda: process_table._known[os.getpid()].is_settled if started(os.getpid()) else 0)
    before = dict(process_table.processes())

    def read(pid: int, _name: str) -> bytes:
        assert pid != os.getpid()
        return b""

    monkeypatch.setattr(process_table, "_read", read)
    assert started(os.getpid()) == before[os.getpid()]


def test_a_number_that_is_given_to_another_process_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_table, "SETTLED_S", 0.0)
    other = process_table.Started(b"other\0", b"")
    process_table._known[os.getpid()] = process_table._Known(0, 0.0, other, is_settled=True)
    assert started(os.getpid()) != other


def test_below_are_children_and_theirs_but_no_zombie() -> None:
    script = "sleep 60 & echo $!; read line; kill $!; read line"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["sh", "-c", script], **pipes) as child:  # type: ignore[call-overload]
        grandchild = int(child.stdout.readline())
        assert {child.pid, grandchild} <= {*process_table.below(os.getpid())}
        child.stdin.write(b"\n")
        child.stdin.flush()
        wait_until(lambda: grandchild not in process_table.below(child.pid))
        child.stdin.close()
        child.wait(60)
    assert child.pid not in process_table.below(os.getpid())
