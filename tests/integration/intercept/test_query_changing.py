"""Pages of a history that changes under the reader: evicted, damaged, or left by a dead writer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pilothouse.intercept.model import EngineUnreachable
from pilothouse.intercept.ports import HistoryAsk
from pilothouse.intercept.query.reader import HistoryReader
from tests.integration.intercept.history_rig import spoil, started
from tests.support.packets import History, ids_of, made, unhurried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILTERS = ("", "full_text == needle", "full_text =~ n..dle", "status == 200 && full_text == needle")


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.db")
    history.add(*(made("GET", f"/{n}", response=b"a needle") for n in range(100)))
    history.index(150)
    yield history
    history.close()


class ClockThatActs:
    """Does something in the middle of a walk, when it is looked at for the nth time."""

    def __init__(self, act: Callable[[], None], at: int) -> None:
        self.looks = 0
        self.act, self.at = act, at

    def __call__(self) -> float:
        self.looks += 1
        if self.looks == self.at:
            self.act()
        return 0.0


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("order", ["id desc", "id asc", "time asc", "url desc"])
def test_a_page_shows_what_was_there_when_it_began(history: History, text: str, order: str) -> None:
    clock = ClockThatActs(lambda: history.evict_before(81), at=2)
    reader = HistoryReader(history.path, now=clock)
    page = reader.page(HistoryAsk(filter=text, order=order, limit=500))
    assert clock.looks >= 2 or not text
    assert (len(page.rows), page.total_count, page.complete) == (200, 200, True)
    after = reader.page(HistoryAsk(filter=text, order=order, limit=500))
    assert (len(after.rows), after.total_count) == ((120, 120) if clock.looks >= 2 else (200, 200))
    reader.close()


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("order", ["id desc", "id asc", "time desc", "status asc", "url asc"])
def test_a_cursor_goes_on_where_packets_are_gone(history: History, text: str, order: str) -> None:
    reader = unhurried(history.path)
    ask = HistoryAsk(filter=text, order=order, limit=30)
    page = reader.page(ask)
    seen = ids_of(page.rows)
    # The packet that the cursor names is among those that go.
    history.evict_before(sorted(seen)[-1] + 1 if order.endswith("asc") else 41)
    kept = ids_of(reader.page(HistoryAsk(filter=text, limit=500)).rows)
    while page.next_cursor:
        page = reader.page(replace(ask, cursor=page.next_cursor))
        assert not set(seen) & set(ids_of(page.rows))
        seen += ids_of(page.rows)
    assert set(kept) <= set(seen)
    assert page.complete
    reader.close()


def test_a_damaged_history_is_told_as_one_that_cannot_be_read(history: History) -> None:
    history.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    reader = HistoryReader(history.path)
    spoil(history.path, 100)
    for ask in (HistoryAsk(), HistoryAsk(filter="full_text == needle")):
        with pytest.raises(EngineUnreachable, match="cannot be read"):
            reader.page(ask)
    with pytest.raises(EngineUnreachable):
        reader.detail(1)
    reader.close()


RECORDER = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.integration.intercept.history_rig import answer, asked, open_writer

async def main():
    async with open_writer(Path(sys.argv[1])) as writer:
        for number in range(50):
            exchange = asked(f"/{number}")
            writer.post(answer(exchange, b"a needle"))
            await writer.recorded(exchange)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_what_a_killed_writer_had_told_is_read_before_another_writes(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with started(RECORDER, str(path)) as recorder:
        recorder.communicate(timeout=30)
    reader = unhurried(path)
    assert reader.page(HistoryAsk()).total_count == 100
    page = reader.page(HistoryAsk(filter="response == needle && url == /49"))
    assert ids_of(page.rows) == [100, 99]
    reader.close()
