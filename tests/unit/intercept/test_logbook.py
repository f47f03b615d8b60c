"""The proxy's log: what fits is read newest first, and what does not is left out."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.logbook import KEPT, LONGEST, Logbook, moment
from pilothouse.intercept.ports import LogAsk
from pilothouse.machine.audit_file import KEPT as FILED
from pilothouse.machine.audit_file import AuditFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def book() -> Logbook:
    ticks = count(1_736_899_200_000, 1000)  # 2025-01-15T00:00:00Z and a second each
    return Logbook(lambda: float(next(ticks)))


def messages(book: Logbook, **ask: object) -> list[str]:
    return [entry["message"] for entry in book.read(LogAsk(**ask)).logs]  # type: ignore[arg-type]


def test_entries_are_shown_newest_first_as_the_spec_has_them(book: Logbook) -> None:
    book.write("info", "one", component="engine", thread="loop")
    book.write("error", "two")
    page = book.read(LogAsk())
    assert page.logs == [
        {
            "timestamp": "2025-01-15T00:00:01.000Z",
            "level": "error",
            "message": "two",
            "thread": "main",
            "class": "pilothouse",
        },
        {
            "timestamp": "2025-01-15T00:00:00.000Z",
            "level": "info",
            "message": "one",
            "thread": "loop",
            "class": "engine",
        },
    ]
    assert (page.total_count, page.has_more) == (2, False)


def test_a_level_is_the_least_that_is_shown(book: Logbook) -> None:
    for level in ("debug", "info", "warn", "error"):
        book.write(level, level)
    assert messages(book, level="debug") == ["error", "warn", "info", "debug"]
    assert messages(book) == ["error", "warn", "info"]
    assert messages(book, level="error") == ["error"]


def test_the_total_counts_what_fits_and_not_what_is_shown(book: Logbook) -> None:
    for number in range(5):
        book.write("info", f"line {number}")
    page = book.read(LogAsk(limit=2))
    assert [entry["message"] for entry in page.logs] == ["line 4", "line 3"]
    assert (page.total_count, page.has_more) == (5, True)


def test_since_is_a_time_in_any_zone(book: Logbook) -> None:
    for number in range(4):
        book.write("info", f"line {number}")
    for since in ("2025-01-15T00:00:02Z", "2025-01-15T09:00:02+09:00", "2025-01-15T00:00:02"):
        assert messages(book, since=since) == ["line 3", "line 2"]


def test_a_filter_is_a_pattern_that_ignores_case(book: Logbook) -> None:
    for text in ("An Error", "an exception", "all is well"):
        book.write("info", text)
    assert messages(book, filter="error|EXCEPTION") == ["an exception", "An Error"]


@pytest.mark.parametrize(
    ("ask", "field"),
    [({"level": "loud"}, "level"), ({"since": "yesterday"}, "since"), ({"filter": "("}, "filter")],
)
def test_what_cannot_be_read_names_its_field(
    book: Logbook, ask: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        book.read(LogAsk(**ask))
    assert caught.value.details["field"] == field
    assert caught.value.hint


def test_the_book_is_bounded_in_entries_and_in_their_length(book: Logbook) -> None:
    for number in range(KEPT + 5):
        book.write("info", f"{number} " + "x" * LONGEST)
    page = book.read(LogAsk(limit=KEPT * 2))
    assert page.total_count == KEPT
    assert page.logs[-1]["message"].startswith("5 ")
    assert len(page.logs[0]["message"]) == LONGEST


def test_a_change_is_told_with_who_made_it(book: Logbook) -> None:
    book.audit("REST", "configuration replaced")
    (entry,) = book.read(LogAsk()).logs
    assert (entry["class"], entry["message"]) == ("audit", "configuration replaced (by REST)")


def test_a_level_that_is_none_is_taken_as_information(book: Logbook) -> None:
    book.write("alert", "odd")
    assert book.read(LogAsk()).logs[0]["level"] == "info"


def test_a_moment_without_a_zone_is_utc() -> None:
    assert moment("1970-01-01T00:00:01") == 1000.0


def test_changes_are_there_again_after_a_restart_and_the_rest_of_the_log_is_not(
    tmp_path: Path,
) -> None:
    file = tmp_path / "audit.jsonl"
    before = Logbook(lambda: 1_736_899_200_000.0, AuditFile(file))
    before.audit("REST", "packet 1 sent again")
    before.write("info", "nothing was changed")
    with file.open("a") as writer:
        writer.write('{"at": 17368')  # a crash
    (entry,) = Logbook(lambda: 0.0, AuditFile(file)).read(LogAsk()).logs
    assert (entry["timestamp"], entry["class"]) == ("2025-01-15T00:00:00.000Z", "audit")
    assert entry["message"] == "packet 1 sent again (by REST)"
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_file_of_changes_does_not_grow_for_ever(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.jsonl")
    for number in range(5 * FILED):
        file.add(float(number), str(number))
    found = AuditFile(tmp_path / "audit.jsonl").read()
    assert [at for at, _ in found] == [float(n) for n in range(4 * FILED, 5 * FILED)]
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) <= 2 * FILED
    assert [path.name for path in tmp_path.iterdir()] == ["audit.jsonl"]


def test_a_full_disk_costs_no_change(tmp_path: Path) -> None:
    book = Logbook(lambda: 0.0, AuditFile(tmp_path / "missing" / "audit.jsonl"))
    book.audit("REST", "packet 1 sent again")
    assert messages(book) == ["packet 1 sent again (by REST)"]


def test_the_newest_message_that_begins_so_is_found_without_reading_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AuditFile(tmp_path / "audit.jsonl")
    for at, message in enumerate(('b "1": old', 'b "1": new', 'a: says b "1": not', "c: x")):
        file.add(at, message)
    with (tmp_path / "audit.jsonl").open("a") as torn:
        torn.write('{"at": 9, "message": "b \\"1\\": cut')
    loads = json.loads
    read: list[str] = []

    def watch(line: str) -> Any:
        read.append(line)
        return loads(line)

    monkeypatch.setattr("pilothouse.machine.audit_file.json.loads", watch)
    assert file.last('b "1": ') == "new"
    assert len(read) == 3
    assert file.last("d: ") == ""
    assert len(read) == 3
    assert AuditFile(tmp_path / "none").last("b") == ""
