"""Bookmarks files: read from where a session may read, written where exports go."""

from __future__ import annotations

import os
import re
import secrets
import stat
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pilothouse.bookmarks.changes.change import Create
from pilothouse.bookmarks.files.json import read_json, write_json
from pilothouse.bookmarks.files.netscape import is_netscape, read_netscape, write_netscape
from pilothouse.core.declare.faults import InvalidInput, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pilothouse.bookmarks.files.node import Saved

type Format = Literal["html", "json"]

MOST_BYTES = 64 * 1024 * 1024
"""Most bytes of a file: exports carry a picture with every bookmark."""
_HEAD_BYTES = 1024
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?([A-Za-z0-9_:.-]+)", re.I)


def read_bookmarks(text: str) -> list[Saved]:
    """Read the bookmarks of a file of either kind.

    Raises:
        InvalidInput: it is no bookmarks file.
    """
    text = text.removeprefix("\ufeff")
    return read_netscape(text) if is_netscape(text) else read_json(text)


def written(saved: list[Saved], form: Format) -> str:
    """Return the text of a file."""
    if form == "html":
        return write_netscape(saved)
    return write_json(saved, exported_at=datetime.now(UTC).isoformat(timespec="seconds"))


def changes_of(saved: Sequence[Saved], parent: str | None, before: int = 0) -> list[Create]:
    """Return the changes that make them all, each folder before what is in it.

    `before` is how many changes stand before them in the list.
    """
    made: list[Create] = []
    waiting = [(one, parent) for one in reversed(saved)]
    while waiting:
        one, under = waiting.pop()
        made.append(Create(under, one.title, one.url))
        reference = f"${before + len(made)}"
        waiting.extend((child, reference) for child in reversed(one.children))
    return made


def read_file(path: str, roots: Sequence[Path]) -> str:
    """Read the text of a file under one of the roots; a relative path starts at the first.

    Raises:
        PermissionDenied: it lies elsewhere.
        InvalidInput: it is not there, too large or no text.
    """
    if "\0" in path:
        raise _unreadable("no path has zero bytes")
    real = (roots[0] / path).resolve()
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        raise PermissionDenied(
            f"{path[:200]} lies outside the folders that may be read",
            hint=f"put the file into {roots[0]}, add its folder to PILOTHOUSE_ROOTS, or give the "
            "file's text as content",
            field="path",
        )
    try:
        about = real.stat()
        if not stat.S_ISREG(about.st_mode):
            raise _unreadable("it is not a file")
        if about.st_size > MOST_BYTES:
            raise _unreadable(f"it is larger than {MOST_BYTES >> 20} MB")
        return decoded(real.read_bytes())
    except OSError as error:
        raise _unreadable(error.strerror or "unknown") from None


def decoded(data: bytes) -> str:
    """Decode a file's text: UTF-8 as a rule, else what the file itself says that it is."""
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        named = _CHARSET.search(data, 0, _HEAD_BYTES)
    try:
        return data.decode(named[1].decode("ascii") if named else "utf-8", "replace")
    except (LookupError, UnicodeError):  # no charset of this name is known
        return data.decode("utf-8", "replace")


def _unreadable(reason: str) -> InvalidInput:
    return InvalidInput(
        f"the file cannot be read: {reason}",
        hint="check the path, or give the file's text as content",
        field="path",
        expected="a bookmarks file",
    )


def write_file(folder: Path, form: Format, text: str) -> Path:
    """Write a new file, for its owner alone."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = folder / f"bookmarks-{moment}-{secrets.token_hex(3)}.{form}"
    # Titles may hold halves of characters, which are no UTF-8.
    data = text.encode("utf-8", "replace")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    return path
