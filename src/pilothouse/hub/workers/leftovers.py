"""What a hub has started, written down, so that the next one can clear up after a crash.

Whatever a hub starts ends with it (machine/child.py). The journal is for the day on which its
reapers were killed along with it, as a machine without memory does. A process is ended only if its
number, its start time and the machine's boot are all those that were written down: numbers are used
again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pilothouse.machine.spawn import Process, Spawn


SUFFIX = ".journal"
COMPACT_AT = 2_000
"""Lines, after which those that are over are left out."""


class Processes(Protocol):
    """The processes of this machine, as far as they are asked about."""

    def started(self, pid: int) -> str:
        """Return the start time of a process that lives; '' if there is none."""
        ...

    def boot(self) -> str: ...

    def kill(self, pid: int, start: str) -> bool:
        """End it and all below it, if it is the one that started then; return whether it was."""
        ...


class Leftovers:
    """The journal of this hub. Closing it is the sign that all went well."""

    def __init__(self, folder: Path, processes: Processes, run_folder: Path | None = None) -> None:
        """Begin the journal; `run_folder` is removed with what a crash has left in it."""
        self._processes = processes
        self._path = folder / f"{os.getpid()}{SUFFIX}"
        self._head = {
            "hub": os.getpid(),
            "start": processes.started(os.getpid()),
            "boot": processes.boot(),
            "folder": str(run_folder) if run_folder else "",
        }
        self._living: dict[int, str] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._lines = 0
        self._write_anew()

    def add(self, pid: int) -> None:
        start = self._processes.started(pid)
        if start:
            self._living[pid] = start
            self._append({"pid": pid, "start": start})

    def remove(self, pid: int) -> None:
        if self._living.pop(pid, None):
            self._append({"gone": pid})

    def keeping(self, spawn: Spawn) -> Spawn:
        """Return a spawn that also writes commands down, for as long as they live."""

        async def start(*args: Any, **wishes: Any) -> Process:
            process = await spawn(*args, **wishes)
            self.add(process.pid)
            waiting = asyncio.create_task(self._until_gone(process))
            self._waiting.add(waiting)
            waiting.add_done_callback(self._waiting.discard)
            return process

        return start

    async def _until_gone(self, process: Process) -> None:
        await process.wait_gone()
        self.remove(process.pid)

    def close(self) -> None:
        """Remove the journal: nothing lives any more."""
        for waiting in self._waiting:
            waiting.cancel()
        self._path.unlink(missing_ok=True)

    def _append(self, row: dict[str, Any]) -> None:
        self._lines += 1
        if self._lines > COMPACT_AT + 2 * len(self._living):
            self._write_anew()
        else:
            with self._path.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def _write_anew(self) -> None:
        rows = [self._head, *({"pid": pid, "start": at} for pid, at in self._living.items())]
        fresh = self._path.with_suffix(".new")
        fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
        fresh.replace(self._path)
        self._lines = len(rows)


def sweep(folder: Path, processes: Processes) -> list[int]:
    """Clear up after hubs of this folder that are no more; return the pids that had to be ended."""
    killed: list[int] = []
    for path in folder.glob(f"*{SUFFIX}"):
        rows = list(_rows(path))
        head = rows[0] if rows and "hub" in rows[0] else None
        same_boot = head is not None and head["boot"] == processes.boot()
        if head is not None and same_boot and processes.started(head["hub"]) == head["start"]:
            continue  # it lives
        if same_boot:
            killed += [pid for pid, at in _left(rows).items() if processes.kill(pid, at)]
        if head is not None and head["folder"]:
            shutil.rmtree(head["folder"], ignore_errors=True)
            if os.path.exists(head["folder"]):
                continue  # who was killed just now still held it: the next start tries again
        path.unlink(missing_ok=True)
    return killed


def _left(rows: list[dict[str, Any]]) -> dict[int, str]:
    left: dict[int, str] = {}
    for row in rows[1:]:
        if "gone" in row:
            left.pop(row["gone"], None)
        elif "pid" in row:
            left[row["pid"]] = row["start"]
    return left


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield rows as far as they can be read: the last line of a crash may be half a line."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row
