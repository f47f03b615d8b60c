"""The file that a command names: where it is, whether it is listed, who could have written it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.e2e.model import CommandNotAllowed, ServerStartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTING = "SERVER_COMMAND_PATH"
MOST_LINKS = 40
"""Limit of links on the way to a program, as many as Linux itself follows."""


def locate_program(given: str, search_path: str, base: Path | None) -> Path:
    """Return the path that a name or path leads to; a relative path starts at `base`.

    Raises:
        CommandNotAllowed: a relative path, and no `base`.
        ServerStartFailed: a name that is not on PATH.
    """
    if "/" not in given:
        for folder in search_path.split(":"):
            # An empty or relative entry would be the current folder.
            candidate = Path(folder, given)
            is_file = candidate.is_absolute() and os.path.isfile(candidate)
            if is_file and os.access(candidate, os.X_OK):
                return candidate
        raise missing_program(given, f"no program {given} is on PATH")
    if os.path.isabs(given):
        return Path(given)
    if base is None:
        raise refusal(given, "the path is not absolute", hint="Give the whole path, from /.")
    return base / given


def find_listed(real: Path, allowed: tuple[str, ...]) -> Path | None:
    """Return a program's path as the list has it, None if it is not on the list."""
    for entry in allowed:
        if not os.path.isabs(entry):
            continue
        target = os.path.realpath(entry)
        if entry.endswith("/"):
            if real.is_relative_to(target):
                return real
        elif real == Path(target):
            return Path(entry)
    return None


def check_program_file(path: Path, real: Path) -> None:
    """Check that a file can be executed, as oneself alone, and is nobody else's work.

    Raises:
        CommandNotAllowed: another user could have written it, or it runs as another user.
        ServerStartFailed: it is not there, or no executable file.
    """
    try:
        reason = next(_weak_spots(path), "")
        info = real.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise missing_program(str(path), f"there is no file {path}") from None
    except PermissionError:
        raise _not_executable(path) from None
    except OSError as error:
        raise refusal(str(path), error.strerror or "it cannot be read", real) from None
    if reason:
        raise refusal(
            str(path), reason, real, hint="Take the write permission away: chmod o-w, or move it."
        )
    if not stat.S_ISREG(info.st_mode) or not os.access(real, os.X_OK):
        raise _not_executable(path)
    if info.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise refusal(
            str(path), "it would run as another user, so that it could not be stopped", real
        )


def _weak_spots(path: Path) -> Iterator[str]:
    """Yield where somebody else could put another program in this one's place."""
    ours = {0, os.geteuid()}
    shared = False
    for entry in entries_of(path):
        info = entry.lstat()
        if shared and info.st_uid not in ours:
            yield f"{entry} is another user's, in a folder that everybody can write"
        shared = False
        if stat.S_ISLNK(info.st_mode):
            continue
        if info.st_mode & stat.S_IWOTH:
            # In a folder such as /tmp everybody may add, but not replace what is not theirs.
            shared = stat.S_ISDIR(info.st_mode) and bool(info.st_mode & stat.S_ISVTX)
            if not shared:
                yield f"everybody can write {entry}"


def entries_of(path: Path) -> Iterator[Path]:
    """Yield every folder, link and file that the kernel passes on the way to what a path names."""
    waiting = list(reversed(path.parts[1:]))
    current = Path("/")
    links = 0
    yield current
    while waiting:
        part = waiting.pop()
        if part == "..":
            current = current.parent
            yield current
            continue
        entry = current / part
        yield entry
        if not entry.is_symlink():
            current = entry
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError("too many links")
        target = entry.readlink()
        if target.is_absolute():
            current = Path("/")
            yield current
        else:
            # Whoever follows goes on from the folder that the link lies in.
            yield current
        waiting += reversed([part for part in target.parts if part != "/"])


def refusal(given: str, reason: str, real: Path | None = None, hint: str = "") -> CommandNotAllowed:
    """Return the fault for a program that may not be started."""
    where = f" ({real})" if real is not None and str(real) != given else ""
    return CommandNotAllowed(
        f"{given}{where} may not be started: {reason}.",
        hint=hint or f"The server's owner allows commands by listing their paths in {SETTING}.",
        path=given,
        setting=SETTING,
    )


def missing_program(path: str, reason: str) -> ServerStartFailed:
    """Return the fault for a program that is not there."""
    return ServerStartFailed(
        f"The command cannot be started: {reason}.",
        hint="Check the path, or give the program's whole path.",
        cause={"type": "command_not_found", "path": path},
    )


def _not_executable(path: Path) -> ServerStartFailed:
    return ServerStartFailed(
        f"The command cannot be started: {path} is not an executable file.",
        hint="Make it executable (chmod +x) or name another command.",
        cause={"type": "permission_denied", "path": str(path)},
    )
