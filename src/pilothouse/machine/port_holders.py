"""Who listens on the ports of this machine, for whoever wanted one that is taken."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that listens on a port; the pid is 0 where the system does not tell."""

    pid: int = 0
    name: str = ""
    is_pilothouse: bool = False

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})" if self.pid else "a process hidden from this user"


def listeners() -> dict[int, Holder]:
    """Return every listening TCP port and its holder, as far as this user may know them."""
    try:
        sockets = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:  # macOS tells only root
        return {}
    found: dict[int, Holder] = {}
    for entry in sockets:
        if entry.status != psutil.CONN_LISTEN or not entry.laddr:
            continue
        if not found.get(entry.laddr.port, Holder()).pid:
            found[entry.laddr.port] = _holder(entry.pid)
    return found


def _holder(pid: int | None) -> Holder:
    if not pid:
        return Holder()
    try:
        process = psutil.Process(pid)
        name, words = process.name(), process.cmdline()
    except psutil.Error:
        return Holder(pid, "a process")
    ours = words[1:3] == ["-m", "pilothouse"] or any(
        os.path.basename(word) == "pilothouse" for word in words[:2]
    )
    return Holder(pid, name, ours)


def port_trouble(port: int, error: OSError, host: str = "") -> str:
    """Return why a port cannot be had, and who has it where that can be known."""
    where = f"port {port} on {host}" if host else f"port {port}"
    if error.errno != errno.EADDRINUSE:
        return f"{where} cannot be used ({error.strerror})"
    holder = listeners().get(port)
    return f"{where} is taken by {holder or 'a process that has not been found'}"
