"""Facts about this machine that take a process, a socket or a look at the disk to learn.

Nothing here judges; checks.py says what a fact means and how to mend it. Whatever is started is
ended before the function returns, and also when the doctor itself is killed.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from pilothouse.core.child_env import browser_environment
from pilothouse.machine.chromium.finder import WITH_LIFELINE, needs_no_sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION_DEADLINE_SEC = 5.0
START_DEADLINE_SEC = 10.0
POLL_SEC = 0.01
TEMP_PREFIX = "pilothouse-doctor-"


def browser_version(path: Path, deadline_sec: float = VERSION_DEADLINE_SEC) -> tuple[bool, str]:
    """Return whether `--version` answers as a browser does, and the answer or why not."""
    environ = browser_environment(os.environ)
    try:
        with _own_group([str(path), "--version"], stdin=subprocess.DEVNULL, env=environ) as child:
            output, errors = child.communicate(timeout=deadline_sec)
    except subprocess.TimeoutExpired:
        return False, f"--version did not answer within {deadline_sec:g} s"
    except OSError as error:
        return False, error.strerror or str(error)
    said = output.decode(errors="replace").strip()
    if child.returncode:
        line = _telling_line(errors.decode(errors="replace"))
        return False, f"--version {_ended(child.returncode)}{line and ': '}{line}"
    version = re.search(r"^.*\d+(\.\d+){3}.*$", said, re.MULTILINE)
    return (True, version.group().strip()) if version else (False, "it gives no browser's version")


@dataclass(frozen=True, slots=True)
class Start:
    """Outcome of a headless start; `reason` is empty when the debugging port opened."""

    seconds: float
    reason: str = ""


def start_headless(path: Path, deadline_sec: float = START_DEADLINE_SEC) -> Start:
    """Start the browser as a session does, wait for its debugging port, and end it."""
    # Chromium's last child may still write while the folder goes.
    with tempfile.TemporaryDirectory(prefix=TEMP_PREFIX, ignore_cleanup_errors=True) as tmp:
        folder = Path(tmp)
        # Its settings and crash reports would otherwise land in the user's own folders.
        environ = {**browser_environment(os.environ), "XDG_CONFIG_HOME": tmp, "XDG_CACHE_HOME": tmp}
        began = time.monotonic()
        command = [*WITH_LIFELINE, str(path), *_headless_flags(folder)]
        with (
            _without_socket(folder),
            (folder / "stderr").open("wb") as stderr,
            _own_group(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environ,
            ) as child,
        ):
            while time.monotonic() - began < deadline_sec:
                # Its first line is the port; the file is there a moment before its content.
                if _read(folder / "DevToolsActivePort"):
                    return Start(time.monotonic() - began)
                if child.poll() is not None:
                    why = _ended(child.returncode)
                    break
                time.sleep(POLL_SEC)
            else:
                why = f"did not open its debugging port within {deadline_sec:g} s"
        line = _telling_line(_read(folder / "stderr"))
        return Start(time.monotonic() - began, f"{why}: {line}" if line else why)


def _headless_flags(folder: Path) -> list[str]:
    flags = [
        "--headless",
        "--remote-debugging-port=0",
        "--remote-debugging-pipe",
        f"--user-data-dir={folder}",
        "--disable-background-networking",
        # The crash handler leaves the process group, so ending the group would miss it.
        "--disable-crashpad-for-testing",
        "--no-first-run",
    ]
    if needs_no_sandbox():
        flags.append("--no-sandbox")
    return [*flags, "about:blank"]


@contextmanager
def _without_socket(profile: Path) -> Iterator[None]:
    """Remove after the block what a killed Chromium leaves of a socket outside its profile."""
    try:
        yield
    finally:
        with suppress(OSError):
            outside = (profile / "SingletonSocket").readlink().parent
            for name in ("SingletonSocket", "SingletonCookie"):
                (outside / name).unlink(missing_ok=True)
            outside.rmdir()


@contextmanager
def _own_group(command: Sequence[str], **popen: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child for the block at the head of a process group, which is ended as a whole."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
    with subprocess.Popen(command, start_new_session=True, **streams) as child:
        try:
            yield child
        finally:
            # Also when the child is gone: its group may still hold children of its own. macOS
            # says "not permitted" of a group that has only zombies.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)


def _ended(code: int) -> str:
    return f"exited with {code}" if code >= 0 else f"died of {signal.Signals(-code).name}"


def _telling_line(stderr: str) -> str:
    """Return the line that gives the reason, out of the chatter of a browser."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    signs = (":fatal:", "sandbox", "shared libraries", "not found", "snap")
    for line in lines:
        if any(sign in line.lower() for sign in signs) and "dbus" not in line:
            return line
    return lines[-1] if lines else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def bind_error(host: str, port: int) -> OSError | None:
    """Return what listening on a port as our servers do raises, None when it is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        return error
    return None


def nearest_existing(path: Path) -> Path:
    """Return the path itself or the first of its parents that is there, be it a broken link."""
    return next(part for part in (path, *path.parents) if os.path.lexists(part))


def may_write_into(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def profile_locks(folder: Path) -> Iterator[Path]:
    """Yield the locks of browser profiles, at most two levels down; deeper is the profile's own."""
    for depth in ("", "*/", "*/*/"):
        yield from sorted(folder.glob(f"{depth}SingletonLock"))


def lock_owner(lock: Path) -> tuple[str, int]:
    """Return host and pid that a lock names: Chromium makes it a link to `host-pid`."""
    host, _, pid = os.readlink(lock).rpartition("-")
    return host, int(pid)


def holds_lock(pid: int, lock: Path) -> bool:
    """Return whether the process that made a lock still runs, not a later one of its pid."""
    try:
        return psutil.Process(pid).create_time() <= lock.lstat().st_mtime + 1
    except psutil.AccessDenied:
        return True
    except (psutil.Error, OSError):
        return False


def private_files(folder: Path) -> Iterator[Path]:
    """Yield files that may hold a secret: all at the top, and tokens and keys one level down."""
    for pattern in ("*", "*/*token*", "*/*.key"):
        yield from sorted(
            path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()
        )


def uncompiled(folder: Path) -> bool:
    """Return whether a package has modules without bytecode."""
    from importlib.util import cache_from_source

    return any(not Path(cache_from_source(path)).exists() for path in folder.rglob("*.py"))
