"""Ids of sessions that can be told apart in a test: only what is named as we name it is swept."""

from __future__ import annotations

import uuid


def id_of(name: str) -> str:
    """Return the id that stands for a name of at most six letters."""
    return str(uuid.UUID(bytes=name.encode().ljust(16, b"\0")[:16], version=4))


def name_of(session_id: str) -> str:
    """Return the name that an id stands for; of another session, its id."""
    name = uuid.UUID(session_id).bytes[:6].rstrip(b"\0").decode("ascii", "replace")
    return name if id_of(name) == session_id else session_id
