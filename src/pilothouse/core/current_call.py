"""The tool call that runs now: what a group finds out about it, and whoever logs it tells."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class CurrentCall:
    """The facts known of a call that runs."""

    session_id: str = ""
    """The e2e session that it is about, also where the call does not name it."""


CURRENT_CALL: ContextVar[CurrentCall] = ContextVar("CURRENT_CALL")


def note_session(session_id: str) -> None:
    """Note which session the call that runs now is about, if one runs."""
    call = CURRENT_CALL.get(None)
    if call is not None:
        call.session_id = session_id
