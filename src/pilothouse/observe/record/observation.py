"""One observed target: its ring, its filters, and what the tools read of it. No socket."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pilothouse.core.timeline.ring import Ring, Slice
from pilothouse.observe.model import Filters, Seen
from pilothouse.observe.normalize.events import Normalizer
from pilothouse.observe.normalize.extra_info import merged
from pilothouse.observe.read.query import Query
from pilothouse.observe.record.bodies import Bodies

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.observe.model import Body
    from pilothouse.observe.read.stack_frames import Mapper

type State = Literal["observing", "crashed", "disconnected", "closed", "stopped", "stored"]
"""`crashed` until the page is reloaded, `disconnected` while the browser is gone, `closed` when
the tab is, `stopped` by cdp_stop_observe, `stored` when only the store remembers. The events
stay readable in all of them."""


MALFORMED = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError),
    *(OverflowError, RecursionError),
)
"""Exceptions that a browser's event raises if it does not fit the protocol."""


EVERYTHING = Filters()
EVERY_EVENT = Query()

_REPEATED = frozenset({"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"})
"""Events that a browser repeats from the page's beginning whenever it is attached to."""
REPEATED_MOST = 2_000
"""Lines that a browser repeats at most: a thousand each of the console's and of the log's."""


class Keep(Protocol):
    """A place for all events of one session."""

    @property
    def failed(self) -> str:
        """Why events could not be written, empty when all is well."""

    def append(self, target_id: str, seq: int, seen: Seen, said_at: float = 0.0) -> None: ...
    def keep_body(self, target_id: str, request_id: str, body: Body) -> None: ...
    def bodies(self, target_id: str) -> AbstractContextManager[Callable[[str], Body | None]]: ...
    def said_until(self, target_id: str) -> float: ...
    def lost(self, target_id: str, start: int, stop: int, known: int) -> int: ...
    def next_seq(self, target_id: str) -> int: ...
    def targets(self) -> list[str]: ...
    def holds(self, target_id: str) -> bool: ...
    def forget(self, target_id: str) -> None: ...
    def read(
        self, target_id: str, start: int, stop: int, limit: int, query: Query
    ) -> Slice[Seen]: ...


@dataclass
class EventCounts:
    """Counts for /metrics."""

    seen: int = 0
    filtered: int = 0
    malformed: int = 0


@dataclass(eq=False)
class Observation:
    """The record of one target."""

    target_id: str
    host: str
    port: int
    clock: Clock
    changed: Callable[[str], None]
    buffer_size: int
    ttl_sec: float
    include_workers: bool = True
    include_iframes: bool = True
    keep: Keep | None = None
    """Store of every event beside the ring, if there is one."""
    state: State = "observing"
    implicit: bool = False
    """Recorded for an e2e session; an agent's own cdp_observe adopts it."""
    filters: Filters = EVERYTHING
    tally: EventCounts = field(default_factory=EventCounts)
    first_seq: int = 0
    """Seq at which an observation of the same target, dropped since, has ended."""

    def __post_init__(self) -> None:
        start = self.keep.next_seq(self.target_id) if self.keep else 0
        start = max(start, self.first_seq)
        self.ring: Ring[Seen] = Ring(self.buffer_size, ttl=self.ttl_sec * 1000, start=start)
        self._last_line = self.keep.said_until(self.target_id) if self.keep else 0.0
        self._lines: deque[float] = deque(maxlen=REPEATED_MOST)
        """Times of the newest lines by the browser's clock, which may be set back meanwhile."""
        self._forgotten_until = self._last_line
        """Time of the newest line that is kept, but no more among those."""
        self._repeated: frozenset[float] = frozenset()
        self._repeated_until = self._attached_until = 0.0
        self.normalizer = Normalizer(lambda: self.filters.max_body_bytes, self._reported_by_network)
        self._page_seq = -1
        """Seq of the newest navigation."""
        if self.keep is None:
            self.bodies = Bodies()
        else:
            self.bodies = Bodies(store=partial(self.keep.keep_body, self.target_id))
        self.session_of: dict[str, str] = {}
        """Request id → the CDP session that saw it, which alone can give its body."""
        self.mapper: Mapper | None = None
        self.explaining: set[Future[None]] = set()
        """What is being found out about errors; it ends by itself."""
        self.listeners: list[Callable[[], None]] = []
        """Called when something was kept; for those who wait for an event."""
        self.uri = f"cdp://events/{self.target_id}"
        self.touched_at = self.clock()

    @property
    def dropped(self) -> int:
        return self.ring.dropped

    def take(self, method: str, params: dict[str, Any], session: str) -> list[dict[str, Any]]:
        """Keep what a protocol event says; return the normalised events that were kept."""
        kept: list[dict[str, Any]] = []
        try:
            if method in _REPEATED and self._is_repeated(params):
                return kept
            for event in self.normalizer.receive(method, params):
                if self._keep(event, session):
                    kept.append(event)  # noqa: PERF401  # what was kept before a bad one counts
        except MALFORMED:
            self.tally.malformed += 1
        if kept:
            self._tell()
        return kept

    def _is_repeated(self, params: dict[str, Any]) -> bool:
        said_at = (params.get("entry") or params).get("timestamp") or 0.0
        if said_at and (said_at <= self._repeated_until or said_at in self._repeated):
            return True
        if len(self._lines) == REPEATED_MOST:
            self._forgotten_until = max(self._forgotten_until, self._lines[0])
        self._lines.append(said_at)
        self._last_line = max(self._last_line, said_at)
        return False

    def expect_repeats(self) -> None:
        """Expect lines once more that are kept already: the browser repeats them when it is
        attached to, and when a page comes back from where it was left (bfcache)."""
        self._repeated = frozenset(self._lines)
        self._repeated_until = self._forgotten_until

    def page_came(self) -> None:
        """Note that a document has come, with its repeats: what follows is new, also if the clock
        was set back before lines that are not known one by one any more."""
        self._repeated_until = self._attached_until

    def go_on(self, buffer_size: int | None = None, ttl_sec: float | None = None) -> None:
        """Observe once more: the browser will repeat the lines that are kept already."""
        self.expect_repeats()
        self._attached_until = self._repeated_until
        self.limit(buffer_size, ttl_sec)

    def limit(self, buffer_size: int | None, ttl_sec: float | None) -> None:
        """Keep so many events so long from now on; None leaves it as it is."""
        self.buffer_size = buffer_size or self.buffer_size
        self.ttl_sec = ttl_sec or self.ttl_sec
        self.ring.resize(self.buffer_size, self.ttl_sec * 1000)

    def note(self, kind: str, **facts: Any) -> None:
        """Add an event of our own making: a gap, a detached child, a lost browser."""
        if self._keep({"kind": "other", "type": kind, **facts}, ""):
            self._tell()

    def _tell(self) -> None:
        self.changed(self.uri)
        for listener in self.listeners:
            listener()

    def _keep(self, event: dict[str, Any], session: str) -> bool:
        self.tally.seen += 1
        filters = self.filters
        if filters is not EVERYTHING and not filters.admits(event["kind"], event.get("url") or ""):
            self.tally.filtered += 1
            return False
        at = self.clock()
        event["ts"] = int(at)
        event["sessionId"] = session
        seen = Seen(at, event)
        seq = self.ring.append(seen, at)
        if self.keep is not None:
            self.keep.append(self.target_id, seq, seen, self._last_line)
        event["seq"] = seq
        if event["kind"] != "console":
            self._remember(event, seq, session)
        return True

    def _remember(self, event: dict[str, Any], seq: int, session: str) -> None:
        """Note where something was kept of which more may be reported."""
        kind = event["kind"]
        if kind in ("request", "response", "loadingFailed"):
            self.normalizer.traffic.kept(event, seq)
        elif event.get("type") == "navigated":
            self._page_seq = seq
        if kind in ("request", "response"):
            # A worker's script is asked for by its page and answered to the worker.
            self.session_of[event["requestId"]] = session
            if len(self.session_of) > 2 * self.buffer_size:
                del self.session_of[next(iter(self.session_of))]

    # What is reported later

    def amend(self, seq: int, more: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Let an event that is kept already say more, here and in the store; nothing happens to
        one that has made room."""
        seen = self.ring.get(seq)
        if seen is None:
            return
        seen.amend(more(seen.unpack()))
        if self.keep is not None:
            self.keep.append(self.target_id, seq, seen, self._last_line)

    def _reported_by_network(self, seq: int, facts: dict[str, Any]) -> None:
        self.amend(seq, lambda event: merged(event, facts))

    def loaded(self, name: str, at: float) -> None:
        """Tell with the navigation when its document was loaded, by the clock of `cdpTime`."""
        self.amend(self._page_seq, lambda event: {**event, name: at})

    def read(self, query: Query, offset: int, limit: int) -> Slice[Seen]:
        """Return a page of the ring; with a store, of everything that was ever kept."""
        first = self.ring.first_seq
        if self.keep is None or offset >= first:
            return self.ring.read(offset, limit, query.matcher())
        old = self.keep.read(self.target_id, offset, first, limit, query)
        room = limit - len(old.items)
        new = self.ring.read(first, room, query.matcher())
        after = new.next_seq if room else old.next_seq
        if room == 0 and old.next_seq == first and new.matched:
            after = first
        lost = self.keep.lost(self.target_id, offset, first, self.ring.cleared)
        return Slice([*old.items, *new.items], after, lost, old.matched + new.matched)

    def older(self, first: int, most: int) -> Slice[Seen]:
        """Return at most so many events before the ring's first; without a store there are none.

        `missed` is the number of those left out. The newest are taken, because the browser of the
        oldest is long gone. Called in a thread.
        """
        cleared = self.ring.cleared
        if self.keep is None:
            return Slice([], first, first - cleared, 0)
        start = max(0, first - most)
        part = self.keep.read(self.target_id, start, first, most, EVERY_EVENT)
        before = self.keep.read(self.target_id, 0, start, 1, EVERY_EVENT).matched
        lost = self.keep.lost(self.target_id, 0, first, cleared)
        return Slice(part.items, first, before + lost, part.matched)

    @contextmanager
    def kept_bodies(self) -> Iterator[Callable[[str], Body | None]]:
        """Open what gives the body of a request that is kept here or in the store."""
        if self.keep is None:
            yield self.bodies.get
            return
        with self.keep.bodies(self.target_id) as stored:
            yield lambda request_id: self.bodies.get(request_id) or stored(request_id)

    def newest(self, limit: int) -> Slice[Seen]:
        """Return the last events; those that the ring has no more, or not yet after a restart, from
        the store."""
        part = self.ring.tail(limit)
        room, first = limit - len(part.items), self.ring.first_seq
        if self.keep is None:
            return Slice(part.items, part.next_seq, self.dropped, part.matched)
        old = self.older(first, room).items if room else []
        return Slice([*old, *part.items], part.next_seq, 0, len(old) + part.matched)

    def troubles(self) -> list[str]:
        """Return what a reader should know about how this was recorded."""
        failed = self.keep.failed if self.keep is not None else ""
        return [f"the store cannot be written: {failed}; free some space"] if failed else []

    def clear(self) -> None:
        self.ring.clear()
        self.bodies.clear()
        if self.keep is not None:
            self.keep.forget(self.target_id)
        self.changed(self.uri)

    def expired(self, now: float) -> bool:
        """Tell whether nothing was added for longer than its time to live."""
        idle_since = self.touched_at
        return self.ring.expired(now) or (
            len(self.ring) == 0 and now - idle_since > self.ttl_sec * 1000
        )
