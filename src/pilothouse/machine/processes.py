"""What the hub asks about processes of this machine: memory, and who is who.

A process is known by its number and its start time, because numbers are used again.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.machine.reaper import look, send_to

if TYPE_CHECKING:
    from collections.abc import Iterable

PROC = Path("/proc")
HAS_PROC = (PROC / "self" / "smaps_rollup").exists()


def started(pid: int) -> str:
    """Return when a process that lives was started, in this machine's own form; '' if none does."""
    if HAS_PROC:
        found = look(pid)
        return found[2].decode() if found is not None and found[0] else ""
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


def boot() -> str:
    """Return an id of this run of the machine: its processes are not those of the one before."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return str(psutil.boot_time())


def kill(pid: int, start: str) -> bool:
    """End a process and all below it by force, if it still is the one that started then."""
    if HAS_PROC:
        below = _below([pid], _children())[pid]
        times = [(one, started(one)) for one in below if one != pid]
        if not send_to(pid, start.encode(), signal.SIGKILL):
            return False
        for one, time in times:
            send_to(one, time.encode(), signal.SIGKILL)
        return True
    if started(pid) != start:
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def machine_memory() -> int:
    """Return the bytes that this machine has, or that our control group may use."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    return min(whole, int(allowed)) if allowed.isdecimal() else whole


async def memory(pids: Iterable[int]) -> dict[int, int]:
    """Return the bytes that each process uses together with all below it.

    Shared pages are counted in parts (PSS), so that the numbers add up. Elsewhere than on Linux
    they are counted whole.
    """
    return await asyncio.to_thread(_memory, list(pids))


def _memory(pids: list[int]) -> dict[int, int]:
    if HAS_PROC:
        families = _below(pids, _children())
        return {pid: sum(map(_pss, family)) for pid, family in families.items()}
    import psutil

    used = {}
    for pid in pids:
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
            used[pid] = sum(one.memory_info().rss for one in family)
        except psutil.Error:
            used[pid] = 0
    return used


def _pss(pid: int) -> int:
    try:
        rollup = (PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return 0  # it has ended
    line = next((line for line in rollup.splitlines() if line.startswith("Pss:")), "Pss: 0")
    return int(line.split()[1]) * 1024


def _children() -> dict[int, list[int]]:
    """Return the children of each process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(PROC):
        if name.isdigit() and (found := look(int(name))):
            children.setdefault(found[1], []).append(int(name))
    return children


def _below(pids: list[int], children: dict[int, list[int]]) -> dict[int, list[int]]:
    families = {}
    for pid in pids:
        family = [pid]
        for one in family:  # it grows while we go through it
            family += children.get(one, [])
        families[pid] = family
    return families
