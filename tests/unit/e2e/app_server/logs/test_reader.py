"""The tail of a log: right at any size and break, and never a byte from outside the folders."""

from __future__ import annotations

import os
import socket
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.e2e.app_server.logs import reader
from pilothouse.e2e.app_server.logs.reader import since, tail, without_escapes
from pilothouse.e2e.model import LogFileNotFound, LogReadFailed
from tests.support.rounds import ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "the secret of another folder"
GIGABYTE = 1_000_000_000


def write(folder: Path, content: bytes, name: str = "app.log") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


# What is read


@pytest.mark.parametrize(
    ("content", "lines", "text", "start"),
    [
        (b"", 10, "", 0),
        (b"one", 10, "one", 0),
        (b"one\n", 10, "one", 0),
        (b"one\ntwo\nthree\n", 2, "two\nthree", 4),
        (b"one\ntwo\nthree", 2, "two\nthree", 4),
        (b"one\n\n\n", 2, "\n", 4),
        (b"\n", 5, "", 0),
        (b"one\r\ntwo\r\n", 5, "one\ntwo", 0),
        (b"one\ntwo\n", 0, "", 8),
        (b"\x1b[32mgreen\x1b[0m\n", 1, "green", 0),
        (b"bad \xff byte\n", 1, "bad \ufffd byte", 0),
    ],
)
def test_the_last_lines_are_read(
    tmp_path: Path, content: bytes, lines: int, text: str, start: int
) -> None:
    found = tail(write(tmp_path, content), lines, within=(tmp_path,))
    assert (found.text, found.start) == (text, start)
    assert found.size == len(content)
    assert not found.truncated


@given(
    pieces=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x1b")), max_size=30
    ),
    lines=st.integers(1, 40),
    ended=st.booleans(),
)
@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_the_tail_is_what_splitting_the_whole_file_would_give(
    tmp_path: Path, pieces: list[str], lines: int, ended: bool
) -> None:
    whole = "\n".join(pieces) + ("\n" if ended else "")
    expected = whole.removesuffix("\n").split("\n")[-lines:] if whole else []
    found = tail(write(tmp_path, whole.encode()), lines, within=(tmp_path,))
    assert found.text == "\n".join(expected)
    assert found.lines == len(expected)


def test_lines_that_cross_the_blocks_of_the_search_are_whole(tmp_path: Path) -> None:
    content = b"".join(b"%06d %s\n" % (n, b"x" * 70) for n in range(5_000))
    found = tail(write(tmp_path, content), 3_000, within=(tmp_path,))
    kept = found.text.split("\n")
    assert kept[0].startswith("002000 ")
    assert kept[-1].startswith("004999 ")
    assert all(len(line) == 77 for line in kept)


def test_a_long_line_is_cut_and_says_by_how_much(tmp_path: Path) -> None:
    content = b"before\n" + b"x" * (reader.MAX_LINE + 99) + b"\nafter\n"
    found = tail(write(tmp_path, content), 3, within=(tmp_path,))
    before, long, after = found.text.split("\n")
    assert (before, after) == ("before", "after")
    assert long.endswith("x … (100 more bytes)")
    assert found.truncated


def test_an_answer_is_bounded_and_keeps_the_newest_lines(tmp_path: Path) -> None:
    content = b"".join(b"%05d %s\n" % (n, b"y" * 1_000) for n in range(1_000))
    found = tail(write(tmp_path, content), 1_000, within=(tmp_path,))
    assert found.truncated
    assert len(found.text.encode()) <= reader.MAX_ANSWER
    assert found.text.split("\n")[-1].startswith("00999 ")
    assert found.start == len(content) - 1_007 * found.lines


def bytes_read() -> int:
    """What this process has read from files so far; 0 where the system does not count it."""
    try:
        counted = Path("/proc/self/io").read_text()
    except FileNotFoundError:
        return 0
    return int(counted.split("rchar:")[1].split()[0])


def test_the_end_of_ten_gigabytes_comes_quickly_and_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    last = b"".join(b"line %d\n" % n for n in range(200))
    with open(path, "wb") as file:
        file.truncate(10 * GIGABYTE)  # a hole: it takes no room on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + last)
    tracemalloc.start()
    try:
        before = bytes_read()
        found = tail(path, 100, within=(tmp_path,))
        read = bytes_read() - before
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.text.split("\n")[0] == "line 100"
    assert found.size == 10 * GIGABYTE + 1 + len(last)
    assert peak < 2_000_000
    assert read < 2_000_000


def test_ten_gigabytes_without_a_newline_are_not_searched_through(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    with open(path, "wb") as file:
        file.truncate(10 * GIGABYTE)
        file.seek(0, os.SEEK_END)
        file.write(b"the very end")
    found = tail(path, 100, within=(tmp_path,))
    assert found.text.endswith("the very end")
    assert found.truncated
    assert len(found.text) <= reader.MAX_LINE


def test_what_was_appended_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path, b"one\n")
    first = since(path, 0, within=(tmp_path,))
    with open(path, "ab") as file:
        file.write(b"two\n")
    second = since(path, first.offset, within=(tmp_path,))
    assert (first.text, second.text) == ("one\n", "two\n")
    assert since(path, second.offset, within=(tmp_path,)).text == ""


def test_a_character_that_is_half_written_waits_for_its_other_half(tmp_path: Path) -> None:
    path = write(tmp_path, "price: 5 €".encode()[:-1])
    first = since(path, 0, within=(tmp_path,))
    with open(path, "ab") as file:
        file.write("€".encode()[-1:])
    second = since(path, first.offset, within=(tmp_path,))
    assert first.text + second.text == "price: 5 €"


def test_more_than_an_answer_holds_gives_the_newest_and_the_number_missed(tmp_path: Path) -> None:
    path = write(tmp_path, b"x" * 900 + b"the end")
    found = since(path, 0, within=(tmp_path,), limit=7)
    assert (found.text, found.missed, found.offset) == ("the end", 900, 907)


def test_a_log_that_was_cut_starts_over(tmp_path: Path) -> None:
    path = write(tmp_path, b"a long old log\n")
    offset = since(path, 0, within=(tmp_path,)).offset
    write(tmp_path, b"new\n")
    found = since(path, offset, within=(tmp_path,))
    assert (found.text, found.restarted) == ("new\n", True)


def test_a_log_that_was_renamed_and_made_anew_is_followed(tmp_path: Path) -> None:
    path = write(tmp_path, b"old\n")
    path.rename(tmp_path / "app.log.1")
    write(tmp_path, b"new\n")
    assert tail(path, 10, within=(tmp_path,)).text == "new"
    assert tail(tmp_path / "app.log.1", 10, within=(tmp_path,)).text == "old"


def test_a_log_that_is_cut_while_it_is_read_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    stop = threading.Event()

    def rotate() -> None:
        while not stop.is_set():
            path.write_bytes(b"line\n" * 20_000)
            os.truncate(path, 10)

    path.write_bytes(b"line\n")
    rotating = threading.Thread(target=rotate)
    rotating.start()
    try:
        for _ in range(100 * ROUNDS):
            found = tail(path, 50, within=(tmp_path,))
            # A line may be half written, or seem long because its newline was gone for a moment.
            shown = [line.partition(" … ")[0] for line in found.text.split("\n")]
            assert all("line".startswith(line) for line in shown)
    finally:
        stop.set()
        rotating.join()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2K\x1b[1Gprogress", "progress"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://localhost/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("plain [0m", "plain [0m"),
    ],
)
def test_escape_sequences_are_left_out(raw: str, shown: str) -> None:
    assert without_escapes(raw) == shown


# What is refused


class Tricks:
    """A folder of a session beside one that is not its own, and ways from one to the other."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.own = base / "logs"
        self.other = base / "other"
        self.twin = base / "logs-evil"
        for folder in (self.own, self.own / "deep" / "er", self.other, self.twin):
            folder.mkdir(parents=True)
        self.own_file = write(self.own, b"own line\n")
        self.secret = write(self.other, SECRET.encode(), "secret.log")
        write(self.twin, SECRET.encode(), "secret.log")

    def link(self, name: str, target: Path | str) -> Path:
        path = self.own / name
        path.symlink_to(target)
        return path


type Trick = Callable[[Tricks], Path | str]


def fifo(t: Tricks) -> Path:
    os.mkfifo(t.own / "fifo.log")
    return t.own / "fifo.log"


def unix_socket(t: Tricks) -> Path:
    here = os.getcwd()
    os.chdir(t.own)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("s.log")
    finally:
        os.chdir(here)
    return t.own / "s.log"


def hard_link(t: Tricks, name: str = "hard.log") -> Path:
    os.link(t.secret, t.own / name)
    return t.own / name


def chain(t: Tricks) -> Path:
    t.link("a", t.other)
    t.link("b", "a")
    return t.link("c", "b") / "secret.log"


def loop(t: Tricks) -> Path:
    t.link("x", "y")
    return t.link("y", "x") / "secret.log"


def deep_link(t: Tricks) -> Path:
    (t.own / "deep" / "er" / "out").symlink_to(t.other)
    return t.own / "deep" / "er" / "out" / "secret.log"


def unreadable_folder(t: Tricks) -> Path:
    # Even root gets no further: the name of a file is no folder.
    return t.own_file / "secret.log"


def up_by(steps: str) -> Trick:
    return lambda t: f"{t.own}/{steps}/other/secret.log"


UP = ("..", "../", "./..", "deep/..", "deep/er/../..", "deep/../../logs/..", ".//..")
TRICKS: dict[str, Trick] = {
    **{f"up by {up}": up_by(up) for up in UP},
    "up and back into the folder": lambda t: f"{t.own}/../logs/app.log",
    "up inside the folder": lambda t: f"{t.own}/deep/../app.log",
    "up at the end": lambda t: f"{t.own}/deep/..",
    "up from the root": lambda t: f"/..{t.secret}",
    "up, percent-encoded": lambda t: f"{t.own}/%2e%2e/other/secret.log",
    "up, doubly encoded": lambda t: f"{t.own}/%252e%252e/other/secret.log",
    "up with a backslash": lambda t: f"{t.own}/..\\other\\secret.log",
    "up in full-width dots": lambda t: f"{t.own}/\uff0e\uff0e/other/secret.log",
    "three dots": lambda t: f"{t.own}/.../other/secret.log",
    "another folder": lambda t: t.secret,
    "a prefix twin": lambda t: t.twin / "secret.log",
    "a prefix twin by string": lambda t: f"{t.own}-evil/secret.log",
    "the folder above": lambda t: t.base,
    "the folder itself": lambda t: t.own,
    "the folder itself with a slash": lambda t: f"{t.own}/",
    "the folder itself with a dot": lambda t: f"{t.own}/.",
    "a folder below": lambda t: t.own / "deep",
    "passwd": lambda t: "/etc/passwd",
    "passwd with two slashes": lambda t: "//etc/passwd",
    "a file of the kernel": lambda t: "/proc/self/environ",
    "our own memory map": lambda t: "/proc/self/maps",
    "the root by way of proc": lambda t: f"/proc/self/root{t.secret}",
    "the working directory by way of proc": lambda t: "/proc/self/cwd/pyproject.toml",
    "standard input": lambda t: "/dev/stdin",
    "a descriptor": lambda t: "/dev/fd/0",
    "a device": lambda t: "/dev/zero",
    "a terminal": lambda t: "/dev/tty",
    "nothing": lambda t: "",
    "a dot": lambda t: ".",
    "the root": lambda t: "/",
    "relative": lambda t: "app.log",
    "relative with a dot": lambda t: "./app.log",
    "relative and up": lambda t: "../other/secret.log",
    "a home folder": lambda t: "~/.ssh/id_rsa",
    "an address": lambda t: f"file://{t.secret}",
    "a NUL at the end": lambda t: f"{t.own_file}\0",
    "a NUL in the middle": lambda t: f"{t.own}/app.log\0/../../other/secret.log",
    "a NUL before the suffix": lambda t: f"{t.secret}\0.log",
    "a newline": lambda t: f"{t.own}/app.log\n",
    "a space at the end": lambda t: f"{t.own}/app.log ",
    "another case": lambda t: f"{str(t.own).upper()}/app.log",
    "too long a name": lambda t: t.own / ("a" * 300),
    "too long a path": lambda t: t.own / "/".join(["deep"] * 2_000),
    "a link to a file": lambda t: t.link("l.log", t.secret),
    "a relative link to a file": lambda t: t.link("l.log", "../other/secret.log"),
    "a link to our own file": lambda t: t.link("l.log", "app.log"),
    "a link to a device": lambda t: t.link("l.log", "/dev/zero"),
    "a link to nothing": lambda t: t.link("l.log", "gone"),
    "a link to a folder": lambda t: t.link("d", t.other) / "secret.log",
    "a link to the root": lambda t: t.link("d", "/") / "etc" / "passwd",
    "a link to the folder itself": lambda t: t.link("d", ".") / "app.log",
    "a link to the folder above": lambda t: t.link("d", "..") / "other" / "secret.log",
    "a link to a twin": lambda t: t.link("d", t.twin) / "secret.log",
    "a link to proc": lambda t: t.link("d", "/proc/self") / "environ",
    "a chain of links": chain,
    "a loop of links": loop,
    "a link deep below": deep_link,
    "a hard link": hard_link,
    "a FIFO": fifo,
    "a link to a FIFO": lambda t: t.link("l.log", fifo(t)),
    "a socket": unix_socket,
    "a file as a folder": unreadable_folder,
}  # fmt: skip


def test_there_are_at_least_sixty_tricks() -> None:
    assert len(TRICKS) >= 60


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", TRICKS)
def test_no_trick_reads_from_outside(tmp_path: Path, name: str) -> None:
    tricks = Tricks(tmp_path)
    path = type(tmp_path)(TRICKS[name](tricks))
    with pytest.raises((LogReadFailed, LogFileNotFound)) as refused:
        tail(path, 100, within=(tricks.own,))
    assert SECRET not in str(refused.value)
    with pytest.raises((LogReadFailed, LogFileNotFound)):
        since(path, 0, within=(tricks.own,))


@pytest.mark.parametrize(
    "spelling", ["{own}/app.log", "{own}/./app.log", "{own}//app.log", "{own}/deep/er/x.log"]
)
def test_honest_spellings_are_read(tmp_path: Path, spelling: str) -> None:
    tricks = Tricks(tmp_path)
    write(tricks.own / "deep" / "er", b"own line\n", "x.log")
    path = type(tmp_path)(spelling.format(own=tricks.own))
    assert tail(path, 1, within=(tricks.other, tricks.own)).text == "own line"


def test_an_allowed_folder_behind_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    tricks = Tricks(tmp_path)
    alias = tmp_path / "alias"
    alias.symlink_to(tricks.own)
    for path in (alias / "app.log", tricks.own_file):
        assert tail(path, 1, within=(alias,)).text == "own line"


def test_a_missing_log_and_a_refused_one_are_told_apart(tmp_path: Path) -> None:
    tricks = Tricks(tmp_path)
    with pytest.raises(LogFileNotFound) as missing:
        tail(tricks.own / "none.log", 1, within=(tricks.own,))
    assert missing.value.details["path"] == str(tricks.own / "none.log")
    with pytest.raises(LogReadFailed, match="outside the folders") as refused:
        tail(tricks.secret, 1, within=(tricks.own,))
    assert str(tricks.own) in refused.value.message
    with pytest.raises(LogReadFailed, match=r"2 names \(hard links\)"):
        tail(hard_link(tricks), 1, within=(tricks.own,))
    with pytest.raises(LogReadFailed, match="none"):
        tail(tricks.own_file, 1, within=())


@pytest.mark.chaos
def test_a_file_swapped_for_a_link_is_never_followed(tmp_path: Path) -> None:
    tricks = Tricks(tmp_path)
    path = tricks.own_file
    stop = threading.Event()

    def swap() -> None:
        link, plain = tricks.own / "new-link", tricks.own / "new-file"
        while not stop.is_set():
            link.symlink_to(tricks.secret)
            link.rename(path)
            plain.write_bytes(b"own line\n")
            plain.rename(path)

    swapping = threading.Thread(target=swap)
    swapping.start()
    read = refused = 0
    try:
        for _ in range(200 * ROUNDS):
            try:
                assert tail(path, 1, within=(tricks.own,)).text in ("own line", "")
                read += 1
            except (LogReadFailed, LogFileNotFound):
                refused += 1
    finally:
        stop.set()
        swapping.join()
    assert read + refused == 200 * ROUNDS
