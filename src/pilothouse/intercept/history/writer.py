"""Recording: exchanges are posted in the proxy's loop, one thread writes them into the file.

The loop is never kept waiting. What it posts is queued, taken in batches and committed within some
20 ms. Between batches the thread indexes texts and makes room, in steps of about 10 ms. When the
disk cannot keep up, bodies are left out first; when it cannot be written at all, the newest
exchanges are kept in memory and written when it can.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pilothouse.intercept.history import file as history_file
from pilothouse.intercept.history.checkpoint import LogCarrier
from pilothouse.intercept.history.eviction import Evictor
from pilothouse.intercept.history.rows import REQUEST, RESPONSE, PostedExchange
from pilothouse.intercept.history.text_indexer import Indexer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.model import Exchange, WireMessage

LINGER_S = 0.020
"""Seconds from one batch to the next, unless somebody waits for it."""
IDLE_S = 0.1
"""Seconds without a post after which the thread tends the index."""
ELSEWHERE_S = 5.0
"""Seconds after which it looks for what other processes wrote and did not index."""
RETRY_S = 0.5
CLOSE_S = 15.0
BATCH_POSTS = 256
BATCH_BYTES = 8 << 20
QUEUE_POSTS = 50_000
QUEUE_BYTES = 64 << 20
SEGMENTS = 16
"""Segments of the text index, about, in a full file. One may be of packets that are gone."""
TAIL = 2_000
"""Packets that may wait for the index while traffic goes on."""

# Errors of what was posted, not of the file.
UNFIT = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    TypeError,
    ValueError,
    AttributeError,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _File:
    connection: sqlite3.Connection
    identity: history_file.Identity
    index: Indexer
    room: Evictor
    carrier: LogCarrier

    def tend(self) -> bool:
        """Do one step of what can wait; False if nothing is left to do."""
        return self.make_room() or self.index.step()

    def make_room(self) -> bool:
        """Drop tables of packets that are gone, then evict: else more than needed would follow."""
        if self.index.drop_step():
            return True
        if not self.room.step():
            return False
        self.index.forget()
        return True


class HistoryWriter:
    """Writer of the history, made in the proxy's loop and used there alone."""

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        clock: Clock,
        max_age_s: float = 0.0,
        on_rows: Callable[[list[Exchange]], None] | None = None,
        on_state: Callable[[str], None] | None = None,
    ) -> None:
        """Start the thread. In the loop, `on_rows` is called with the exchanges of each batch that
        was committed, `on_state` with the reason when nothing can be written, and with none when it
        can be again."""
        self._path = path
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._on_rows = on_rows
        self._on_state = on_state
        self._loop = asyncio.get_running_loop()
        self._queue: deque[PostedExchange] = deque()
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._stop = threading.Event()
        # Each of these is written by one thread alone, so none needs a lock. The loop's:
        self._posted = 0
        self._posted_bytes = 0
        self._settled = -1
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._bodies_dropped = 0
        self._pushed_out = 0
        # The thread's:
        self._file: _File | None = None
        self._written_bytes = 0
        self._last_id = 0
        self._singly = 0
        """Number of posts that are to be written one by one."""
        self._committed_at = 0.0
        self._has_chores = True
        self._is_idle = False
        self._reason = ""
        self._aside = ""
        self._given_up = 0
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    # In the loop

    def post(self, exchange: Exchange) -> None:
        """Record an exchange as it is now; returns at once.

        Called again with the same object, it adds the response or how the exchange ended.
        """
        if self._stop.is_set():
            self._pushed_out += _missing(exchange)
            return
        size = _size(exchange.request) + _size(exchange.response)
        if self._posted_bytes - self._written_bytes + size > QUEUE_BYTES:
            size = self._without_bodies(exchange)
        if len(self._queue) >= QUEUE_POSTS:
            self._push_out()
        sides = (REQUEST if exchange.request else 0) | (RESPONSE if exchange.response else 0)
        self._posted += 1
        self._posted_bytes += size
        self._queue.append(PostedExchange(self._posted, exchange, sides, size))
        if not self._wake.is_set():
            self._wake.set()

    async def recorded(self, exchange: Exchange) -> None:
        """Wait until what was posted of it is in the file and its ids are set.

        While the file cannot be written it returns all the same, and `request_id` or `response_id`
        of what was not written stays 0.
        """
        if _missing(exchange) or self._settled < self._posted:
            await self.flush()

    async def flush(self) -> None:
        """Wait until all that was posted is in the file, or could not be written."""
        if self._settled >= self._posted or not self._thread.is_alive():
            return
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((self._posted, done))
        self._hurry()
        await done

    async def close(self) -> None:
        """Write what is left and let go of the file."""
        self._stop.set()
        self._hurry()
        await asyncio.to_thread(self._thread.join, CLOSE_S)

    def state(self) -> dict[str, Any]:
        """Return whether all is written: `ok`, else `reason`; `lost` counts lost packets."""
        return {
            "ok": not self._reason,
            "reason": self._reason,
            "lost": self._pushed_out + self._given_up,
            "bodies_dropped": self._bodies_dropped,
            "queued": len(self._queue),
            "set_aside": self._aside,
        }

    def _hurry(self) -> None:
        self._urgent.set()
        self._wake.set()

    def _without_bodies(self, exchange: Exchange) -> int:
        """Drop its bodies and return its size; rows, heads and true lengths are kept."""
        if not self._bodies_dropped:
            log.warning("the disk is too slow for the traffic: bodies are left out of the history")
        for name in ("request", "response"):
            sent: WireMessage | None = getattr(exchange, name)
            if sent and (sent.body or sent.original):
                self._bodies_dropped += not getattr(exchange, f"{name}_id")
                original = (sent.original[0], b"") if sent.original else None
                setattr(exchange, name, replace(sent, body=b"", original=original))
        return _size(exchange.request) + _size(exchange.response)

    def _push_out(self) -> None:
        """Drop the oldest of the queue: the newest are kept."""
        with suppress(IndexError):
            oldest = self._queue.popleft()
            self._posted_bytes -= oldest.size
            exchange = oldest.exchange
            if oldest.sides == REQUEST and exchange.response:
                return  # A later post has both.
            self._pushed_out += _missing(exchange)

    def _tell(self, number: int, exchanges: list[Exchange]) -> None:
        self._settled = max(self._settled, number)
        self._release(number)
        if exchanges and self._on_rows is not None:
            self._on_rows(exchanges)

    def _release(self, number: int) -> None:
        still = []
        for waits_for, done in self._waiting:
            if waits_for > number:
                still.append((waits_for, done))
            elif not done.done():
                done.set_result(None)
        self._waiting = still

    # In the thread

    def _run(self) -> None:
        while self._queue or not self._stop.is_set():
            try:
                self._turn(self._file or self._open())
            except Exception as error:
                # Whatever it is: recording goes on with the next attempt.
                self._fail(error)
        self._close_file()
        self._call(self._release, self._posted)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        # The loop may be closed before the thread is at its end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)

    def _open(self) -> _File:
        connection, aside = history_file.open_file(self._path, self._clock, self._last_id)
        try:
            index = Indexer(connection, self._max_bytes // SEGMENTS)
            room = Evictor(connection, self._max_bytes, self._max_age_s, self._clock)
            self._last_id = max(self._last_id, history_file.last_id(connection))
            identity = history_file.identity(self._path)
            file = _File(connection, identity, index, room, LogCarrier(self._path))
        except BaseException:
            connection.close()
            raise
        self._file = file
        self._has_chores = True
        if aside:
            self._aside = aside
            log.warning("the history was begun anew: %s", aside)
        self._call(self._tell, 0, [])
        return file

    def _turn(self, file: _File) -> None:
        """Wait until there is something to write, then write it; tend the index meanwhile."""
        if not self._queue and not self._stop.is_set():
            if not self._has_chores:
                self._has_chores = not self._wake.wait(ELSEWHERE_S)
            elif not self._wake.wait(0 if self._is_idle else IDLE_S):
                self._is_idle = True
                self._has_chores = file.tend()
                file.carrier.notice()
                self._well()
                return
        self._is_idle = False
        if len(self._queue) < BATCH_POSTS and not self._stop.is_set():
            self._urgent.wait(max(0.0, self._committed_at + LINGER_S - time.monotonic()))
        self._wake.clear()
        self._urgent.clear()
        if history_file.identity(self._path) != file.identity:
            # Somebody deleted it or put another in its place.
            self._close_file()
            file = self._open()
        self._commit(file)
        self._committed_at = time.monotonic()
        file.carrier.notice()
        if not file.make_room() and file.index.tail(self._last_id) > TAIL:
            file.index.step()

    def _commit(self, file: _File) -> None:
        entries = self._take()
        if not entries:
            return
        try:
            batch = history_file.write(file.connection, entries)
        except UNFIT as error:
            self._sort_out(entries, error)
            return
        except BaseException:
            self._queue.extendleft(reversed(entries))
            raise
        self._last_id = batch.last_id
        self._written_bytes += sum(entry.size for entry in entries)
        self._has_chores = True
        self._well()
        self._call(self._tell, entries[-1].number, [ids.exchange for ids in batch.exchanges])

    def _take(self) -> list[PostedExchange]:
        entries: list[PostedExchange] = []
        most, size = 1 if self._singly else BATCH_POSTS, 0
        while self._queue and len(entries) < most and size < BATCH_BYTES:
            # The loop may push out the last one at this moment.
            with suppress(IndexError):
                entries.append(self._queue.popleft())
                size += entries[-1].size
        self._singly = max(0, self._singly - 1)
        return entries

    def _sort_out(self, entries: list[PostedExchange], error: Exception) -> None:
        """Try those of a batch one by one, so that the one at fault is lost alone."""
        if len(entries) > 1:
            self._queue.extendleft(reversed(entries))
            self._singly = len(entries)
            return
        (entry,) = entries
        log.error("an exchange cannot be recorded: %s", error)
        self._written_bytes += entry.size
        self._given_up += _missing(entry.exchange)
        self._call(self._tell, entry.number, [])

    def _well(self) -> None:
        if self._reason:
            log.warning("the history is written again")
            self._set_reason("")

    def _set_reason(self, reason: str) -> None:
        if self._on_state is not None and reason != self._reason:
            self._call(self._on_state, reason)
        self._reason = reason

    def _fail(self, error: Exception) -> None:
        """Close the file, to be opened anew: after an error its state is not known."""
        self._close_file()
        if history_file.is_damage(error):
            with suppress(OSError):
                aside = history_file.set_aside(self._path, self._clock)
                self._aside = f"{self._path.name} is damaged ({error}); it is kept as {aside}"
                log.error("the history was begun anew: %s", self._aside)
                self._stop.wait(RETRY_S)
                return
        if not self._reason:
            log.error("the history cannot be written: %s", error)
        self._set_reason(f"the history cannot be written: {error}")
        self._call(self._release, self._posted)
        if self._stop.wait(RETRY_S):
            lost = {id(entry.exchange): entry.exchange for entry in self._queue}
            self._given_up += sum(map(_missing, lost.values()))
            self._queue.clear()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.carrier.close()
            with suppress(sqlite3.Error):
                file.connection.close()


def _size(sent: WireMessage | None) -> int:
    if sent is None:
        return 0
    size = len(sent.head) + len(sent.body)
    return size + len(sent.original[1]) if sent.original else size


def _missing(exchange: Exchange) -> int:
    """Return how many of its packets are not in the file."""
    return (exchange.request is not None and not exchange.request_id) + (
        exchange.response is not None and not exchange.response_id
    )
