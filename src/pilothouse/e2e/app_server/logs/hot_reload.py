"""State of an edit as dev servers report it: being built, in the page, or not compiled. Pure.

Vite and Next.js say it in frames of their sockets and in console lines of their clients. The words
differ in when they come: "hot updated" before React has drawn anew, and after an error Next says
"done" of an older build first. So the story is followed as a whole, from the page's first event on.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.app_server.logs.reader import without_escapes

if TYPE_CHECKING:
    from collections.abc import Mapping

_FRAME = re.compile(r'\s*\{\s*"(?:type|action)":\s*"(?P<name>[\w-]+)"')
_UPDATE = re.compile(r'"type":\s*"(?:js|css)-update"')
_ERRORS = re.compile(r'"errors":\s*\[\s*["{]')
_MESSAGE = re.compile(r'"message":\s*(?P<text>"(?:[^"\\]|\\.)*"?)', re.DOTALL)
_FILE = re.compile(r'"(?:id|file)":\s*"(?P<path>[^"\\]+)"')
_VITE_LINE = re.compile(r"\[vite\] (?:css )?hot updated")
_DONE_LINE = re.compile(r"\[Fast Refresh\] done|\[HMR\] Updated modules")
_RELOAD_LINE = re.compile(r"\[Fast Refresh\] performing full reload")


class HotReload:
    """Follows the hot updates of one tab; fed with its events in their order."""

    def __init__(self) -> None:
        self.update: Mapping[str, Any] | None = None
        """The event by which an update was in the page, or is to be once it has loaded anew."""
        self.reload_since: float = 0
        """Time at which the dev server asked for the page to be loaded anew, 0 if it did not."""
        self.error = ""
        """The compiler's message, while the newest edit does not compile."""
        self.needs_reload = False
        """True once an error of the document was mended in Next.js: its page keeps its old code."""
        self.connected_at: float = 0
        """Time when the page's socket was last opened: an older error is sent on it at once."""
        self.refused_at: float = 0
        """Time of the server's last answer with an error of its own, as for broken modules."""
        self._updates = 0
        self._building = False
        self._had_error = False
        self._stray = False
        self._older: Mapping[str, Any] | None = None
        self._turbopack = False

    @property
    def in_doubt(self) -> bool:
        """True while an update is in that may be of an older build than that of the newest edit."""
        return self._older is not None

    def trust(self) -> None:
        """Take an update that was in doubt as the newest: no other build has begun since."""
        if older := self._older:
            self._older, self._stray = None, False
            self._done(older)

    @property
    def busy(self) -> bool:
        """True while something is being built, or is on its way into the page."""
        return self._building or self._updates > 0

    @property
    def is_over(self) -> bool:
        """True once the newest edit is in the page, or will never be."""
        return bool(self.error) or (self.update is not None and not self.busy)

    def forget(self) -> None:
        """Take what came so far as known: only a later update counts."""
        self.update, self.reload_since, self._older = None, 0, None

    def feed(self, event: Mapping[str, Any]) -> None:
        if event["kind"] == "websocket" and event.get("direction") == "recv":
            payload = str(event.get("payloadPreview", ""))
            if named := _FRAME.match(payload):
                self._frame(named["name"], payload, event)
        elif event["kind"] == "response" and int(event.get("status") or 0) >= 500:
            self.refused_at = event["ts"]
        elif event["kind"] in ("console", "log"):
            self._line(str(event.get("text", "")), event)

    def _frame(self, name: str, payload: str, event: Mapping[str, Any]) -> None:
        if name in ("connected", "turbopack-connected", "sync"):
            self.connected_at = event["ts"]
        match name:
            case "update":
                self.error, self.update = "", None
                self._updates = max(1, len(_UPDATE.findall(payload)))
            case "full-reload" | "reloadPage":
                self.error, self.update = "", event
                self.reload_since, self._updates = event["ts"], 0
            case "connected" | "turbopack-connected":
                self._turbopack = name != "connected"
                if self._updates:  # the update made the page load anew
                    self.update, self.reload_since = event, event["ts"] - 1_000
                self._updates, self._had_error, self.needs_reload = 0, False, False
            case "error":
                self._failed(payload)
            case "building":
                self.error, self.update, self._older = "", None, None
                self._building, self._stray = True, False
            case "built" | "sync":
                self._built(name, payload)
            case "serverError":
                self._failed(payload)

    def _built(self, name: str, payload: str) -> None:
        if _ERRORS.search(payload):
            self._failed(payload)
            return
        if name == "sync":  # to a page that has just been loaded
            self._had_error = self.needs_reload = False
            return
        # Without a "building" before it, this is an older build than that of the newest edit.
        self._stray = self._had_error and not self._building
        self._building = False
        self.error = ""

    def _failed(self, payload: str) -> None:
        found, file = _MESSAGE.search(payload), _FILE.search(payload)
        self.error = without_escapes(_text(found["text"])) if found else "the compiler says no more"
        if file and file["path"] not in self.error:
            self.error += f" ({file['path']})"
        self._had_error, self._building, self._updates = True, False, 0
        self.update = self._older = None

    def _line(self, text: str, event: Mapping[str, Any]) -> None:
        if _VITE_LINE.search(text):
            self._updates = max(0, self._updates - 1)
            if not self.error:
                self.update = event
        elif _RELOAD_LINE.search(text):
            self.update, self.reload_since = event, event["ts"]
        elif _DONE_LINE.search(text) and not self.error:
            if self._stray:
                self._older = event
            else:
                self._done(event)

    def _done(self, event: Mapping[str, Any]) -> None:
        self.update = event
        if self._had_error and not self._turbopack:
            self.needs_reload = True
        self._had_error = False


def _text(literal: str) -> str:
    """Read a JSON string that may be cut at its end."""
    try:
        return str(json.loads(literal))
    except ValueError:
        try:
            return str(json.loads(literal.rstrip('"\\') + '"'))
        except ValueError:
            return literal.strip('"')
