"""Records and faults of the observer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from pilothouse.core.declare.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

type Kind = Literal[
    "console",
    "log",
    "request",
    "response",
    "loadingFinished",
    "loadingFailed",
    "websocket",
    "other",
]
KINDS: tuple[Kind, ...] = (
    "console",
    "log",
    "request",
    "response",
    "loadingFinished",
    "loadingFailed",
    "websocket",
    "other",
)
_NAMES: dict[Kind, str] = {
    "console": "ConsoleLogged",
    "log": "EntryLogged",
    "request": "RequestSent",
    "response": "ResponseReceived",
    "loadingFinished": "LoadingFinished",
    "loadingFailed": "LoadingFailed",
    "websocket": "WebSocketUsed",
    "other": "TargetChanged",
}
_EXCHANGE = re.compile(rb'"x-pilothouse-exchange":"([0-9a-f]{32})"', re.IGNORECASE)
"""The header by which the intercepting proxy tells which of its packets a response is."""
NETWORK_KINDS = frozenset({"request", "response", "loadingFinished", "loadingFailed", "websocket"})

DEFAULT_MAX_BODY_BYTES = 64_000


class Seen:
    """One normalised event as it is kept: what filters look at, and the rest as packed JSON.

    A full ring of these takes a third of the memory of the same events as dictionaries, and most
    are never read.
    """

    __slots__ = ("at", "kind", "level", "method", "packed", "request_id", "status", "url")

    def __init__(self, at: float, event: dict[str, Any]) -> None:
        """Pack an event. Raises TypeError when what readers rely on is not as the protocol says."""
        self.at = at
        self.kind: Kind = event["kind"]
        if self.kind != "console":  # whose parts are all of our own making
            _check(event)
        self.url: str = event.get("url") or ""
        self.method: str = event.get("method") or ""
        self.request_id: str = event.get("requestId") or ""
        self.status: int = event.get("status") or 0
        # Console lines and log entries have a level, everything else has none.
        self.level: str = event["type"] if self.kind in ("console", "log") else ""
        self.packed = pack(event)

    @classmethod
    def stored(
        cls,
        *,
        at: float,
        kind: Kind,
        url: str,
        method: str,
        level: str,
        status: int,
        request_id: str,
        packed: bytes,
    ) -> Seen:
        """Make one that was kept elsewhere and comes back as it was."""
        seen = cls.__new__(cls)
        seen.at, seen.kind, seen.url, seen.method = at, kind, url, method
        seen.level, seen.status, seen.request_id, seen.packed = level, status, request_id, packed
        return seen

    def amend(self, event: dict[str, Any]) -> None:
        """Take an event that says more of the same. Raises TypeError as a new one does."""
        _check(event)
        self.packed = pack(event)

    @property
    def keys(self) -> frozenset[str]:
        """Keys that relate it to other events of the session's timeline."""
        found = {f"request:{self.request_id}"} if self.request_id else set()
        if self.kind == "response" and (joined := _EXCHANGE.search(self.packed)):
            found.add(f"exchange:{joined[1].decode()}")
        return frozenset(found)

    @property
    def name(self) -> str:
        return _NAMES[self.kind]

    def facts(self) -> dict[str, Any]:
        return self.unpack()

    def unpack(self) -> dict[str, Any]:
        event: dict[str, Any] = orjson.loads(self.packed)
        return event


_TEXTS = ("url", "method", "requestId", "postDataPreview")


def _check(event: dict[str, Any]) -> None:
    for name in _TEXTS:
        value = event.get(name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is no text")
    status = event.get("status")
    if status is not None and not (isinstance(status, int) and 0 <= status <= 999):
        raise TypeError("status is no status")
    for name in ("headers", "requestHeaders"):
        headers = event.get(name)
        if headers is not None and not (
            isinstance(headers, dict) and all(isinstance(v, str) for v in headers.values())
        ):
            raise TypeError(f"{name} are no headers")


def pack(event: Mapping[str, Any]) -> bytes:
    """Return JSON bytes; halves of characters, which JavaScript allows, are replaced."""
    try:
        packed = orjson.dumps(event)
    except TypeError:
        from pilothouse.core.declare.fence import without_lone_surrogates

        packed = orjson.dumps(_bounded(without_lone_surrogates(dict(event))))
    # orjson leaves some 4 kB allocated for each result; a copy is as small as its content.
    return bytes(memoryview(packed))


def _bounded(value: Any) -> Any:
    """Turn whole numbers that do not fit 64 bits into text: JSON has no limit, orjson has."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, dict):
        return {str(key): _bounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_bounded(inner) for inner in value]
    return value


@dataclass(frozen=True, slots=True)
class Filters:
    """The rules for what of a target is kept at all. Blocking is judged first, then allowing."""

    kinds: tuple[str, ...] = ()
    """`console`, `log`, `network`; none means all."""
    url_allowlist: tuple[str, ...] = ()
    url_blocklist: tuple[str, ...] = ()
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES

    def admits(self, kind: str, url: str) -> bool:
        if self.kinds and kind != "other":
            group = "network" if kind in NETWORK_KINDS else kind
            if group not in self.kinds:
                return False
        if url and (self.url_blocklist or self.url_allowlist):
            if any(part in url for part in self.url_blocklist):
                return False
            # Only traffic is allowed by URL: a console line has none of its own to judge.
            if self.url_allowlist and kind in NETWORK_KINDS:
                return any(part in url for part in self.url_allowlist)
        return True


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of the browser's list."""

    id: str
    type: str
    title: str
    url: str
    attached: bool

    @property
    def is_internal(self) -> bool:
        """One of the browser's own surfaces, such as the omnibox' popup."""
        return self.type in ("browser_ui", "tab", "browser")


@dataclass(frozen=True, slots=True)
class Body:
    """A response body as the browser gave it."""

    mime_type: str
    text: str
    encoded: bool
    """`text` is base64, because the body is not text."""


class BrowserUnreachable(Fault):
    """No browser answers on that host and port."""

    code = "browser_unreachable"
    number = -32001
    status = 502


class TargetNotFound(Fault):
    """No target of that id or URL is open."""

    code = "target_not_found"
    status = 404


class AlreadyObserving(Fault):
    """This session observes the target already."""

    code = "already_observing"
    status = 409


class NotObserving(Fault):
    """This session does not observe the target."""

    code = "not_observing"
    status = 404


class BodyNotAvailable(Fault):
    """The browser cannot give this body; the message says why."""

    code = "body_not_available"
    status = 404


class E2eSessionUnknown(Fault):
    """No e2e session of that id is open here."""

    code = "session_not_found"
    status = 404


class SecurityBlocked(Fault):
    """The host is not this machine, or the target belongs to another session."""

    code = "security_blocked"
    status = 403
