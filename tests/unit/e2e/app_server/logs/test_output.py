"""A server's output: whole lines out of any pieces, and files that nobody else can read."""

from __future__ import annotations

import asyncio
import os
import stat
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.e2e.app_server.logs.output import MAX_LINE, LineCutter, Output

pytestmark = pytest.mark.anyio


def stream(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return reader


def nothing(*_: object) -> None:
    pass


def content(path: str) -> bytes:
    return Path(path).read_bytes()


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=6))
@settings(deadline=None)
def test_lines_are_the_same_however_the_pieces_break(data: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    lines, whole = LineCutter(), LineCutter()
    pieces = [data[a:b] for a, b in pairwise(places)]
    broken = [line for piece in pieces for line in lines.feed(piece)] + lines.finish()
    assert broken == whole.feed(data) + whole.finish()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"one\ntwo", ["one", "two"]),
        (b"\x1b[31mred\x1b[0m\r\n", ["red"]),
        (b"10 %\r50 %\r100 %\n", ["100 %"]),
        (b"bad \xff byte\n", ["bad \ufffd byte"]),
        (b"\n\n", ["", ""]),
        (b"x" * (MAX_LINE + 5) + b"\nnext\n", ["x" * MAX_LINE + " … (5 more bytes)", "next"]),
    ],
)
def test_a_line_is_what_a_terminal_would_show(data: bytes, expected: list[str]) -> None:
    lines = LineCutter()
    assert lines.feed(data) + lines.finish() == expected


async def test_streams_are_kept_as_they_came_and_handed_on_by_line(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    output = Output(tmp_path, "web app/1", lambda stream, line: heard.append((stream, line)))
    also: list[str] = []
    await output.copy("stdout", stream(b"\x1b[32mo", b"ne\x1b[0m\ntwo"), also.append)
    await output.copy("stderr", stream(b"three\n"), also.append)
    output.close()
    assert content(output.paths.stdout) == b"\x1b[32mone\x1b[0m\ntwo"
    assert content(output.paths.stderr) == b"three\n"
    assert content(output.paths.combined) == b"\x1b[32mone\x1b[0m\ntwo\nthree\n"
    assert heard == [("stdout", "one"), ("stdout", "two"), ("stderr", "three")]
    assert also == ["one", "two", "three"]
    assert output.paths.stdout.endswith("/web_app_1.stdout.log")


async def test_a_question_without_a_newline_can_be_read_at_once(tmp_path: Path) -> None:
    output = Output(tmp_path, "app", nothing)
    reader = asyncio.StreamReader()
    copying = asyncio.create_task(output.copy("stdout", reader, nothing))
    reader.feed_data(b"Use another port? (Y/n) ")
    await asyncio.sleep(0)  # one turn of the loop: the file is written before anything is awaited
    assert content(output.paths.stdout) == b"Use another port? (Y/n) "
    copying.cancel()
    output.close()


async def test_an_endless_line_is_held_neither_in_memory_nor_back(tmp_path: Path) -> None:
    heard: list[str] = []
    output = Output(tmp_path, "app", lambda _, line: heard.append(line))
    await output.copy("stdout", stream(*[b"x" * 50_000] * 40), nothing)
    output.close()
    assert content(output.paths.stdout) == b"x" * 2_000_000
    assert content(output.paths.combined).rstrip(b"\n") == b"x" * 2_000_000
    assert heard == ["x" * MAX_LINE + f" … ({2_000_000 - MAX_LINE} more bytes)"]


def test_the_files_are_new_and_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        output = Output(tmp_path, "app", nothing)
    finally:
        os.umask(before)
    for path in (output.paths.stdout, output.paths.stderr, output.paths.combined):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    output.close()


@pytest.mark.parametrize("trap", ["file", "link", "dangling link"])
def test_a_file_that_is_there_already_is_not_written_to(tmp_path: Path, trap: str) -> None:
    victim = tmp_path / "victim"
    planted = tmp_path / "app.stderr.log"
    if trap == "file":
        planted.write_text("precious")
    else:
        planted.symlink_to(victim)
        if trap == "link":
            victim.write_text("precious")
    with pytest.raises(FileExistsError):
        Output(tmp_path, "app", nothing)
    assert victim.exists() == (trap == "link")
    assert planted.is_symlink() or planted.read_text() == "precious"
