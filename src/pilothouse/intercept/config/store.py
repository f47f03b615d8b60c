"""The file of the configuration: replaced whole, with a backup before each change."""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.config.model import Config, default_config, read_config, warnings_of
from pilothouse.intercept.model import BadConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pilothouse.core.timeline.clock import Clock

MAX_BYTES = 4 * 1024 * 1024
MAX_BACKUPS = 100
LOCK_WAIT_S = 10.0

_FILE = "config.json"
_BACKUPS = "backup"
_BACKUP_ID = re.compile(r"backup_([0-9]{8}_[0-9]{6})(?:_([2-9]|[1-9][0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class Replaced:
    """A change that was made."""

    config: Config
    backup_info: dict[str, Any] | None = None
    """`backup_id`, `backup_path` and `timestamp` of the configuration that was there before."""
    warnings: list[str] = field(default_factory=list)


class ConfigStore:
    """The configuration of one folder. Any number of processes may share it.

    Nothing is written before all of a change has been validated, and a file is only ever put in
    place complete: whoever is killed meanwhile leaves the old configuration or the new one.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._backups = folder / _BACKUPS
        self._clock = clock

    def load(self) -> Config:
        """Return the configuration that holds now, the default one without a file.

        Raises:
            BadConfig: the file was edited and is not sound, and where; or it cannot be read.
        """
        path = self._folder / _FILE
        try:
            data = _read(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            return default_config()
        except OSError as error:
            raise BadConfig(
                f"{path} cannot be read: {error.strerror}", hint=f"look at {path}"
            ) from None
        return _parsed(data, str(path))

    def replace(self, raw: object, *, backup: bool) -> Replaced:
        """Put another configuration in place of the present one; items it lacks are deleted.

        Raises:
            BadConfig: it is not sound, or cannot be stored.
        """
        return self._put(read_config(raw), backup=backup)

    def restore(self, backup_id: str) -> Replaced:
        """Go back to a backup; the present configuration is backed up first.

        Raises:
            BadConfig: there is no such backup, or it is not sound.
        """
        return self._put(_parsed(self._backup(backup_id), backup_id), backup=True)

    def backups(self) -> list[dict[str, Any]]:
        """Return `backup_id`, `timestamp` and `bytes` of each, newest first."""
        found = []
        for backup_id in reversed(self._backup_ids()):
            state = (self._backups / f"{backup_id}.json").lstat()
            if stat.S_ISREG(state.st_mode):
                described = {"timestamp": _timestamp(backup_id), "bytes": state.st_size}
                found.append({"backup_id": backup_id, **described})
        return found

    def _put(self, config: Config, *, backup: bool) -> Replaced:
        data = _encoded(config)
        with self._locked():
            info = self._back_up() if backup else None
            _publish(self._folder, _FILE, data)
        return Replaced(config, info, warnings_of(config))

    def _back_up(self) -> dict[str, Any]:
        """Keep the present file as it is, also a broken one: someone wrote it."""
        try:
            data = (self._folder / _FILE).read_bytes()
        except FileNotFoundError:
            data = _encoded(default_config())
        self._backups.mkdir(mode=0o700, exist_ok=True)
        older = self._backup_ids()
        backup_id = _next_id(datetime.fromtimestamp(self._clock() / 1000, tz=UTC), older)
        _publish(self._backups, f"{backup_id}.json", data)
        for oldest in older[: max(0, len(older) + 1 - MAX_BACKUPS)]:
            (self._backups / f"{oldest}.json").unlink(missing_ok=True)
        return {
            "backup_id": backup_id,
            "backup_path": f"{_BACKUPS}/{backup_id}.json",
            "timestamp": _timestamp(backup_id),
        }

    def _backup(self, backup_id: str) -> bytes:
        """Read a backup. An id is a name of exactly our form, and no link is followed."""
        try:
            if not _BACKUP_ID.fullmatch(backup_id):
                raise FileNotFoundError
            folder = os.open(self._backups, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                return _read(os.open(f"{backup_id}.json", flags, dir_fd=folder))
            finally:
                os.close(folder)
        except (OSError, TypeError):
            raise BadConfig(
                "there is no backup of that id",
                hint="list_backups has them; an id is like backup_20250115_103000",
                path="backup_id",
                expected="an id that list_backups shows",
            ) from None

    def _backup_ids(self) -> list[str]:
        """Return the ids of all backups, oldest first."""
        try:
            names = os.listdir(self._backups)
        except OSError:
            return []
        ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted((one for one in ids if _BACKUP_ID.fullmatch(one)), key=_age)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder for this process alone."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(self._folder / "config.lock", flags, 0o600)
            try:
                _wait_for(lock)
                yield
            finally:
                os.close(lock)
        except OSError as error:
            raise BadConfig(
                f"the configuration cannot be stored in {self._folder}: {error.strerror}",
                hint="make room or give this user the folder, then try again",
            ) from None


def _wait_for(lock: int) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise BadConfig(
                    "another Pilothouse has been changing the configuration for too long",
                    hint="end it, then try again",
                ) from None
        time.sleep(0.005)


def _read(descriptor: int) -> bytes:
    """Read a regular file; of one that is too large, enough for it to be refused."""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a file")
        return file.read(MAX_BYTES + 1)


def _parsed(data: bytes, where: str) -> Config:
    if len(data) > MAX_BYTES:
        raise BadConfig(f"{where} is larger than {MAX_BYTES} bytes", hint=_mend(where))
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise BadConfig(
            f"{where} is not JSON: {reason}", hint=_mend(where), path=where, expected="JSON"
        ) from None
    try:
        return read_config(raw, where)
    except BadConfig as error:
        error.hint = _mend(where)
        raise


def _mend(where: str) -> str:
    return f"mend {where}, or put a whole configuration in its place with update_config"


def _encoded(config: Config) -> bytes:
    """Return the file's text; raises BadConfig when it would be too large to be read again."""
    data = json.dumps(config.dump(), indent=2, ensure_ascii=False).encode() + b"\n"
    if len(data) > MAX_BYTES:
        raise BadConfig(
            f"the configuration has {len(data)} bytes, at most {MAX_BYTES} are stored; nothing was"
            " changed",
            hint="shorten patterns and replacements",
            path="config",
            expected=f"at most {MAX_BYTES} bytes",
            received=f"{len(data)} bytes",
        )
    return data


def _publish(folder: Path, name: str, data: bytes) -> None:
    """Put a file in place complete; only one process at a time may."""
    draft = folder / ".draft"
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(draft, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / name)
    entries = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(entries)  # the name, too, must outlive a power cut
    finally:
        os.close(entries)


def _next_id(now: datetime, taken: list[str]) -> str:
    backup_id = f"backup_{now:%Y%m%d_%H%M%S}"
    same_second = [_age(one)[1] for one in taken if one.startswith(backup_id)]
    return f"{backup_id}_{max(same_second) + 1}" if same_second else backup_id


def _age(backup_id: str) -> tuple[str, int]:
    found = _BACKUP_ID.fullmatch(backup_id)
    return (found.group(1), int(found.group(2) or 1)) if found else ("", 0)


def _timestamp(backup_id: str) -> str:
    """Return when it was taken, from its name digit by digit: one made by hand may be no date."""
    digits = _age(backup_id)[0]
    day, moment = digits[:8], digits[9:]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{moment[:2]}:{moment[2:4]}:{moment[4:]}Z"
