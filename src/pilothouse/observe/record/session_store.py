"""The part of a store on disk that belongs to one session."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.observe.record.store import EventStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pilothouse.core.timeline.ring import Slice
    from pilothouse.observe.model import Body, Seen
    from pilothouse.observe.read.query import Query
    from pilothouse.observe.record.store_limits import Caps


class SessionStore:
    """The part of a store that belongs to one session; implements `Keep`."""

    def __init__(self, store: EventStore, owner: str) -> None:
        self._store = store
        self._owner = owner

    def append(self, target_id: str, seq: int, seen: Seen, said_at: float = 0.0) -> None:
        self._store.append(self._owner, target_id, seq, seen, said_at)

    def said_until(self, target_id: str) -> float:
        return self._store.said_until(self._owner, target_id)

    @property
    def failed(self) -> str:
        return self._store.failed

    def lost(self, target_id: str, start: int, stop: int, known: int) -> int:
        return self._store.lost(self._owner, target_id, start, stop, known)

    def holds(self, target_id: str) -> bool:
        return self._store.holds(self._owner, target_id)

    def targets(self) -> list[str]:
        return self._store.targets(self._owner)

    def next_seq(self, target_id: str) -> int:
        return self._store.next_seq(self._owner, target_id)

    def forget(self, target_id: str) -> None:
        self._store.forget(self._owner, target_id)

    def keep_body(self, target_id: str, request_id: str, body: Body) -> None:
        self._store.keep_body(self._owner, target_id, request_id, body)

    def bodies(self, target_id: str) -> AbstractContextManager[Callable[[str], Body | None]]:
        return self._store.bodies(self._owner, target_id)

    def read(self, target_id: str, start: int, stop: int, limit: int, query: Query) -> Slice[Seen]:
        return self._store.read(self._owner, target_id, start, stop, limit=limit, query=query)


@contextmanager
def open_store(
    setting: str, owner: str, caps_of: Callable[[Path], Caps | None] = lambda _: None
) -> Iterator[SessionStore | None]:
    """Open the store that `--store` names, for one session; None if it names none. `caps_of` says
    what a store at a path may hold.

    Raises:
        StoreError: the setting cannot be understood, or the file cannot be used.
    """
    if not setting:
        yield None
        return
    kind, _, path = setting.partition(":")
    if kind != "sqlite" or not path:
        raise StoreError(f"{setting!r} is no store; write sqlite:PATH")
    where = Path(path).expanduser()
    store = EventStore(where, caps_of(where))
    try:
        name = store.enter(owner)
    except sqlite3.Error as error:
        store.close()
        raise StoreError(f"{path}: {error}") from None
    try:
        yield SessionStore(store, name)
    finally:
        store.close()
        with suppress(sqlite3.Error):  # whose process has ended writes no more either
            store.leave(name)
