"""Why no Chrome is connected, and what to do about it: the whole way, in one error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.model import ExtensionNotConnected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HOST = "127.0.0.1"
LOOKS_EVERY_S = 30
"""Seconds at most until an extension that is not connected looks for the server again."""
PORT_VARIABLE = "PILOTHOUSE_BOOKMARKS_PORT"


def steps(folder: Path | None, port: int, code: str) -> list[str]:
    """List the steps to connect a Chrome, from nothing; `code` says where the pairing code is."""
    where = folder or "the folder `extension` of Pilothouse's source"
    at = port or "the one that the tool `status` names"
    return [
        f"the extension is in {where}",
        "open chrome://extensions, turn developer mode on, press Load unpacked and choose that"
        " folder",
        f"open the extension's popup and type {code}; the port in its options must be {at}",
        f"it looks for the server every {LOOKS_EVERY_S} s",
    ]


class Guidance:
    """The state of the connection between an extension and this process, and advice on it."""

    def __init__(self, folder: Path | None, now: Callable[[], float]) -> None:
        """Read the time from `now`, in seconds."""
        self._folder = folder
        self._now = now
        self._port = 0
        self._off = ""
        self._names: Sequence[str] = ()
        self._last: tuple[float, str] = (now(), "")

    @property
    def is_off(self) -> bool:
        return bool(self._off)

    def opened(self, port: int) -> None:
        self._port = port
        self._off = ""
        self._last = (self._now(), "the server began to listen")

    def could_not_open(self, why: str) -> None:
        self._off = why

    def refused(self, why: str) -> None:
        self._last = (self._now(), f"one was refused ({why})")

    def connected(self, names: Sequence[str]) -> None:
        """Note that exactly these profiles are connected now."""
        if len(names) < len(self._names):
            self._last = (self._now(), "the connection was lost")
        self._names = names

    def facts(self) -> dict[str, Any]:
        """Return all that another process has to know to give the same advice."""
        at, what = self._last
        last = {"ago": self._now() - at, "what": what}
        return {"port": self._port, "off": self._off, "names": [*self._names], "last": last}

    def learn(self, facts: dict[str, Any]) -> None:
        """Take over the facts of another process."""
        self._port, self._off, self._names = facts["port"], facts["off"], facts["names"]
        self._last = (self._now() - facts["last"]["ago"], facts["last"]["what"])

    def state(self) -> str:
        """Return one line for people."""
        if self._off:
            return f"off: {self._off}"
        return f"ws://{HOST}:{self._port}, connected: {', '.join(self._names) or 'no Chrome'}"

    def fault(self) -> ExtensionNotConnected:
        if self._off:
            return ExtensionNotConnected(
                f"Chrome extension not connected: {self._off}",
                hint=f"end what holds the port and call again; or set {PORT_VARIABLE} to another"
                " port, and the same in the extension's options",
            )
        at, what = self._last
        ago = self._now() - at
        way = steps(self._folder, self._port, "the code that `pilothouse pair` prints")
        numbered = "; ".join(f"{number}. {step}" for number, step in enumerate(way, 1))
        return ExtensionNotConnected(
            f"Chrome extension not connected: {what} {ago:.0f} s ago",
            hint=f"{numbered}: call again after that",
            retryAfterSec=LOOKS_EVERY_S,
        )
