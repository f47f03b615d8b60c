"""What the extension and the server say to each other, without any socket.

docs/extension-protocol.md has the whole of it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from pilothouse.bookmarks.model import EXTENSION_ID, BookmarksChanged

ORIGIN = f"chrome-extension://{EXTENSION_ID}"

HEARTBEAT_S = 20.0
"""Chrome stops a worker that had no message for 30 s."""
HEARTBEAT = b'{"jsonrpc":"2.0","method":"heartbeat"}'

TROUBLE = 1011
"""Something is wrong on this side."""
NOT_A_HELLO = 4400
WRONG_TOKEN = 4401
TAKEN_OVER = 4409
TOO_MANY_WRONG = 4429

CHANGES = frozenset(
    {"created", "changed", "removed", "moved", "reordered", "import_began", "import_ended"}
)
LONGEST_NAME = 200
LONGEST_TITLE = 500
"""Most characters of a title in an event; the tools show all of it."""

_PROFILE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Garbage(ValueError):
    """An input that is no message of this protocol; the text says what is wrong with it."""


class NotAdmitted(Exception):
    """The socket is not let in: the message is for people, the code for the extension."""

    def __init__(self, code: int, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionHello:
    """The profile that opens a socket."""

    token: str = field(repr=False)
    profile_id: str
    name: str
    boot: str
    version: str
    chrome: str


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The result of a call; `error` is None when it went well."""

    id: int
    result: Any
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Happening:
    """An event that Chrome reported about its bookmarks."""

    type: str
    id: str
    data: dict[str, Any]
    own: bool

    def event(self, at: float, profile: str) -> BookmarksChanged:
        node = self.data.get("node") if self.type == "removed" else self.data
        told = node if isinstance(node, dict) else {}
        return BookmarksChanged(
            at=at,
            change=self.type,
            profile=profile,
            id=self.id,
            title=str(told.get("title") or "")[:LONGEST_TITLE],
            url=str(told.get("url") or ""),
            own=self.own,
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The other side is there."""


type Message = CallAnswer | Happening | Heartbeat


def parse(raw: bytes | str) -> list[Message]:
    """Parse the messages that a socket that was let in sends at once.

    Raises:
        Garbage: one of them is none.
    """
    said = _json(raw)
    return [_message(part) for part in (said if isinstance(said, list) and said else [said])]


def _message(said: object) -> Message:
    message = _object(said)
    match message.get("method"):
        case None:
            return _answer(message)
        case "heartbeat":
            return Heartbeat()
        case "bookmark_event":
            return _happening(message.get("params"))
        case method:
            raise Garbage(f"no method {str(method)[:40]!r} is known here")


def parse_hello(raw: bytes | str) -> ExtensionHello:
    """Parse the first message of a socket.

    Raises:
        NotAdmitted: it is not a hello.
    """
    try:
        if isinstance(raw, bytes):
            raise Garbage("it is a binary frame, not text")
        message = _object(_json(raw))
        if message.get("method") != "hello" or message.get("id") != 0:
            raise Garbage("it has another method or id")
        params = _mapping(message.get("params"), "params")
        profile = _mapping(params.get("profile"), "profile")
        profile_id = _text(profile, "id")
        if not _PROFILE_ID.fullmatch(profile_id):
            raise Garbage("profile.id must be 1 to 64 letters, digits, - or _")
        return ExtensionHello(
            token=_text(params, "token"),
            profile_id=profile_id,
            name=_text(profile, "name").strip() or f"Chrome {profile_id[:6]}",
            boot=_text(params, "boot"),
            version=_text(params, "version"),
            chrome=_text(params, "chrome"),
        )
    except Garbage as error:
        raise NotAdmitted(NOT_A_HELLO, f"the first message must be a hello: {error}") from None


def welcome(server: str) -> bytes:
    result = {"server": server, "heartbeatSec": HEARTBEAT_S}
    return orjson.dumps({"jsonrpc": "2.0", "id": 0, "result": result})


def refusal(why: NotAdmitted) -> bytes:
    error: dict[str, Any] = {"code": why.code, "message": why.message}
    if why.retry_after_s:
        error["data"] = {"retryAfterSec": why.retry_after_s}
    return orjson.dumps({"jsonrpc": "2.0", "id": 0, "error": error})


def request(id: int, method: str, params: dict[str, Any]) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    try:
        return orjson.dumps(message)
    except TypeError:  # half a character, which Chrome replaces
        return json.dumps(message).encode()


def together(requests: list[bytes]) -> bytes:
    """Join several requests into one message."""
    return requests[0] if len(requests) == 1 else b"[" + b",".join(requests) + b"]"


def _json(raw: bytes | str) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(raw)  # which takes halves of characters, as JavaScript does
        except (ValueError, RecursionError) as error:
            raise Garbage(f"it is not JSON: {str(error)[:80]}") from None


def _object(message: Any) -> dict[str, Any]:
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Garbage("it is not a JSON-RPC 2.0 object")
    return message


def _answer(message: dict[str, Any]) -> CallAnswer:
    number, error = message.get("id"), message.get("error")
    if type(number) is not int:
        raise Garbage("an answer has the id of its call")
    if error is None:
        return CallAnswer(number, message.get("result"), None)
    return CallAnswer(number, None, error if isinstance(error, dict) else {"message": str(error)})


def _happening(params: object) -> Happening:
    told = _mapping(params, "params")
    change, node_id, data = told.get("type"), told.get("id"), told.get("data")
    if not isinstance(change, str) or change not in CHANGES:
        raise Garbage(f"no event {str(change)[:40]!r} is known here")
    return Happening(
        change,
        node_id if isinstance(node_id, str) else "",
        data if isinstance(data, dict) else {},
        told.get("own") is True,
    )


def _mapping(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Garbage(f"{name} must be an object")
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST_NAME:
        raise Garbage(f"{name} must be a text of at most {LONGEST_NAME} characters")
    return value
