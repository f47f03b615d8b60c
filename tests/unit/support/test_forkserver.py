"""What is forked is a process like any other."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import forkserver
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.forkserver.client import Running

pytestmark = pytest.mark.process

HERE = Path(__file__).parent


def start(module: str, *args: str, **env: str) -> forkserver.Forked:
    return forkserver.start(module, *args, env={**os.environ, **env}, cwd=HERE, text=True)


def output(process: forkserver.Forked) -> tuple[str, str]:
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with process.stdin, process.stdout, process.stderr:
        process.stdin.close()
        return process.stdout.read(), process.stderr.read()


def pids() -> set[int]:
    return {process.pid for process in forkserver.living()}


def test_it_has_the_arguments_and_the_exit_code_of_its_command() -> None:
    process = start("pilothouse", "--version")
    said, _ = output(process)
    assert said.startswith("pilothouse ")
    assert process.wait(30) == 0
    wrong = start("pilothouse", "--no-such-flag")
    assert "unknown flag" in output(wrong)[1]
    assert wrong.wait(30) == 2
    assert wrong.poll() == 2


def test_it_has_an_environment_and_a_folder_of_its_own() -> None:
    process = start("tests.unit.support.shown", "MARK", MARK="mine")
    assert output(process)[0].split() == ["mine", str(HERE), str(process.pid)]
    assert process.wait(30) == 0


def test_a_signal_ends_it_and_is_its_exit_code() -> None:
    process = start("tests.unit.support.shown", "wait")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    assert process.pid in pids()
    process.kill()
    assert process.wait(30) == -signal.SIGKILL
    output(process)
    assert process.pid not in pids()


def test_a_client_can_start_it_by_a_command_line() -> None:
    command = forkserver.command("tests.unit.support.shown", "MARK")
    ran = subprocess.run(
        command, env={**os.environ, "MARK": "by"}, cwd=HERE, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout.split()[:2]) == (0, ["by", str(HERE)])


@contextmanager
def waiting_client() -> Iterator[tuple[subprocess.Popen[bytes], Running]]:
    """Yield a client that has started a process by its command line, and that process."""
    before = pids()
    command = forkserver.command("tests.unit.support.shown", "wait")
    env = {**os.environ, "MARK": "by"}
    with subprocess.Popen(command, env=env, cwd=HERE, stdin=subprocess.PIPE) as client:
        wait_until(lambda: pids() - before, "the fork")
        (process,) = (one for one in forkserver.living() if one.pid not in before)
        yield client, process


def test_what_a_client_started_is_seen_and_ends_when_the_client_is_killed() -> None:
    with waiting_client() as (client, process):
        assert process.environ["MARK"] == "by"
        client.kill()
        client.wait()
        wait_until(lambda: process.pid not in pids(), "the end of the fork")


def test_the_end_of_one_client_does_not_end_the_process_of_the_next() -> None:
    """Its connection may get the number that the one before had, while that end is being told."""
    for _ in range(10):
        with waiting_client() as (client, process):
            client.kill()
            after = start("tests.unit.support.shown", "wait")
            client.wait()
            wait_until(lambda: process.pid not in pids(), "the end of the fork")
            assert after.poll() is None
            after.kill()
            assert after.wait(30) == -signal.SIGKILL
            output(after)
