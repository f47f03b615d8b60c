"""What a tool may answer instead of a result, and the shape each spec gives it.

    Fault
    ├── InvalidInput       an argument is missing, unknown or out of range
    ├── UnknownTool        no tool of that name is served
    ├── RateLimited        too many calls in the last minute
    ├── PermissionDenied   the caller may not do this
    ├── NotAvailable       a service this tool needs is off or not reachable
    ├── NoSuchPath         an HTTP API has no such path
    ├── WrongMethod        … or takes other methods there
    └── Internal           a defect of ours, with an incident id to look up

Groups derive their own faults from `Fault` next to their records. Each names its code, what was
wrong, and the next call worth making: an agent reads the hint and acts on it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.declare.model import Block


class Envelope(Enum):
    """The error form of the spec that a group implements."""

    CODE = "code"
    """`{"code": "UPPER_SNAKE", "message", "details": {"hint", …}}` (observe, bookmarks)."""

    TYPE = "type"
    """`{"type": "lower_snake", "message", "suggestion", …}` (e2e and our own tools)."""

    NUMBER = "number"
    """`{"code": -32003, "message", "data": {"details", "hint", …}}` (intercept)."""


class Fault(Exception):
    """A failure that a tool declares. `details` are facts a program can use."""

    code: ClassVar[str] = ""
    """Lower-snake name; upper-snake in the CODE envelope."""
    capitals: ClassVar[str] = ""
    """Name in the CODE envelope, where a spec spells it otherwise."""
    number: ClassVar[int] = -32603
    """The JSON-RPC number in the NUMBER envelope."""
    status: ClassVar[int] = 500
    """The HTTP status where the same fault is answered over REST."""

    def __init__(self, message: str, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details
        self.beside: dict[str, Any] = {}
        """Fields beside `error` in the structured content, where a spec has them there."""
        self.inline: dict[str, dict[str, str]] = {}
        """Fields added to parts of `beside` in the structured content alone, such as the bytes of
        a picture: a model would pay for them in the text and read nothing."""
        self.blocks: tuple[Block, ...] = ()
        """Further content beside the text, such as a picture."""

    def render(
        self, envelope: Envelope, context: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Return the `error` object in this form; `context` says which call failed and when."""
        facts = {name: value for name, value in self.details.items() if value is not None}
        if envelope is Envelope.CODE:
            details = {**({"hint": self.hint} if self.hint else {}), **facts}
            code = self.capitals or self.code.upper()
            return {"code": code, "message": self.message, "details": details}
        if envelope is Envelope.NUMBER:
            data: dict[str, object] = {"details": self.message}
            if self.hint:
                data["hint"] = self.hint
            return {"code": self.number, "message": self.message, "data": {**data, **facts}}
        error: dict[str, object] = {**facts, "type": self.code, "message": self.message}
        if self.hint:
            error["suggestion"] = self.hint
        return {**error, **(context or {})}


class InvalidInput(Fault):
    """An argument is missing, unknown, of the wrong kind or out of range."""

    code = "invalid_input"
    number = -32602
    status = 400


class UnknownTool(Fault):
    """No tool of that name is served here."""

    code = "unknown_tool"
    number = -32602
    status = 404


class RateLimited(Fault):
    """Too many calls in the last minute."""

    code = "rate_limited"
    number = -32005
    status = 429


class PermissionDenied(Fault):
    """The caller may not do this."""

    code = "permission_denied"
    number = -32005
    status = 403


class NotAvailable(Fault):
    """A service that this tool needs is off or cannot be reached."""

    code = "not_available"
    number = -32001
    status = 503


class NoSuchPath(Fault):
    """The API has no such path."""

    code = "no_such_path"
    number = -32601
    status = 404


class WrongMethod(Fault):
    """The path takes other methods."""

    code = "wrong_method"
    number = -32601
    status = 405


class Internal(Fault):
    """A defect of ours: the log has the details under the incident id."""

    code = "internal"
    capitals = "INTERNAL_ERROR"  # the observer's spec does not follow its own rule here
    number = -32603
    status = 500


COMMON: tuple[type[Fault], ...] = (InvalidInput, RateLimited, Internal)
"""Faults that every tool may answer without declaring them."""
