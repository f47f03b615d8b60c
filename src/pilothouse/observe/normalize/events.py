"""From DevTools protocol events to normalised ones: text in, records out, no socket in between.

The network's are made in `network.py`. Strings longer than `maxBodyBytes` are cut, and the event
says their true length, in bytes too, under `truncated`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.observe.normalize.network import MAX_URL_CHARACTERS, NetworkNormalizer
from pilothouse.observe.normalize.parts import cut, frames_of, place_of, text_of, top_of
from pilothouse.observe.normalize.preview import argument_text, argument_value, message_text

if TYPE_CHECKING:
    from collections.abc import Callable

    type Params = dict[str, Any]
    type Made = list[dict[str, Any]]
    type Amend = Callable[[int, dict[str, Any]], None]

_TYPES = {"warning": "warn", "verbose": "debug", "assert": "error"}
_PLAIN_TYPES = frozenset({"log", "warn", "error", "info", "debug", "trace"})

INTERESTING = frozenset(
    {
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
        "Network.requestWillBeSent",
        "Network.requestWillBeSentExtraInfo",
        "Network.responseReceivedExtraInfo",
        "Network.responseReceived",
        "Network.loadingFinished",
        "Network.loadingFailed",
        "Network.webSocketCreated",
        "Network.webSocketHandshakeResponseReceived",
        "Network.webSocketFrameSent",
        "Network.webSocketFrameReceived",
        "Network.webSocketFrameError",
        "Network.webSocketClosed",
        "Network.eventSourceMessageReceived",
        "Inspector.targetCrashed",
        "Inspector.detached",
        "Page.frameNavigated",
        "Page.windowOpen",
        "Page.downloadWillBegin",
        "Page.downloadProgress",
    }
)
"""Events that become records; all others are passed over without being looked at."""


class Normalizer:
    """The maker of the events of one target, its frames and its workers."""

    def __init__(
        self, max_bytes: Callable[[], int], amend: Amend = lambda _seq, _facts: None
    ) -> None:
        """Let `amend` put facts into the event of a seq that is kept already."""
        self._max_bytes = max_bytes
        self.traffic = NetworkNormalizer(max_bytes, amend)
        self.requests = self.traffic.requests
        self._downloads: dict[str, str] = {}
        """URLs of downloads under way."""
        self._makers: dict[str, Callable[[Params], Made]] = {
            "Runtime.consoleAPICalled": self._console,
            "Runtime.exceptionThrown": self._exception,
            "Log.entryAdded": self._log,
            "Inspector.targetCrashed": lambda p: [{"kind": "other", "type": "targetCrashed"}],
            "Inspector.detached": lambda p: [
                {"kind": "other", "type": "detached", "reason": text_of(p, "reason")}
            ],
            "Page.frameNavigated": self._navigated,
            "Page.windowOpen": lambda p: [
                {"kind": "other", "type": "windowOpened", "url": p["url"][:MAX_URL_CHARACTERS]}
            ],
            "Page.downloadWillBegin": self._download,
            "Page.downloadProgress": self._downloaded,
            **self.traffic.makers,
        }

    def receive(self, method: str, params: Params) -> Made:
        """Return the normalised events of one protocol event; none for those that say nothing new.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: the browser sent something that does
                not fit the protocol; the caller counts it and goes on.
        """
        maker = self._makers.get(method)
        return [] if maker is None else maker(params)

    # Console and log

    def _console(self, params: Params) -> Made:
        args = params.get("args", [])
        kind = params["type"]
        texts = [argument_text(arg) for arg in args]
        text = message_text(args, texts)
        made: dict[str, Any] = {
            "kind": "console",
            "type": _level(kind),
            "text": text,
            "args": texts,
            "argsPreview": [argument_value(arg) for arg in args],
            "stack": top_of(params.get("stackTrace")),
        }
        if kind not in _PLAIN_TYPES and kind not in _TYPES:
            made["call"] = kind  # console.table, group, count, …: shown as log
        if text.isascii() and len(text) <= self._max_bytes() and "%" not in text:
            return [made]  # no argument is longer than the text that it is part of
        return [cut(made, self._max_bytes(), "text", "args")]

    def _exception(self, params: Params) -> Made:
        details = params["exceptionDetails"]
        thrown = details.get("exception") or {}
        if thrown.get("subtype") == "error" or "preview" not in thrown:
            said = thrown.get("description") or thrown.get("value") or details.get("text", "")
            if said == "Uncaught" and thrown:  # null, undefined, an empty text
                said = f"Uncaught {argument_text(thrown)}".rstrip()
        else:
            said = argument_text(thrown)  # `throw {code: 5}` is described as "Object" only
        made: dict[str, Any] = {
            "kind": "log",
            "type": "error",
            "source": "exception",
            "text": str(said),
            "args": [],
            "url": text_of(details, "url"),
            "stack": top_of(details.get("stackTrace"))
            or place_of(details.get("url"), details.get("lineNumber"), details.get("columnNumber")),
            "frames": frames_of(details.get("stackTrace")),
        }
        if str(details.get("text", "")).startswith("Uncaught (in promise)"):
            made["inPromise"] = True
        return [cut(made, self._max_bytes(), "text")]

    def _log(self, params: Params) -> Made:
        entry = params["entry"]
        if entry.get("source") == "worker":
            return []  # the worker's own console tells the same line
        made: dict[str, Any] = {
            "kind": "log",
            "type": _level(entry["level"]),
            "source": text_of(entry, "source"),
            "text": str(entry.get("text", "")),
            "args": [argument_text(arg) for arg in entry.get("args", [])],
            "url": text_of(entry, "url"),
            "stack": top_of(entry.get("stackTrace"))
            or place_of(entry.get("url"), entry.get("lineNumber"), None),
        }
        if entry.get("networkRequestId"):
            made["requestId"] = entry["networkRequestId"]
        return [cut(made, self._max_bytes(), "text", "args")]

    # The page itself

    def _navigated(self, params: Params) -> Made:
        frame = params["frame"]
        if frame.get("parentId"):
            return []
        return [{"kind": "other", "type": "navigated", "url": frame.get("url", "")}]

    def _download(self, params: Params) -> Made:
        """Report a download, which the browser fetches itself: no other event tells of it."""
        guid, url = params["guid"], params["url"][:MAX_URL_CHARACTERS]
        self._downloads[guid] = url
        name = text_of(params, "suggestedFilename")
        return [{"kind": "other", "type": "downloadBegun", "url": url, "fileName": name}]

    def _downloaded(self, params: Params) -> Made:
        if params["state"] == "inProgress":
            return []
        made = {"kind": "other", "type": "downloadEnded", "state": text_of(params, "state")}
        url = self._downloads.pop(params["guid"], "")
        return [{**made, "url": url, "receivedBytes": int(params.get("receivedBytes", 0))}]


def _level(kind: str) -> str:
    mapped = _TYPES.get(kind, kind)
    return mapped if mapped in _PLAIN_TYPES else "log"
