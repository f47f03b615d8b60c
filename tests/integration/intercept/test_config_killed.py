"""Whoever is killed while it replaces the configuration leaves the old one or the new one."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.intercept.config import store as config_store
from pilothouse.intercept.config.store import ConfigStore
from tests.support.rounds import ROUNDS

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path
    from types import FrameType

GUARD_S = 60
RULES = 150
SPAWN = multiprocessing.get_context("spawn")


def numbered(number: int) -> dict[str, Any]:
    """A configuration that shows its number in every rule."""
    rule = {"direction": "ALL", "method": "SIMPLE", "replaced": str(number) * 50}
    rules = [{**rule, "pattern": str(at)} for at in range(RULES)]
    return {"listenPorts": [], "servers": [], "modifications": rules, "sslPassThroughs": []}


def number_of(config: dict[str, Any]) -> int:
    """Which configuration this is; it must be one from its first rule to its last."""
    rules = config["modifications"]
    assert [rule["pattern"] for rule in rules] == [str(at) for at in range(RULES)]
    (replaced,) = {str(rule["replaced"]) for rule in rules}
    number = replaced[: len(replaced) // 50]
    assert replaced == number * 50
    return int(number)


def store_in(folder: Path) -> ConfigStore:
    return ConfigStore(folder, lambda: time.time() * 1000)


def check_backups(folder: Path, newest: int) -> None:
    """Each is whole; the first has the defaults."""
    for backup in store_in(folder).backups():
        kept = json.loads((folder / "backup" / f"{backup['backup_id']}.json").read_bytes())
        assert not kept["modifications"] or number_of(kept) <= newest


def replace_until_killed(folder: Path, first: int, done: Connection) -> None:
    store = store_in(folder)
    for number in count(first):
        store.replace(numbered(number), backup=True)
        done.send(number)


def kill_at_a_random_moment(folder: Path, first: int, seed: int) -> int:
    """The last replacement that was reported as done."""
    reader, writer = SPAWN.Pipe(duplex=False)
    child = SPAWN.Process(target=replace_until_killed, args=(folder, first, writer))
    child.start()
    writer.close()
    try:
        assert reader.poll(GUARD_S), "it never got to its first replacement"
        time.sleep(random.Random(seed).uniform(0, 0.06))
    finally:
        child.kill()
        child.join(GUARD_S)
    reported = 0
    with suppress(EOFError, OSError):  # the last report may be cut off
        while True:
            reported = reader.recv()
    reader.close()
    return reported


@pytest.mark.chaos
@pytest.mark.timeout(60 + 6 * ROUNDS)
def test_a_kill_at_any_moment_leaves_the_old_configuration_or_the_new_one(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    following = 1
    for seed in range(ROUNDS):
        done = kill_at_a_random_moment(tmp_path, following, seed)
        left = number_of(store.load().dump())
        assert left in (done, done + 1), "what was reported as done holds"
        check_backups(tmp_path, left)
        following = left + 1


def replace_and_die(folder: Path, number: int, lines: int) -> None:
    """Replace the configuration and be killed after so many lines of the store's own code."""
    left = lines

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != config_store.__file__:
            return None
        left -= event == "line"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    store_in(folder).replace(numbered(number), backup=True)
    sys.settrace(None)


def die_at_every_line(folder: Path) -> None:
    """Replace the configuration again and again, killed one line later each time."""
    store_in(folder).replace(numbered(1), backup=False)
    seen = {"old": 0, "new": 0}
    for lines in count():
        old = number_of(store_in(folder).load().dump())
        child = os.fork()  # many are needed, and a fork does not import everything again
        if child == 0:
            replace_and_die(folder, old + 1, lines)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        left = number_of(store_in(folder).load().dump())
        assert left in (old, old + 1)
        check_backups(folder, left)
        for backup in (folder / "backup").glob("*.json"):
            backup.unlink()  # the store's way is longer the more it has to look through
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            assert left == old + 1
            break
        seen["old" if left == old else "new"] += 1
    assert seen["old"] > 30
    assert seen["new"] > 3


def test_a_kill_at_every_line_of_the_store_leaves_the_old_configuration_or_the_new_one(
    tmp_path: Path,
) -> None:
    child = SPAWN.Process(target=die_at_every_line, args=(tmp_path,))
    child.start()
    child.join(GUARD_S)
    child.kill()
    assert child.exitcode == 0
