"""Reader of the history: pages, single exchanges, and how a filter would be carried out.

Ids are scanned in stretches, newest or oldest first, until the page is full; the text index or an
index of a column says where it is worth looking. What cannot be had in the time for a scan is left
to the next page, and the answer says so.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
import threading
import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.filter.sql import EVERYTHING, INDEXED_ORDERS, INDEXES, QueryPlan, plan_of
from pilothouse.intercept.model import EngineUnreachable, PacketNotFound
from pilothouse.intercept.ports import Detail, HistoryAsk, HistoryPage, Side
from pilothouse.intercept.query.connection import FileState, ReadConnection
from pilothouse.intercept.query.cursors import (
    CursorPosition,
    RowOrder,
    read_cursor,
    read_order,
    write_cursor,
)
from pilothouse.intercept.query.scan import Found, Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["INDEXES", "HistoryReader"]

SCAN_S = 0.4
GATHER_S = 0.15
"""Seconds for sorting all hits of a filter that seems to have few; a scan in order has the rest."""
WINDOW_S = 0.2
"""Seconds for choosing what is sorted together without an index; reading it again has no limit."""
COUNT_S = 0.05
COUNT_ALL_S = 0.025
"""Seconds for counting an unfiltered page, which has to be there at once."""
EXPORT_S = 10.0
IDLE_CONNECTIONS = 4
NEVER = 1e9


class HistoryReader:
    """Reader of a history file that others write meanwhile. Any thread may call."""

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._now = now
        self._lock = threading.Lock()
        self._idle: list[ReadConnection] = []
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for reading in idle:
            reading.db.close()

    def page(self, ask: HistoryAsk) -> HistoryPage:
        """Read a page; raises BadFilter, EngineUnreachable, InvalidInput (order, cursor, count)."""
        plan, order = plan_of(ask.filter), read_order(ask.order)
        place = read_cursor(ask.cursor, order, (ask.filter, ask.session))
        _check_counts(ask)
        with self._snapshot() as (reading, snapshot):
            if snapshot.is_empty:
                return HistoryPage(rows=[], total_count=0, warning=plan.warning)
            return _Asked(reading, snapshot, plan, order, ask).page(place)

    def detail(self, packet_id: int) -> Detail:
        """Return both sides of the exchange of a packet; raises PacketNotFound."""
        with self._snapshot() as (_, snapshot):
            rows = _rows(snapshot, [packet_id])
            if not rows:
                raise _not_found(packet_id, snapshot)
            row = rows[0]
            own, other = _side(snapshot, packet_id), _side(snapshot, row["peer_id"])
        request, response = (other, own) if row["is_response"] else (own, other)
        return Detail(row=row, request=request, response=response)

    def explain(self, text: str) -> dict[str, Any]:
        """Explain how a filter is read and carried out; raises BadFilter."""
        from pilothouse.intercept.filter.explain import explained

        return explained(text)

    def ids(self, filter: str, limit: int, session: str | None = None) -> list[int]:
        """Return the newest packets that match, newest first, as far as a long scan finds them."""
        plan = plan_of(filter)
        with self._snapshot() as (reading, snapshot):
            if snapshot.is_empty:
                return []
            reading.watch.start(EXPORT_S)
            walk = Walk(reading, snapshot, plan, session)
            found = walk.by_id(0, snapshot.newest, descending=True)
            return [id for id, _ in islice(found, limit)]

    @contextmanager
    def _snapshot(self) -> Iterator[tuple[ReadConnection, FileState]]:
        """Hold a connection of its own for as long as it is used; raises EngineUnreachable."""
        reading: ReadConnection | None = None
        try:
            reading = self._taken()
            with reading.snapshot() as snapshot:
                yield reading, snapshot
        except sqlite3.Error as error:
            if reading is not None:
                reading.db.close()
            raise EngineUnreachable(
                f"the history cannot be read: {error}",
                hint="call again in a second: a damaged history is set aside and begun anew;"
                " get_logs says what happened",
            ) from error
        except BaseException:
            if reading is not None:
                self._give_back(reading)
            raise
        self._give_back(reading)

    def _taken(self) -> ReadConnection:
        with self._lock:
            idle, self._idle = self._idle, []
            current = [reading for reading in idle if reading.is_current]
            taken = current.pop() if current else None
            self._idle = current
        for reading in idle:
            if reading is not taken and reading not in current:
                reading.db.close()
        return taken or ReadConnection(self.path, self._now)

    def _give_back(self, reading: ReadConnection) -> None:
        with self._lock:
            if not self._closed and reading.is_current and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(reading)
                return
        reading.db.close()


class _Asked:
    """One page being put together."""

    def __init__(
        self,
        reading: ReadConnection,
        snapshot: FileState,
        plan: QueryPlan,
        order: RowOrder,
        ask: HistoryAsk,
    ) -> None:
        self.reading, self.snapshot, self.plan = reading, snapshot, plan
        self.order, self.ask = order, ask
        self.warning = plan.warning
        # Where nobody else has packets, a session sees all, and all is quicker to read and count.
        self.session = ask.session if _others(snapshot, ask.session) else None
        self.walk = self._new_walk()

    def page(self, place: CursorPosition) -> HistoryPage:
        index = INDEXED_ORDERS.get(self.order.column, "")
        if self.order.column == "id":
            return self._by_id(place)
        if index in self.snapshot.names:
            return self._by_index(place, index)
        return self._by_window(place)

    def _new_walk(self) -> Walk:
        return Walk(self.reading, self.snapshot, self.plan, self.session)

    def _by_id(self, place: CursorPosition) -> HistoryPage:
        low, high = 0, self.snapshot.newest
        if place.id:
            low, high = (0, place.id - 1) if self.order.descending else (place.id + 1, high)
        skip = place.skip + self.ask.offset
        if self.plan is EVERYTHING and self.session is None and self.snapshot.is_gapless:
            # Without gaps, the id at an offset can be computed.
            low = max(low, self.snapshot.oldest)
            low, high = (low, high - skip) if self.order.descending else (low + skip, high)
            skip = 0
        self.reading.watch.start(SCAN_S)
        found = self.walk.by_id(low, high, descending=self.order.descending)
        return self._ended(skip, found)

    def _by_index(self, place: CursorPosition, index: str) -> HistoryPage:
        after = (place.id, place.key) if place.id else None
        skip = place.skip + self.ask.offset
        if self.plan.is_narrow:
            self.reading.watch.start(GATHER_S)
            best = self._best(0, self.snapshot.newest, place)
            if self.walk.complete:
                return self._ended(skip, iter(best))
        self.walk = self._new_walk()
        self.reading.watch.start(SCAN_S - GATHER_S if self.plan.is_narrow else SCAN_S)
        found = self.walk.by_index(index, self.order.name, after, descending=self.order.descending)
        return self._ended(skip, found)

    def _ended(self, skip: int, found: Iterator[Found]) -> HistoryPage:
        """Return the page of a scan that gives what matches in the order asked for."""
        taken = list(islice(found, skip + self.ask.limit + 1))
        given = taken[skip : skip + self.ask.limit]
        if len(taken) > skip + self.ask.limit:
            return self._page(given, CursorPosition(given[-1][1], given[-1][0]), seen=len(taken))
        if self.walk.complete:
            is_whole = not self.ask.cursor and skip == self.ask.offset
            total = (len(taken), True) if is_whole else None
            return self._page(given, None, seen=len(taken), total=total)
        key = _key(self.snapshot.db, self.order.name, self.walk.reached)
        place = CursorPosition(key, self.walk.reached, max(0, skip - len(taken)))
        # The time for this page is used up, so nothing more is counted.
        return self._page(given, place, seen=len(taken), complete=False, total=(0, False))

    def _by_window(self, place: CursorPosition) -> HistoryPage:
        """Sort as many ids together as can be read in time; the next window follows."""
        chosen = place.low > 0
        self.reading.watch.start(NEVER if chosen else WINDOW_S)
        high = place.high or self.snapshot.newest
        best = self._best(place.low, high, place)
        low = place.low if chosen or self.walk.complete else self.walk.reached
        skip = place.skip + self.ask.offset
        given = best[skip : skip + self.ask.limit]
        is_rest = low <= self.snapshot.oldest
        if not is_rest:
            self.warning = _also(
                self.warning,
                f"no index serves the order {self.order}: it holds among the packets from {low} to"
                f" {high}, and next_cursor goes on to older ones",
            )
        if len(best) > skip + self.ask.limit:
            last = given[-1]
            place = CursorPosition(last[1], last[0], low=max(low, 1), high=high)
            return self._page(given, place, seen=len(best), complete=is_rest)
        if is_rest:
            return self._page(given, None, seen=len(best))
        place = CursorPosition(skip=max(0, skip - len(best)), high=low - 1)
        return self._page(given, place, seen=len(best), complete=False)

    def _best(self, low: int, high: int, place: CursorPosition) -> list[Found]:
        """Return the first rows of the order after the place, of all that match within the time."""
        wanted = place.skip + self.ask.offset + self.ask.limit + 1
        found = self.walk.by_id(low, high, descending=True, column=self.order.name)
        rank = _descending if self.order.descending else _ascending
        if place.id:
            last = rank((place.id, place.key))
            if self.order.descending:
                found = (row for row in found if rank(row) < last)
            else:
                found = (row for row in found if rank(row) > last)
        choose = heapq.nlargest if self.order.descending else heapq.nsmallest
        return choose(wanted, found, key=rank)

    def _page(
        self,
        given: list[Found],
        place: CursorPosition | None,
        *,
        seen: int,
        complete: bool = True,
        total: tuple[int, bool] | None = None,
    ) -> HistoryPage:
        """Make the page; `seen` is how many rows were found, with those that the offset skips."""
        count, is_exact = self._total() if total is None else total
        question = (self.ask.filter, self.ask.session)
        if self.reading.given_up:
            self.warning = _also(self.warning, _given_up({id for id, _ in self.reading.given_up}))
        return HistoryPage(
            rows=_rows(self.snapshot, [id for id, _ in given]),
            total_count=count if is_exact else max(count, seen),
            total_is_exact=is_exact,
            has_more=place is not None,
            complete=complete,
            next_cursor=write_cursor(place, self.order, question) if place else "",
            warning=self.warning,
        )

    def _total(self) -> tuple[int, bool]:
        is_all = not self.ask.filter.strip()
        if is_all and self.session is None and self.snapshot.rows is not None:
            return self.snapshot.rows, True
        question = (self.ask.filter, self.session)
        if question not in self.reading.totals:
            self.reading.watch.start(COUNT_ALL_S if is_all else COUNT_S)
            self.reading.totals[question] = self._new_walk().count()
        return self.reading.totals[question]


def _others(snapshot: FileState, session: str | None) -> bool:
    """Return whether there are packets that this session may not see."""
    if session is None:
        return False
    sql = (
        "SELECT EXISTS (SELECT 1 FROM packets WHERE session > '' AND session < ?1)"
        " OR EXISTS (SELECT 1 FROM packets WHERE session > ?1)"
    )
    return bool(snapshot.db.execute(sql, (session,)).fetchone()[0])


def _ascending(row: Found) -> tuple[bool, Any, int]:
    return row[1] is None, row[1], row[0]


def _descending(row: Found) -> tuple[bool, Any, int]:
    return row[1] is not None, row[1], row[0]


def _check_counts(ask: HistoryAsk) -> None:
    for field, value, least in (("limit", ask.limit, 1), ("offset", ask.offset, 0)):
        if value < least:
            raise InvalidInput(
                f"{field} is {value}",
                hint=f"leave {field} out for its default",
                field=field,
                expected=f"{least} or more",
                received=value,
            )


def _rows(snapshot: FileState, ids: list[int]) -> list[dict[str, Any]]:
    """Return the packets of these ids, in this order, with every column."""
    if not ids or snapshot.is_empty:
        return []
    found = snapshot.db.execute(
        "SELECT p.* FROM json_each(?) hit CROSS JOIN packets p NOT INDEXED WHERE p.id = hit.value",
        (json.dumps(ids),),
    )
    names = [_shown(name) for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def _shown(column: str) -> str:
    return "group" if column == "group_id" else column


def _key(db: sqlite3.Connection, column: str, packet_id: int) -> Any:
    found = db.execute(f"SELECT {column} FROM packets WHERE id = ?", (packet_id,)).fetchone()
    return found[0] if found else None


def _side(snapshot: FileState, packet_id: int | None) -> Side | None:
    found = snapshot.db.execute(
        "SELECT p.id, p.time, p.length, c.head, c.body, c.body_length, c.trailers, p.modified,"
        " c.original_head, c.original_body"
        " FROM packets p JOIN contents c ON c.id = p.id WHERE p.id = ?",
        (packet_id,),
    ).fetchone()
    if found is None:
        return None
    values = dict(zip(Side.__dataclass_fields__, found, strict=False))
    return Side(
        **{**values, "modified": bool(found[7]), "chunks": _chunks(snapshot, packet_id)},
    )


def _chunks(snapshot: FileState, packet_id: int | None) -> tuple[int, ...]:
    if "chunks" not in snapshot.names:
        return ()
    found = snapshot.db.execute("SELECT sizes FROM chunks WHERE id = ?", (packet_id,)).fetchone()
    return tuple(map(int, found[0].split(","))) if found else ()


def _not_found(packet_id: int, snapshot: FileState) -> PacketNotFound:
    kept = f"the history has {snapshot.oldest} to {snapshot.newest}"
    if snapshot.is_empty:
        kept = "the history is empty"
    elif 0 < packet_id < max(snapshot.oldest, snapshot.evicted_to + 1):
        kept = f"it was removed to make room: the oldest that is kept is {snapshot.oldest}"
    return PacketNotFound(
        f"there is no packet {packet_id}; {kept}",
        hint="get_history lists the ids",
        packet_id=packet_id,
        oldest_id=snapshot.oldest,
        newest_id=snapshot.newest,
    )


def _given_up(ids: set[int]) -> str:
    some = ", ".join(map(str, sorted(ids)[:5])) + (" …" if len(ids) > 5 else "")
    return (
        f"the pattern would take too long on {len(ids)} large texts, which were left out as if they"
        f" were not there (packets {some})"
    )


def _also(first: str, second: str) -> str:
    return f"{first}; {second}" if first else second
