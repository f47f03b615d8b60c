"""Pages over real history files: what filters mean, paging in every order, and limits of time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.history.schema import ORDERS
from pilothouse.intercept.model import BadFilter, PacketNotFound
from pilothouse.intercept.ports import HistoryAsk, HistoryPage
from pilothouse.intercept.query import scan
from pilothouse.intercept.query.reader import HistoryReader
from tests.support.packets import START_MS, TRAFFIC, History, Sent, ids_of, made, unhurried

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    history = History(tmp_path / "history.db")
    yield history
    history.close()


@pytest.fixture
def reader(history: History) -> Iterator[HistoryReader]:
    reader = unhurried(history.path)
    yield reader
    reader.close()


def hits(reader: HistoryReader, text: str) -> list[int]:
    page = reader.page(HistoryAsk(filter=text, order="id asc"))
    assert page.complete
    assert page.total_is_exact
    assert page.total_count == len(page.rows)
    return ids_of(page.rows)


MEANINGS: tuple[tuple[str, list[int]], ...] = (
    # The spec's examples.
    ("status >= 400 && status <= 599", [3, 4, 5, 6]),
    ("length > 10000", [9, 10]),
    ("url =~ /api/ && (method == GET || method == POST)", [1, 2, 5, 6]),
    ("full_text_i =~ authorization", [9, 10]),
    ("type == WebSocket", [11, 12]),
    ("method == POST && url =~ /login && status == 401", [3, 4]),
    ("method == GET && url =~ /api/", [1, 2]),
    ("status != 200", [3, 4, 5, 6, 7, 8]),
    ("url =~ /api/v[0-9]+/", [5, 6]),
    ("url !~ /static/", [1, 2, 3, 4, 5, 6, 9, 10, 13, 14, 15, 16, 17]),
    ("method == GET || method == POST", [*range(1, 11), 14, 15, 16, 17]),
    # Every column.
    ("id == 2", [1, 2]),
    ("id != 2", list(range(3, 18))),
    ("id > 15", [16, 17]),
    ("id =~ ^1[67]$", [16, 17]),
    ("group == 3", [3, 4]),
    ("client_ip == 127.0.0.1 && client_port == 50000 && id <= 2", [1, 2]),
    ("server_ip =~ ^127 && server_port == 443", [16, 17]),
    ("server_port != 80", [16, 17]),
    ("server_name == auth.test", [3, 4]),
    ("encode == HTTP && alpn == h2", [16, 17]),
    ("resend == true", [14, 15]),
    ("resend == false && id >= 13", [13, 16, 17]),
    ("modified == 1", [14, 15]),
    ("modified != true && id >= 13", [13, 16, 17]),
    ("modified == false && id >= 14", [14, 15, 16, 17]),
    ("status =~ ^[45]", [3, 4, 5, 6]),
    ("method == get", []),
    ("url == /api/users", [1, 2]),
    ("url == api", []),
    ("type == websocket", []),
    ("type != HTTP", [11, 12]),
    # Texts, whichever packet of the exchange has them.
    ("request == geheim", [3, 4]),
    ("request == geheim && status == 401", [3, 4]),
    ("request == geheim && status == 500", []),
    ("url == /login && method == POST", [3, 4]),
    ("response == geheim", []),
    ("response == KeyError", [5, 6]),
    ("request == pong", []),
    ("response == pong", [12]),
    ("full_text == ping", [11]),
    ("full_text == Zoë", [1, 2]),
    ("full_text_i == ZOË", [1, 2]),
    ("full_text == ZOË", []),
    ("full_text == TREASURE", [16, 17]),
    ("full_text == treasure", []),
    ("full_text_i == treasure", [16, 17]),
    ("full_text_i =~ hidden.TREAS", [16, 17]),
    ("full_text =~ (pi|po)ng", [11, 12]),
    ("full_text =~ (ping|pong) from", [11, 12]),
    ("response != OK && response == from", [12]),
    ("request != GET && id <= 12", [3, 4, 5, 6, 11]),
    ("full_text != HTTP", [11, 12]),
    ("full_text !~ HTTP", [11, 12]),
    ('full_text == "a.com"', []),
    # Nothing is there to match.
    ("status != 999 && method == PUT", []),
    ("url != x && type == WebSocket", []),
    ("request != x && id == 12", []),
    # Grouping.
    ("method == PUT || method == POST && status == 500", [5, 6, 13]),
    ("(method == PUT || method == POST) && status == 500", [5, 6]),
)


@pytest.fixture(params=[1, 512], ids=["step by step", "at once"])
def hits_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far one answer of the text index goes."""
    monkeypatch.setattr(scan, "FIRST_HITS", request.param)
    monkeypatch.setattr(scan, "WIDEST", 2 * request.param)


@pytest.mark.usefixtures("hits_at_once")
@pytest.mark.parametrize("indexed_to", [0, 8, 12, 17])
def test_filters_mean_what_they_say_whatever_the_index_has_got_to(
    history: History, reader: HistoryReader, indexed_to: int
) -> None:
    history.add(*TRAFFIC)
    history.index(indexed_to)
    wrong = {text: found for text, ids in MEANINGS if (found := hits(reader, text)) != ids}
    assert wrong == {}


def test_times_compare_as_they_are_shown(history: History, reader: HistoryReader) -> None:
    history.add(
        made(request=Sent(time=START_MS + 0.5), response=Sent(time=START_MS + 5)),
        made(request=Sent(time=START_MS + 10), response=Sent(time=START_MS + 11)),
    )
    assert hits(reader, "time == 2025-01-15T10:13:20.000Z") == [1, 2]
    assert hits(reader, "time != 2025-01-15T10:13:20.000Z") == [3, 4]
    assert hits(reader, "time > 2025-01-15T10:13:20.005Z") == [3, 4]
    assert hits(reader, "time >= 2025-01-15T10:13:20.005Z") == [1, 2, 3, 4]
    assert hits(reader, "time <= 2025-01-15T10:13:20.000Z") == [1, 2]
    assert hits(reader, "time < 2025-01-15T10:13:20Z") == []
    assert hits(reader, "time =~ 20.010Z$") == [3, 4]
    assert hits(reader, f"time >= {int(START_MS) + 11}") == [3, 4]


@pytest.mark.usefixtures("hits_at_once")
def test_both_rows_of_an_exchange_are_found_however_far_apart(
    history: History, reader: HistoryReader
) -> None:
    filler = [made("GET", f"/n/{n}") for n in range(1_500)]
    history.add(made("GET", "/poll", request=b"needle-one", apart=3_000), *filler)
    history.add(
        made("GET", "/poll", response=b"needle-two", apart=8),
        *(made() for _ in range(4)),
        first_id=49_996,
    )
    history.index()
    assert hits(reader, "full_text == needle-one") == [1, 3_002]
    assert hits(reader, "full_text == needle-two") == [49_996, 50_005]
    assert hits(reader, "url == /poll && full_text =~ needle") == [1, 3_002, 49_996, 50_005]
    assert hits(reader, "full_text == needle && url =~ /poll") == [1, 3_002, 49_996, 50_005]


@pytest.mark.usefixtures("hits_at_once")
def test_an_exchange_half_of_which_is_not_indexed_is_found(
    history: History, reader: HistoryReader
) -> None:
    history.add(made(response=b"late needle", apart=3), made(), made("GET", "/n", response=None))
    for reached in range(6):
        history.index(max(reached, 0))
        assert hits(reader, "full_text == needle") == [1, 5]


def paged(reader: HistoryReader, ask: HistoryAsk) -> Iterator[HistoryPage]:
    """Every page, from cursor to cursor."""
    for _ in range(1_000):
        page = reader.page(ask)
        yield page
        assert page.has_more == bool(page.next_cursor)
        if not page.next_cursor:
            return
        ask = replace(ask, cursor=page.next_cursor, offset=0)
    raise AssertionError("the cursors do not end")


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("column", ORDERS)
@pytest.mark.parametrize("text", ["", "url =~ /api/", "client_port >= 0", "full_text =~ [a-z]"])
def test_pages_in_every_order_give_every_row_once(
    history: History, reader: HistoryReader, column: str, direction: str, text: str
) -> None:
    history.add(*TRAFFIC)
    history.index(9)
    descending = direction == "desc"
    whole = reader.page(HistoryAsk(filter=text, order=f"{column} {direction}", limit=100))
    assert not whole.has_more
    values = [(row[column], row["id"]) for row in whole.rows if row[column] is not None]
    assert values == sorted(values, reverse=descending)
    missing = [row["id"] for row in whole.rows if row[column] is None]
    assert ids_of(whole.rows)[len(values) :] == sorted(missing, reverse=descending)
    ask = HistoryAsk(filter=text, order=f"{column} {direction}", limit=3)
    pages = list(paged(reader, ask))
    assert [id for page in pages for id in ids_of(page.rows)] == ids_of(whole.rows)
    assert all(page.total_count == whole.total_count for page in pages)
    skipped = reader.page(HistoryAsk(filter=text, order=f"{column} {direction}", limit=3, offset=2))
    assert ids_of(skipped.rows) == ids_of(whole.rows)[2:5]


def test_a_cursor_is_not_moved_by_packets_that_come_in(
    history: History, reader: HistoryReader
) -> None:
    history.add(*(made() for _ in range(10)))
    first = reader.page(HistoryAsk(limit=6))
    history.add(*(made() for _ in range(10)))
    second = reader.page(HistoryAsk(limit=6, cursor=first.next_cursor))
    assert ids_of(first.rows) == [20, 19, 18, 17, 16, 15]
    assert ids_of(second.rows) == [14, 13, 12, 11, 10, 9]
    assert second.total_count == 40


def test_a_large_offset_is_reached_at_once_and_through_gaps(
    history: History, reader: HistoryReader
) -> None:
    history.add(*(made() for _ in range(10)))
    assert ids_of(reader.page(HistoryAsk(offset=15, limit=3)).rows) == [5, 4, 3]
    assert ids_of(reader.page(HistoryAsk(offset=15, limit=3, order="id asc")).rows) == [16, 17, 18]
    history.add(made(), first_id=31)
    page = reader.page(HistoryAsk(offset=15, limit=3))
    assert (ids_of(page.rows), page.total_count) == ([7, 6, 5], 22)
    assert ids_of(reader.page(HistoryAsk(offset=20, limit=3, order="id asc")).rows) == [31, 32]


def test_rows_have_every_column_and_group(history: History, reader: HistoryReader) -> None:
    history.add(*TRAFFIC[:1])
    (row, _) = reader.page(HistoryAsk(order="id asc")).rows
    assert (row["group"], row["peer_id"], row["method"]) == (1, 2, "GET")
    assert "group_id" not in row
    assert len(row) == 31


def test_a_session_sees_its_own_packets_and_those_of_nobody(
    history: History, reader: HistoryReader
) -> None:
    history.add(*TRAFFIC)
    mine = reader.page(HistoryAsk(session="mine"))
    assert (mine.total_count, mine.total_is_exact) == (15, True)
    assert not {14, 15} & set(ids_of(mine.rows))
    other = reader.page(HistoryAsk(session="other", filter="method == GET", limit=2))
    assert ids_of(other.rows) == [17, 16]
    assert other.total_count == 10
    assert reader.page(HistoryAsk()).total_count == 17
    assert reader.ids("resend == true", 10, session="mine") == []


class Clock:
    """Each look at it costs the same."""

    def __init__(self, step: float) -> None:
        self.at = 0.0
        self.step = step

    def __call__(self) -> float:
        self.at += self.step
        return self.at


@pytest.mark.parametrize("step", [0.003, 0.1, 0.5])
@pytest.mark.parametrize("order", ["id desc", "id asc", "time desc", "status asc", "url desc"])
@pytest.mark.parametrize(
    "text", ["full_text =~ [Tt]racebac.", "request == ee", "full_text == Trac"]
)
def test_a_scan_out_of_time_goes_on_by_cursor_and_loses_nothing(
    history: History, order: str, text: str, step: float
) -> None:
    history.add(*TRAFFIC, *(made("GET", f"/{n % 7}", 200 + n) for n in range(60)), *TRAFFIC)
    history.index(150)
    patient = unhurried(history.path)
    expected = ids_of(patient.page(HistoryAsk(filter=text, order=order)).rows)
    patient.close()
    hasty = HistoryReader(history.path, now=Clock(step))
    pages = list(paged(hasty, HistoryAsk(filter=text, order=order, limit=2)))
    hasty.close()
    found = [id for page in pages for id in ids_of(page.rows)]
    if order == "url desc":
        found, expected = sorted(found), sorted(expected)
    assert found == expected
    for page in pages:
        assert page.complete or page.next_cursor
        assert page.total_count <= len(expected) or not page.total_is_exact
    if step == 0.5 and "Tt" in text:
        assert any(not page.complete for page in pages)


@pytest.mark.parametrize("order", ["id desc", "time desc", "url desc"])
def test_a_scan_out_of_time_counts_what_it_found_and_no_more(history: History, order: str) -> None:
    history.add(*(made(response=b"word") for _ in range(30)))
    hasty = HistoryReader(history.path, now=Clock(0.05))
    nothing = HistoryAsk(filter="response =~ n.thing", order=order)
    pages = list(paged(hasty, nothing))
    assert any(not page.complete for page in pages)
    assert {page.total_count for page in pages} == {0}
    beyond = HistoryAsk(filter="response =~ w.rd", order=order, offset=50)
    page = hasty.page(beyond)
    assert (page.rows, page.complete, page.total_is_exact) == ([], False, False)
    assert 0 < page.total_count < 50
    hasty.close()


def test_an_offset_that_time_cut_short_goes_on_in_the_cursor(history: History) -> None:
    history.add(*(made(response=b"word") for _ in range(30)))
    hasty = HistoryReader(history.path, now=Clock(0.05))
    ask = HistoryAsk(filter="response =~ w.rd", limit=5, offset=40)
    found = [id for page in paged(hasty, ask) for id in ids_of(page.rows)]
    hasty.close()
    assert found == list(range(20, 0, -1))


@pytest.mark.parametrize(
    "cursor",
    ["x", "!!", "e30", "W10", "A" * 500, "WyJpZCBkZXNjIiwwLG51bGwsLTEsMCwwLDBd", "\ud800", "é"],
)
def test_a_cursor_that_is_not_ours_is_refused(reader: HistoryReader, cursor: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        reader.page(HistoryAsk(cursor=cursor))
    assert caught.value.details["field"] == "cursor"


def test_a_cursor_of_another_question_is_refused(history: History, reader: HistoryReader) -> None:
    history.add(*TRAFFIC)
    cursor = reader.page(HistoryAsk(limit=2)).next_cursor
    for ask in (
        HistoryAsk(cursor=cursor, filter="id > 1"),
        HistoryAsk(cursor=cursor, order="id asc"),
        HistoryAsk(cursor=cursor, session="mine"),
        HistoryAsk(cursor=cursor + "="),
    ):
        with pytest.raises(InvalidInput):
            reader.page(ask)


@pytest.mark.parametrize(
    "order", ["", "id", "id up", "alpn asc", "id desc desc", "ID desc", "id;--"]
)
def test_a_bad_order_is_refused(reader: HistoryReader, order: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        reader.page(HistoryAsk(order=order))
    assert caught.value.details["field"] == "order"


def test_a_direction_may_be_written_in_capitals(history: History, reader: HistoryReader) -> None:
    history.add(made())
    assert ids_of(reader.page(HistoryAsk(order="id  DESC")).rows) == [2, 1]


def test_bad_counts_and_filters_are_refused_without_a_file(tmp_path: Path) -> None:
    reader = HistoryReader(tmp_path / "none.db")
    for ask in (HistoryAsk(limit=0), HistoryAsk(offset=-1)):
        with pytest.raises(InvalidInput):
            reader.page(ask)
    with pytest.raises(BadFilter):
        reader.page(HistoryAsk(filter="x"))
    reader.close()


def test_a_history_that_does_not_exist_yet_is_empty_until_it_does(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d" / "history.db"
    path.parent.mkdir()
    reader = HistoryReader(path)
    assert reader.page(HistoryAsk()) == HistoryPage(rows=[], total_count=0)
    assert reader.ids("", 10) == []
    with pytest.raises(PacketNotFound, match="the history is empty"):
        reader.detail(1)
    assert not path.exists()
    history = History(path)
    assert reader.page(HistoryAsk()).total_count == 0
    history.add(made())
    assert reader.page(HistoryAsk()).total_count == 2
    history.close()
    reader.close()


def test_a_file_that_was_replaced_is_read_anew(history: History, reader: HistoryReader) -> None:
    history.add(made())
    assert reader.page(HistoryAsk()).total_count == 2
    history.close()
    for end in ("", "-wal", "-shm"):
        companion = history.path.with_name(history.path.name + end)
        if companion.exists():
            companion.rename(companion.with_name("aside" + end))
    again = History(history.path)
    again.add(made(), made())
    assert reader.page(HistoryAsk()).total_count == 4
    again.close()


def test_a_detail_shows_both_sides_of_either_id(history: History, reader: HistoryReader) -> None:
    history.add(
        made(
            "POST",
            "/x",
            request=Sent(
                b"new", head=b"POST /x HTTP/1.1\r\n\r\n", modified=True, original=(b"h", b"old")
            ),
            response=b"answer",
        ),
        made(None, None, None, type="UDP", request=None, response=b"datagram"),
    )
    for id in (1, 2):
        detail = reader.detail(id)
        assert detail.row["id"] == id
        assert detail.request is not None
        assert detail.response is not None
        assert (detail.request.id, detail.request.body, detail.request.modified) == (
            1,
            b"new",
            True,
        )
        assert (detail.request.original_head, detail.request.original_body) == (b"h", b"old")
        assert (detail.response.id, detail.response.body) == (2, b"answer")
        assert detail.response.modified is False
    alone = reader.detail(3)
    assert alone.request is None
    assert alone.response is not None
    assert alone.response.body == b"datagram"


def test_an_evicted_packet_is_answered_with_the_oldest_kept(
    history: History, reader: HistoryReader
) -> None:
    history.add(*(made() for _ in range(10)))
    history.evict_before(5)
    with pytest.raises(PacketNotFound, match="the oldest that is kept is 5") as caught:
        reader.detail(4)
    assert caught.value.details["oldest_id"] == 5
    with pytest.raises(PacketNotFound, match="the history has 5 to 20"):
        reader.detail(21)
    with pytest.raises(PacketNotFound):
        reader.detail(-1)


def test_a_dropped_segment_of_the_index_is_not_asked(
    history: History, reader: HistoryReader
) -> None:
    history.add(made(response=b"needle"))
    history.add(made(response=b"needle"), first_id=50_001)
    history.index()
    assert hits(reader, "full_text == needle") == [1, 2, 50_001, 50_002]
    history.evict_before(50_000)
    assert hits(reader, "full_text == needle") == [50_001, 50_002]


def test_totals_are_counted_again_after_each_write(history: History, reader: HistoryReader) -> None:
    history.add(*(made() for _ in range(5)))
    ask = HistoryAsk(filter="method == GET", limit=1)
    assert [reader.page(ask).total_count for _ in range(2)] == [10, 10]
    history.add(made())
    assert reader.page(ask).total_count == 12


def test_pages_are_read_from_many_threads_while_a_writer_writes(
    history: History, reader: HistoryReader
) -> None:
    history.add(*TRAFFIC)
    history.index()
    wrong: list[object] = []

    def read() -> None:
        for _ in range(20):
            page = reader.page(
                HistoryAsk(filter="full_text == geheim || status == 500", order="id asc", limit=4)
            )
            if ids_of(page.rows) != [3, 4, 5, 6]:
                wrong.append(page)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        history.add(made("GET", "/more", 500))
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_without_its_indexes_a_history_is_read_all_the_same(tmp_path: Path) -> None:
    history = History(tmp_path / "bare.db", indexes=())
    history.add(*TRAFFIC)
    history.index()
    reader = unhurried(history.path)
    assert hits(reader, "full_text == geheim") == [3, 4]
    assert hits(reader, "status == 500") == [5, 6]
    page = reader.page(HistoryAsk(order="length desc", limit=1))
    assert ids_of(page.rows) == [10]
    reader.close()
    history.close()
