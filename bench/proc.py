"""How much memory a server takes: the proportional set size (PSS) of its process tree.

PSS divides each shared page by the number of processes that map it, so that the numbers of a
tree add up; RSS would count a shared page once per process. Only Linux has PSS; elsewhere RSS
stands in for it.
"""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

PROC = Path("/proc")


def tree_pss(pid: int, without: str = "") -> int:
    """Bytes of PSS summed over `pid` and all its descendants.

    Those whose command has the word `without` in its path are left out.
    """
    if not (PROC / "self" / "smaps_rollup").exists():
        return _tree_rss(pid)
    tree = descendants_of(pid)
    return sum(_pss(process) for process in tree if not without or without not in _program(process))


def descendants_of(pid: int) -> list[int]:
    """`pid` and everything below it now."""
    return list(descendants(pid, _parents()))


def _program(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def rss(pid: int) -> int:
    """Bytes of RSS of one process, by which a growth is judged."""
    return psutil.Process(pid).memory_info().rss


def settled(read: Callable[[], int], *, within: float = 5.0, step: float = 0.15) -> int:
    """A reading of memory once two of them a `step` apart differ by under 1 %.

    Right after its answer a server still loads and frees things; a reading at a fixed delay would
    catch each contender at a different point. If it still moves at the deadline, the last reading
    counts.
    """
    deadline = time.monotonic() + within
    before = read()
    while True:
        time.sleep(step)
        now = read()
        if abs(now - before) < before / 100 or time.monotonic() > deadline:
            return now
        before = now


def descendants(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """`pid` and everything below it, given each process's parent."""
    yield pid
    for child, parent in parents.items():
        if parent == pid:
            yield from descendants(child, parents)


def parse_pss(rollup: str) -> int:
    """The `Pss:` line of a smaps_rollup file, in bytes (the kernel writes kB)."""
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no 'Pss:' line in smaps_rollup")


def _pss(pid: int) -> int:
    try:
        return parse_pss((PROC / str(pid) / "smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0  # ended between being listed and being read


def _parents() -> dict[int, int]:
    parents = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may itself hold spaces and parentheses.
            _, _, fields = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(stat.parent.name)] = int(fields.split()[1])
    return parents


def _tree_rss(pid: int) -> int:
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True
    ).stdout
    rows = [tuple(map(int, line.split())) for line in listing.splitlines()]
    rss = {process: kilobytes * 1024 for process, _, kilobytes in rows}
    parents = {process: parent for process, parent, _ in rows}
    return sum(rss.get(process, 0) for process in descendants(pid, parents))
