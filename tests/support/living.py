"""Processes that are still there, found by a mark in their environment.

Children get few variables (core/child_env.py), but all of the family LC_: so the marks of tests are
named like that, which no program minds.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import psutil

from tests.support import forkserver, process_table


def living(mark: str, *, variable: str = "LC_MARK", named: str = "") -> list[psutil.Process]:
    """Return all that inherited LC_MARK=mark and are no zombies; with `named` also those that have
    it in their command line, for what is started with another environment."""
    # Of a forked process the system shows the environment of the fork server.
    forked = {child.pid: child.environ for child in forkserver.living()}
    found = []
    for pid, started in process_table.processes():
        has = forked[pid].get(variable) if pid in forked else started.variable(variable)
        if has == mark or (named != "" and named in " ".join(started.words)):
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def workers(mark: str) -> list[psutil.Process]:
    """Return the living that a parent of workers has forked: they have its own command line."""
    family = {one.pid: one for one in living(mark)}
    found = []
    for one in family.values():
        with suppress(psutil.Error):  # it is just ending
            parent = family.get(one.ppid())
            if parent is not None and parent.cmdline() == one.cmdline():
                found.append(one)
    return found


def commands_below(pid: int) -> frozenset[str]:
    """Return the commands of all processes below one, each with how often it runs: of a browser its
    first alone, and without Playwright's driver, which the first session starts for all."""
    started = dict(process_table.processes())
    commands: Counter[str] = Counter()
    for child in process_table.below(pid):
        words = started[child].words if child in started else []
        if words and not any(w.startswith("--type=") or w == "run-driver" for w in words):
            commands[" ".join(words)[:300]] += 1
    return frozenset(f"{many} × {command}" for command, many in commands.items())


def none_left(left: list[psutil.Process]) -> None:
    """End what a test has left behind, and fail if there is any."""
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    assert left == []
