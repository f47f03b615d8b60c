"""`pilothouse status`, `stop` and `logs`: what a person asks of the hub of a home."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pilothouse.hub.control.protocol import ask
from pilothouse.hub.files import hub_files
from pilothouse.ipc.local_socket import listening_pid

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pilothouse.core.settings import Settings
    from pilothouse.hub.files import HubFiles

STOP_S = 30.0
"""Seconds that a hub may take to end its workers."""
LOOK_S = 0.2
_SESSION_HEAD = ("SESSION", "CLIENT", "LAST SEEN", "WORKER", "STATE", "MEMORY")
_KEPT_HEAD = ("KEPT ON DISK", "ENTRIES", "SIZE", "CAP")
NONE = "no hub is running for this home; a client or `pilothouse serve` starts one\n"


def main(command: str, settings: Settings, parsed: argparse.Namespace) -> int:
    """Run one of the commands; the exit code is 1 when there is no hub to ask."""
    files = hub_files(settings.home, os.environ)
    try:
        match command:
            case "status":
                return _status(files, settings, as_json=parsed.json)
            case "stop":
                return _stop(files)
        return _logs(files, parsed.lines, follow=parsed.follow)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"pilothouse: the hub at {files.socket} does not answer: {error}\n")
        return 1


def _status(files: HubFiles, settings: Settings, *, as_json: bool) -> int:
    told = ask(str(files.socket), {"status": True})
    if told is None:
        sys.stderr.write(NONE)
        # What is kept lies there all the same, and nobody may be about to sweep it.
        kept = _usage(settings)
        text = "\n".join(_table(_KEPT_HEAD, map(_kept_row, kept)))
        sys.stdout.write((json.dumps({"kept": kept}, indent=2) if as_json else text) + "\n")
        return 1
    status = {**told["status"], "kept": _kept(told["status"], settings)}
    sys.stdout.write(json.dumps(status, indent=2) + "\n" if as_json else shown(status))
    return 0


def _kept(status: dict[str, Any], own: Settings) -> list[dict[str, Any]]:
    """Measure what the hub of this home and its sessions keep on disk, under the hub's caps."""
    from pilothouse.core.settings import unpacked

    hubs = unpacked(status["settings"])
    # A relative home would be another one from here; a store is a session's own.
    settings = replace(hubs, home=own.home, store=hubs.store or own.store)
    return _usage(settings)


def _usage(settings: Settings) -> list[dict[str, Any]]:
    from pilothouse.machine.state.places import usage

    return usage(settings, os.environ, time.time())


def shown(status: dict[str, Any]) -> str:
    """Describe a hub's status for people. Pure."""
    lines = [
        f"Pilothouse {status['version']} at {status['url']}, pid {status['pid']},"
        f" up {status['uptime']:.0f} s",
        f"{_counted(status['sessions'], 'session')} ({status['relays']} on stdio),"
        f" {_counted(status['workers'], 'worker')} with {_mb(status['memory'])},"
        f" {_counted(status['queued'], 'call')} waiting",
    ]
    lines += [f"{name}: {where}" for name, where in status["services"].items()]
    if status["seats"]:
        lines += ["", *_table(_SESSION_HEAD, map(_row, status["seats"]))]
    if kept := status.get("kept"):
        lines += ["", *_table(_KEPT_HEAD, map(_kept_row, kept))]
    if swept := status.get("swept"):
        lines.append(
            f"last swept at {swept['at']}: {swept['removed']} removed, {_mb(swept['bytes'])}"
        )
        lines += [f"not swept: {failure}" for failure in swept["failed"]]
    return "\n".join(lines) + "\n"


def _table(head: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> list[str]:
    rows = [head, *body]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _kept_row(row: dict[str, Any]) -> tuple[str, ...]:
    name = f"  {row['kind']}" if "of" in row else row["kind"]
    return name, str(row["entries"]), _size(row["bytes"]), row["cap"]


def _row(seat: dict[str, Any]) -> tuple[str, ...]:
    pid = seat["pid"]
    memory = _mb(seat["memory"]) if seat["memory"] else ""
    seen = f"{seat['seen_s']:.0f} s ago"
    return seat["name"], seat["client"], seen, str(pid or "none"), seat["state"], memory


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(size: int) -> str:
    return _mb(size) if size >= 1 << 20 else f"{size / (1 << 10):,.0f} KB"


def _mb(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MB"


def _stop(files: HubFiles) -> int:
    """End the hub: whoever holds the lock, be it that it starts or ends just now."""
    until = time.monotonic() + STOP_S
    is_there = is_asked = False
    while (held := files.hold()) is None:
        is_there = True
        is_asked = is_asked or _ask_to_stop(files)
        if time.monotonic() > until:
            sys.stderr.write(f"pilothouse: the hub has not ended within {STOP_S:g} s\n")
            return 1
        time.sleep(LOOK_S / 4)
    os.close(held)
    if not is_there:
        sys.stderr.write(NONE)
        return 1
    sys.stdout.write("the hub has ended\n")
    return 0


def _ask_to_stop(files: HubFiles) -> bool:
    """Return whether the hub got the request. One that does not answer is ended by force."""
    try:
        return ask(str(files.socket), {"stop": True}) is not None
    except ConnectionError:  # it is about to end already
        return True
    except TimeoutError:
        pid = listening_pid(str(files.socket))
        if not pid:
            raise
        sys.stderr.write(f"pilothouse: the hub (pid {pid}) does not answer; it is ended by force\n")
        os.kill(pid, signal.SIGKILL)
        return True


def _logs(files: HubFiles, lines: int, *, follow: bool) -> int:
    try:
        end = _tail(files, lines)
    except FileNotFoundError:
        sys.stderr.write(
            "pilothouse: there is no log: a hub that a client starts writes one,"
            " `pilothouse serve` writes to its own terminal\n"
        )
        return 1
    if follow:
        for piece in _more(files.log, end):
            sys.stdout.write(piece)
            sys.stdout.flush()
    return 0


def _tail(files: HubFiles, lines: int) -> int:
    """Print the last lines; return where the log ends."""
    last: deque[str] = deque(maxlen=max(0, lines))
    if files.older_log.exists():
        last.extend(files.older_log.read_text(errors="replace").splitlines(keepends=True))
    with files.log.open(errors="replace") as log:
        last.extend(log)
        sys.stdout.write("".join(last))
        return log.tell()


def _more(path: Path, end: int) -> Iterator[str]:
    """Yield what is appended from now on, until interrupted."""
    while True:
        time.sleep(LOOK_S)
        if path.stat().st_size < end:
            end = 0  # it began anew
        with path.open(errors="replace") as log:
            log.seek(end)
            piece = log.read()
            end = log.tell()
        if piece:
            yield piece
