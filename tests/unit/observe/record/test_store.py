"""The store: everything comes back, after a restart and after a kill, and no failure stops us."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.observe.model import Seen
from pilothouse.observe.read.query import Query
from pilothouse.observe.record.observation import Observation
from pilothouse.observe.record.session_store import SessionStore, open_store
from pilothouse.observe.record.store import EventStore, StoreError
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GUARD_S = 30
ALL = Query()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


@pytest.fixture
def store(path: Path) -> Iterator[EventStore]:
    made = EventStore(path)
    yield made
    made.close()


def event(number: int, **more: Any) -> dict[str, Any]:
    """Five kinds in turn, so that filters have something to choose from."""
    return {
        "kind": ["console", "log", "request", "response", "other"][number % 5],
        "type": "error" if number % 3 == 0 else "log",
        "text": f"line {number}",
        "url": f"http://a.test/{number % 7}",
        "method": "GET" if number % 2 else "POST",
        "requestId": str(number % 11),
        "status": 200 + number % 300,
        "ts": number,
        "sessionId": "S",
        **more,
    }


def observation(keep: SessionStore, capacity: int = 1_000) -> Observation:
    return Observation(
        "T", "127.0.0.1", 9222, lambda: 0.0, lambda uri: None, capacity, 60, keep=keep
    )


def record(observed: Observation, numbers: range, **more: Any) -> None:
    assert observed.keep is not None
    for number in numbers:
        seen = Seen(float(number), event(number, **more))
        observed.keep.append("T", observed.ring.append(seen, number), seen)


def integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


def test_everything_comes_back_as_it_was_after_reopening(path: Path) -> None:
    kept = [Seen(float(n), event(n)) for n in range(500)]
    with open_store(f"sqlite:{path}", "me") as first:
        assert first is not None
        for seq, seen in enumerate(kept):
            first.append("T", seq, seen)
    with open_store(f"sqlite:{path}", "me") as second:
        assert second is not None
        assert second.next_seq("T") == 500
        page = second.read("T", 0, 500, 1_000, ALL)
        assert [seq for seq, _ in page.items] == list(range(500))
        for (_, back), seen in zip(page.items, kept, strict=True):
            assert all(getattr(back, name) == getattr(seen, name) for name in Seen.__slots__)
        assert second._store.targets("me") == ["T"]


def test_an_observation_after_a_restart_reads_on_and_counts_on(path: Path) -> None:
    with open_store(f"sqlite:{path}", "me") as first:
        assert first is not None
        record(observation(first), range(30))
    with open_store(f"sqlite:{path}", "me") as second:
        assert second is not None
        observed = observation(second)
        record(observed, range(30, 40))
        assert [seq for seq, _ in observed.ring] == list(range(30, 40))
        page = observed.read(ALL, 0, 100)
        assert [seq for seq, _ in page.items] == list(range(40))
        assert (page.next_seq, page.missed, page.matched) == (40, 0, 40)


def test_the_newest_events_come_from_the_store_where_the_ring_has_fewer(path: Path) -> None:
    with open_store(f"sqlite:{path}", "me") as first:
        assert first is not None
        record(observation(first), range(30))
    with open_store(f"sqlite:{path}", "me") as second:
        assert second is not None
        observed = observation(second, capacity=4)
        for limit, before in ((10, 30), (3, 30)):
            assert [seq for seq, _ in observed.newest(limit).items] == list(range(30 - limit, 30))
            assert observed.newest(limit).next_seq == before
        record(observed, range(30, 37))
        assert [seq for seq, _ in observed.newest(10).items] == list(range(27, 37))
        assert [seq for seq, _ in observed.older(33, 5).items] == list(range(28, 33))
        assert observed.older(33, 5).missed == 28
        observed.clear()
        assert observed.newest(10).items == []


def test_a_line_that_was_stored_is_not_taken_again_after_a_restart(path: Path) -> None:
    def say(observed: Observation, at: float) -> int:
        line = {"type": "log", "args": [{"type": "string", "value": "x"}], "timestamp": at}
        return len(observed.take("Runtime.consoleAPICalled", line, "S"))

    with open_store(f"sqlite:{path}", "me") as first:
        assert first is not None
        observed = observation(first)
        assert [say(observed, at) for at in (10.0, 20.0)] == [1, 1]
    with open_store(f"sqlite:{path}", "me") as second:
        assert second is not None
        observed = observation(second)
        observed.go_on()
        assert [say(observed, at) for at in (10.0, 20.0, 20.5)] == [0, 0, 1]


QUERIES = [
    ALL,
    Query(kinds=("console", "log")),
    Query(method="post"),
    Query(level="error"),
    Query(since=20_000.0),
    Query(status=">=400"),
    Query(url_includes="/3"),
    Query(request_id="7"),
    Query(text_includes="99"),
    Query(kinds=("request",), method="GET", status="2xx", text_includes="1", url_includes="a"),
    Query(kinds=("log",), text_includes="nothing like it"),
]


def test_paging_over_the_seam_gives_each_event_once(store: EventStore) -> None:
    observed = observation(SessionStore(store, "me"))
    record(observed, range(25_000))
    assert observed.ring.first_seq == 24_000
    every = [Seen(float(n), event(n)) for n in range(25_000)]
    for query in QUERIES:
        fits = query.matcher()
        expected = [n for n in range(25_000) if fits is None or fits(every[n])]
        found: list[int] = []
        offset, rounds = 0, 0
        while offset < 25_000:
            page = observed.read(query, offset, 200)
            assert page.matched == len(expected) - len(found)
            assert page.missed == 0
            assert page.next_seq > offset
            found += [seq for seq, _ in page.items]
            offset, rounds = page.next_seq, rounds + 1
        assert found == expected
        assert rounds <= len(expected) // 200 + 2


@pytest.mark.parametrize("limit", [1, 99, 100, 101, 149, 150, 151])
def test_a_page_that_ends_near_the_seam_goes_on_rightly(store: EventStore, limit: int) -> None:
    observed = observation(SessionStore(store, "me"), capacity=50)
    record(observed, range(150))
    first = observed.read(ALL, 0, limit)
    rest = observed.read(ALL, first.next_seq, 1_000)
    assert [seq for seq, _ in [*first.items, *rest.items]] == list(range(150))
    assert (first.matched, rest.matched) == (150, 150 - limit if limit < 150 else 0)


WRITER = """
import sys
from pathlib import Path
from pilothouse.observe.model import Seen
from pilothouse.observe.record.store import EventStore
store = EventStore(Path(sys.argv[1]))
number = 0
while True:
    event = {"kind": "console", "type": "log", "text": f"line {number}" + "x" * 200}
    store.append("me", "T", number, Seen(float(number), event))
    number += 1
    if number % 500 == 0:
        store.flush()
        print(number, flush=True)
"""


@pytest.mark.process
def test_a_killed_writer_leaves_a_prefix_without_holes(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        promised = [int(writer.stdout.readline()) for _ in range(3)][-1]
        os.kill(writer.pid, signal.SIGKILL)
        assert writer.wait(GUARD_S) == -signal.SIGKILL
    assert integrity(path) == "ok"
    reopened = EventStore(path)
    try:
        count = reopened.next_seq("me", "T")
        assert count >= promised
        page = reopened.read("me", "T", 0, count, limit=count, query=ALL)
        assert [seq for seq, _ in page.items] == list(range(count))
        assert page.items[-1][1].unpack()["text"].startswith(f"line {count - 1}x")
    finally:
        reopened.close()


def test_only_the_user_can_read_the_files(store: EventStore, path: Path) -> None:
    store.append("me", "T", 0, Seen(0.0, event(0)))
    store.flush()
    files = sorted(path.parent.iterdir())
    assert path in files
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * len(files)


def test_two_owners_do_not_see_each_other(store: EventStore) -> None:
    mine, yours = SessionStore(store, "me"), SessionStore(store, "you")
    mine.append("T", 0, Seen(0.0, event(0, text="mine")))
    yours.append("T", 0, Seen(0.0, event(0, text="yours")))
    yours.append("U", 0, Seen(0.0, event(0)))
    store.flush()
    assert [s.unpack()["text"] for _, s in mine.read("T", 0, 9, 9, ALL).items] == ["mine"]
    assert mine.next_seq("U") == 0
    assert store.targets("me") == ["T"]
    mine.forget("T")
    assert not mine.holds("T")
    assert mine.next_seq("T") == 1  # a number is never given twice
    assert yours.next_seq("T") == 1


_OTHER = """
import sys
from pilothouse.observe.record.session_store import open_store
with open_store(f"sqlite:{sys.argv[1]}", "me") as keep:
    print(keep._owner, flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_two_processes_of_one_owner_do_not_write_over_each_other(path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "me\n"
        with open_store(f"sqlite:{path}", "me") as beside:
            assert beside is not None
            assert beside._owner == "me.2"
        # One that was killed has left its name behind, and holds it no longer.
        other.kill()
        other.wait()
        with open_store(f"sqlite:{path}", "me") as after:
            assert after is not None
            assert after._owner == "me"


def test_forgetting_also_deletes_what_was_still_on_its_way(store: EventStore) -> None:
    keep = SessionStore(store, "me")
    for number in range(100):
        keep.append("T", number, Seen(0.0, event(number)))
    keep.forget("T")
    store.flush()
    assert keep.read("T", 0, 100, 100, ALL).items == []


class TinyDisk(EventStore):
    """A store on a disk of 48 KiB."""

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        connection.execute("PRAGMA max_page_count=12")
        return connection


@pytest.fixture
def full(path: Path) -> Iterator[Observation]:
    """An observation of 300 events whose store took only the first ten."""
    store = TinyDisk(path)
    observed = observation(SessionStore(store, "me"), capacity=100)
    record(observed, range(10))
    store.flush()
    assert store.failed == ""
    record(observed, range(10, 300), text="x" * 60_000)
    store.flush()
    assert "full" in store.failed
    yield observed
    store.close()
    assert integrity(path) == "ok"


def test_a_full_disk_does_not_stop_the_recording_in_memory(full: Observation) -> None:
    record(full, range(300, 310))
    page = full.read(ALL, 0, 1_000)
    assert [seq for seq, _ in page.items] == [*range(10), *range(210, 310)]


def test_what_neither_ring_nor_store_has_is_said_to_be_missing(full: Observation) -> None:
    assert full.read(ALL, 0, 1_000).missed == 190
    assert full.read(ALL, 150, 1_000).missed == 50


@pytest.mark.parametrize(
    ("url", "status"), [("http://a.test/\ud800", 200), ("http://a.test/", 10**30)]
)
def test_an_event_that_sqlite_cannot_hold_ends_nothing(
    store: EventStore, url: str, status: int
) -> None:
    odd = Seen.stored(
        at=0.0,
        kind="response",
        url=url,
        method="GET",
        level="",
        status=status,
        request_id="1",
        packed=b"{}",
    )
    store.append("me", "T", 0, odd)
    store.append("me", "T", 1, Seen(0.0, event(1)))
    wait_until(lambda: store.next_seq("me", "T") == 2 or not store._writer.is_alive())
    assert store._writer.is_alive()
    assert [seq for seq, _ in store.read("me", "T", 0, 2, limit=9, query=ALL).items][-1] == 1


@pytest.mark.parametrize("query", [Query(status=f">={10**30}"), Query(since=10**30)])
def test_a_number_beyond_64_bits_in_a_query_matches_nothing(
    store: EventStore, query: Query
) -> None:
    observed = observation(SessionStore(store, "me"), capacity=5)
    record(observed, range(20))
    assert observed.read(query, 0, 10).items == []


def test_a_setting_that_names_no_store_is_refused_and_none_is_no_store() -> None:
    for setting in ("redis:x", "sqlite", "sqlite:", "events.db"):
        with pytest.raises(StoreError, match="sqlite:PATH"), open_store(setting, "me"):
            pass
    with open_store("", "me") as none:
        assert none is None


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "folder.db"
    with pytest.raises(StoreError, match=r"folder\.db"):
        EventStore(missing)
    (tmp_path / "letter.db").write_text("this is no database, but a letter to a friend" * 50)
    with pytest.raises(StoreError, match=r"letter\.db"):
        EventStore(tmp_path / "letter.db")
