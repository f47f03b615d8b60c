"""A store that has caps: the oldest events make room, and whoever reads is told how many."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.settings import Settings
from pilothouse.observe.model import Body, Seen
from pilothouse.observe.read.query import Query
from pilothouse.observe.record.observation import Observation
from pilothouse.observe.record.session_store import SessionStore, open_store
from pilothouse.observe.record.store_limits import Caps
from pilothouse.wiring.groups import _store_caps
from tests.support.until import wait_until

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

DAY_S = 86_400
NOW = time.time() * 1000
OLD = NOW - 8 * DAY_S * 1000
WEEK = Caps(7 * DAY_S, 0)
MB = 1 << 20
ALL = Query()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.db"


def opened(
    path: Path, caps: Caps | None = None, owner: str = "me"
) -> AbstractContextManager[SessionStore | None]:
    return open_store(f"sqlite:{path}", owner, lambda _: caps)


def fill(path: Path, first: int, many: int, at: float, target: str = "T", size: int = 10) -> None:
    with opened(path) as keep:
        assert keep is not None
        for seq in range(first, first + many):
            event = {"kind": "request", "type": "x", "requestId": str(seq), "text": "x" * size}
            keep.append(target, seq, Seen(at, event))
            keep.keep_body(target, str(seq), Body("text/plain", "body", False))


def count(path: Path, table: str, target: str = "T") -> int:
    with closing(sqlite3.connect(path)) as connection:
        sql = f"SELECT count(*) FROM {table} WHERE target = ?"
        return int(connection.execute(sql, (target,)).fetchone()[0])


def used(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def observation(keep: SessionStore, target: str = "T") -> Observation:
    return Observation(target, "127.0.0.1", 9222, lambda: NOW, lambda uri: None, 100, 60, keep=keep)


def test_events_that_are_too_old_go_with_their_bodies_and_readers_are_told(path: Path) -> None:
    fill(path, 0, 1300, OLD)
    fill(path, 1300, 40, NOW)
    with opened(path, WEEK) as keep:
        assert keep is not None
        wait_until(lambda: count(path, "events") == 40)
        assert count(path, "bodies") == 40
        observed = observation(keep)
        page = observed.read(ALL, 1000, 100)
        assert [seq for seq, _ in page.items] == list(range(1300, 1340))
        assert (page.missed, page.next_seq) == (300, 1340)
        assert observed.read(ALL, 1310, 5).missed == 0
        assert observed.older(1340, 1000).missed == 1300


def test_a_target_of_which_all_is_gone_counts_on(path: Path) -> None:
    fill(path, 0, 30, OLD)
    with opened(path, WEEK) as keep:
        assert keep is not None
        wait_until(lambda: count(path, "events") == 0)
        assert keep.next_seq("T") == 30
        observed = observation(keep)
        assert observed.read(ALL, 0, 10).missed == 30
        observed.clear()
        assert observed.read(ALL, 0, 10).missed == 0, "what was cleared does not count"


def test_of_too_much_the_oldest_go_whichever_target_they_are_of(path: Path) -> None:
    fill(path, 0, 2000, NOW - 2000, "first", size=1000)
    fill(path, 0, 2000, NOW - 1000, "second", size=1000)
    with opened(path, Caps(0, 12 * MB)):
        wait_until(lambda: used(path) <= 12 * MB)
    assert count(path, "events", "first") < 2000
    assert count(path, "events", "second") == 2000


def test_without_caps_all_stays(path: Path) -> None:
    fill(path, 0, 30, 0.0)
    with opened(path) as keep:
        assert keep is not None
        keep._store.flush()
    assert count(path, "events") == 30


def test_only_a_store_in_our_own_folders_has_caps(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = Settings(home=str(home), keep_days=3, keep_mb=400)
    assert _store_caps(settings, home / "events.db") == Caps(3 * DAY_S, 100 * MB)
    assert _store_caps(settings, tmp_path / "events.db") is None
    (home / "link").symlink_to(tmp_path)
    assert _store_caps(settings, home / "link" / "events.db") is None
