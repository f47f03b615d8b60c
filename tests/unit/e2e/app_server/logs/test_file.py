"""A log of bounded size: it goes on in another file, and places in it stay true."""

from __future__ import annotations

import os
import resource
import signal
import threading
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.e2e.app_server.logs import reader
from pilothouse.e2e.app_server.logs.file import LEAST_BYTES, LogFile, older_name, place_of
from pilothouse.e2e.app_server.logs.reader import Onward, onward, since, sizes, tail
from pilothouse.e2e.model import LogFileNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF = LEAST_BYTES // 2
LINE = b"line %07d of a server that has a great deal to say of itself\n"
WIDTH = len(LINE % 0)
MANY = 10_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.stdout.log"


@contextmanager
def log_at(path: Path) -> Iterator[LogFile]:
    log = LogFile(path, LEAST_BYTES)
    try:
        yield log
    finally:
        log.close()


def write(log: LogFile, first: int, many: int) -> None:
    """So many lines, a good many at once."""
    last = first + many
    for begin in range(first, last, 700):
        log.write(b"".join(LINE % number for number in range(begin, min(begin + 700, last))))


def on_disk(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.iterdir())


def from_(path: Path, place: int, lines: int = 10_000) -> Onward:
    return onward(path, place, lines, within=(path.parent,))


def numbers(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines()]


def test_a_log_stays_below_its_size_and_keeps_its_name(path: Path) -> None:
    with log_at(path) as log:
        for first in range(0, 10 * MANY, MANY):
            write(log, first, MANY)
            assert on_disk(path) <= LEAST_BYTES
    assert len(list(path.parent.iterdir())) == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_last_lines_are_read_over_the_border_of_two_files(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 3 * MANY)
    newest = path.stat().st_size // WIDTH
    found = tail(path, newest + 100, within=(path.parent,))
    assert numbers(found.text) == list(range(3 * MANY - newest - 100, 3 * MANY))
    assert (found.size, found.truncated) == (3 * MANY * WIDTH, False)


def test_who_asks_for_more_lines_than_are_left_is_told(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 3 * MANY)
    found = tail(path, 10_000, within=(path.parent,))
    assert 0 < found.lines <= 10_000
    assert tail(path, found.lines, within=(path.parent,)).truncated is (found.lines == 10_000)
    with log_at(path.with_name("other.log")) as log:
        write(log, 0, 10)
    assert not tail(path.with_name("other.log"), 100, within=(path.parent,)).truncated


def test_a_place_is_true_also_after_the_log_went_on_in_another_file(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 6_000)
        place = from_(path, 0).next
        write(log, 6_000, 3_000)
        assert len(list(path.parent.iterdir())) == 2
        found = from_(path, place)
    assert numbers(found.text) == list(range(6_000, 9_000))
    assert (found.missed, found.truncated, found.restarted) == (0, False, False)


def test_who_comes_too_late_is_told_how_many_bytes_it_missed(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 100)
        place = from_(path, 0).next
        write(log, 100, 4 * MANY)
        found = from_(path, place, lines=5)
    first = numbers(found.text)[0]
    assert first > 100
    assert found.missed == first * WIDTH - place
    assert found.truncated, "more lines follow"


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 3_000)), max_size=12))
def test_lines_and_missed_bytes_are_all_that_was_written(
    path: Path, steps: list[tuple[int, int]]
) -> None:
    for left in path.parent.iterdir():
        left.unlink()
    written = place = seen = missed = 0
    with log_at(path) as log:
        for many, lines in [*steps, (0, 10**6), (0, 10**6)]:
            write(log, written, many)
            written += many
            found = from_(path, place, lines)
            place = found.next
            seen += len(numbers(found.text))
            missed += found.missed
    assert seen * WIDTH + missed == place == written * WIDTH


def test_a_reader_beside_the_writer_loses_and_repeats_nothing(path: Path) -> None:
    """The log goes on in another file some thirty times meanwhile."""
    many = 200_000
    found: list[int] = []
    with log_at(path) as log:
        writing = threading.Thread(target=write, args=(log, 0, many))
        writing.start()
        place = missed = 0
        while writing.is_alive() or place < many * WIDTH:
            page = from_(path, place)
            told = numbers(page.text)
            assert told == list(range(told[0], told[0] + len(told))) if told else True
            assert page.missed % WIDTH == 0
            if told:
                assert (place + page.missed) // WIDTH == told[0]
            found += told
            missed += page.missed
            place = page.next
            tail(path, 10, within=(path.parent,))
        writing.join()
    assert len(found) * WIDTH + missed == many * WIDTH
    assert found == sorted(set(found))


@pytest.mark.parametrize("written", [100, 5_900])
def test_a_log_that_goes_on_elsewhere_while_it_is_opened_is_opened_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    moments = iter([6_000, 6_000])
    open_file = reader._open_file

    def open_later(*how: Any) -> tuple[int, int]:
        """Just before, more is written than the file has room for."""
        nonlocal written
        if many := next(moments, 0):
            write(log, written, many)
            written += many
        return open_file(*how)

    with log_at(path) as log:
        write(log, 0, written)
        monkeypatch.setattr(reader, "_open_file", open_later)
        found = tail(path, 10_000, within=(path.parent,))
    told = numbers(found.text)
    assert told == list(range(told[0], written))
    assert found.start == told[0] * WIDTH
    assert found.size == written * WIDTH


def test_what_is_handed_on_by_offsets_goes_on_as_well(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 6_000)
        before = sizes([path])[str(path)]
        write(log, 6_000, 3_000)
        assert sizes([path])[str(path)] == 9_000 * WIDTH
        new = since(path, before, within=(path.parent,))
        late = since(path, 0, within=(path.parent,), limit=10 << 20)
        write(log, 9_000, 3 * MANY)
        later = since(path, 0, within=(path.parent,), limit=10 << 20)
    assert numbers(new.text) == list(range(6_000, 9_000))
    assert (new.missed, new.restarted, new.offset) == (0, False, 9_000 * WIDTH)
    assert late.missed == 0
    assert later.missed == numbers(later.text)[0] * WIDTH > 0


def test_a_place_behind_the_end_is_answered_with_the_beginning(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    found = from_(path, 100)
    assert (found.text, found.next, found.missed, found.restarted) == ("one\ntwo", 8, 0, True)


@pytest.mark.parametrize(
    ("content", "place", "lines", "text", "following"),
    [
        (b"", 0, 5, "", 0),
        (b"one\ntwo\n", 0, 1, "one", 4),
        (b"one\ntwo\n", 4, 5, "two", 8),
        (b"one\ntw", 0, 5, "one", 4),
        (b"one\ntw", 4, 5, "tw", 6),
        (b"10 %\r50 %\r100 %\nup\n", 0, 1, "10 %\r50 %\r100 %", 16),
        ("so weit, caf\u00e9".encode()[:-1], 0, 5, "so weit, caf", 12),
    ],
)
def test_the_lines_that_follow_a_place(
    path: Path, content: bytes, place: int, lines: int, text: str, following: int
) -> None:
    path.write_bytes(content)
    found = from_(path, place, lines)
    assert (found.text, found.next) == (text, following)


def test_only_what_this_writer_names_so_is_an_older_half() -> None:
    assert place_of("app.log", older_name("app.log", 52)) == 52
    others = "app.log", "app.log.1", "app.log.from-", "app.log.from-x", "b.app.log.from-5"
    assert [place_of("app.log", name) for name in others] == [None] * 5


@pytest.mark.parametrize("trick", ["link", "hard link", "folder"])
def test_no_trick_with_an_older_half_reads_from_outside(
    tmp_path: Path, path: Path, trick: str
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir(mode=0o700)
    secret = tmp_path / "secret"
    secret.write_text("the secret of another folder\n")
    (inside / path.name).write_text("own\n")
    older = inside / older_name(path.name, 0)
    if trick == "link":
        older.symlink_to(secret)
    elif trick == "hard link":
        older.hardlink_to(secret)
    else:
        older.mkdir()
    found = tail(inside / path.name, 10, within=(inside,))
    assert (found.text, found.size) == ("own", 4), "it neither reads nor refuses for it"
    assert sizes([inside / path.name]) == {str(inside / path.name): 4}


@pytest.mark.parametrize(
    ("mode", "name"),
    [(0o777 | 0o1000, "app.stdout.log"), (0o755, "x.stdout.log"), (0o700, "x.log")],
)
def test_what_lies_beside_a_log_of_another_is_no_older_half_of_it(
    tmp_path: Path, mode: int, name: str
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    (folder / name).write_text("own\n")
    (folder / older_name(name, 10**17)).write_text("put there by somebody\n")
    found = tail(folder / name, 10, within=(folder,))
    assert (found.text, found.size, found.start) == ("own", 4, 0)
    assert sizes([folder / name]) == {str(folder / name): 4}


def test_only_folders_for_us_alone_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step the sizes of foreign logs are asked for, and /tmp may hold a great deal."""
    tmp_path.chmod(0o755)
    path = tmp_path / "app.stdout.log"
    path.write_text("own\n")

    def refuse(*_: object) -> list[str]:
        raise OSError("it is listed")

    monkeypatch.setattr(os, "listdir", refuse)
    assert sizes([path]) == {str(path): 4}


def test_a_log_that_is_not_there_is_told_so(path: Path) -> None:
    with pytest.raises(LogFileNotFound):
        from_(path, 0)


# Trouble


@contextmanager
def most_file_bytes(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_what_a_full_disk_does_not_take_is_counted_and_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with log_at(path) as log:
        with most_file_bytes(10 * WIDTH):
            write(log, 0, 25)
            write(log, 25, 5)
        write(log, 30, 2)
    lines = path.read_text().splitlines()
    assert numbers("\n".join(lines[:10])) == list(range(10))
    assert lines[10].startswith(f"… {20 * WIDTH} bytes are missing here: ")
    assert numbers("\n".join(lines[11:])) == [30, 31]
    assert len(caplog.records) == 1, "once, however many lines are lost"


def test_a_log_that_gets_no_new_file_does_not_grow_for_that(path: Path) -> None:
    moved = path.parent / "moved"
    folder = path.parent / "folder"
    folder.mkdir()
    path = folder / path.name
    with log_at(path) as log:
        write(log, 0, 100)
        folder.rename(moved)
        write(log, 100, 5 * MANY)
        assert on_disk(moved / path.name) <= HALF
        moved.rename(folder)
        write(log, 5 * MANY + 100, 10)
        assert on_disk(path) <= LEAST_BYTES
    lines = path.read_bytes().splitlines(keepends=True)
    gaps = [line for line in lines if b" bytes are missing here: " in line]
    assert all(line.startswith("… ".encode()) for line in gaps)
    told = sum(len(line) for line in lines if line not in gaps)
    # A line that was torn was given an end, so that the gap stands on a line of its own.
    torn = sum(not one.endswith(b"itself\n") for one, two in pairwise(lines) if two in gaps)
    assert told - torn + sum(int(gap.split()[1]) for gap in gaps) == (5 * MANY + 110) * WIDTH
    assert numbers(lines[-1].decode()) == [5 * MANY + 109]


@pytest.mark.parametrize("refused", ["app.stdout.log", ".app.stdout.log.new"])
def test_a_log_that_cannot_be_renamed_stays_below_its_size_and_goes_on_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name == refused:
            raise PermissionError(13, "Permission denied", str(self))
        return rename(self, target)

    with log_at(path) as log:
        write(log, 0, 100)
        before = psutil.Process().num_fds()
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", fail)
            write(log, 100, 5 * MANY)
        assert psutil.Process().num_fds() == before
        assert [one.name for one in path.parent.iterdir()] == [path.name]
        assert on_disk(path) <= LEAST_BYTES
        write(log, 5 * MANY + 100, 10)
        assert numbers(tail(path, 10, within=(path.parent,)).text)[-1] == 5 * MANY + 109
        assert on_disk(path) <= LEAST_BYTES
    assert b" bytes are missing here: Permission denied" in path.read_bytes()


def test_a_full_disk_costs_no_descriptors(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 5_000)
        before = psutil.Process().num_fds()
        with most_file_bytes(path.stat().st_size):
            for _ in range(3):
                log.write(LINE % 0 * 2_000)
        assert psutil.Process().num_fds() == before


def test_an_older_half_that_cannot_be_removed_is_removed_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def fail(self: Path, missing_ok: bool = False) -> None:
        if ".from-" in self.name:
            raise PermissionError(13, "Permission denied", str(self))
        unlink(self, missing_ok)

    with log_at(path) as log:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", fail)
            write(log, 0, 10 * MANY)
        assert on_disk(path) <= LEAST_BYTES + HALF
        write(log, 10 * MANY, MANY)
        assert on_disk(path) <= LEAST_BYTES


def test_a_log_that_somebody_removed_goes_on(path: Path) -> None:
    with log_at(path) as log:
        write(log, 0, 100)
        os.unlink(path)
        write(log, 100, MANY)
        assert numbers(tail(path, 1, within=(path.parent,)).text) == [MANY + 99]
