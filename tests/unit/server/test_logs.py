"""Logs: one JSON object a line, masked, by level, and never the reason why a call fails."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.model import PageText
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.machine import line_writer
from pilothouse.server.logs import LEVELS, Log, adopt_library_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The standard library's root logger, put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    text = stream.getvalue()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_is_one_object_with_the_session_at_the_top(stream: io.StringIO) -> None:
    Log("calls", stream=stream).info(
        "error_occurred", sessionId="s-1", tool="find", note="a\nb\u2028c"
    )
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "severity": "INFO",
        "component": "calls",
        "event": "error_occurred",
        "pid": os.getpid(),
        "sessionId": "s-1",
        "details": {"tool": "find", "note": "a\nb\u2028c"},
    }
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_below_the_level_is_left_out(stream: io.StringIO, level: str) -> None:
    log = Log("x", level, stream=stream)
    for name in LEVELS:
        getattr(log, name)(name)
    assert [line["event"] for line in lines(stream)] == [
        name for name in LEVELS if LEVELS[name] >= LEVELS[level]
    ]


def test_another_component_shares_level_redactor_and_stream(stream: io.StringIO) -> None:
    log = Log("x", "warn", Redactor().learn("hunter22"), stream).of("y")
    log.info("quiet")
    log.warn("loud", said="my hunter22")
    (line,) = lines(stream)
    assert (line["component"], line["details"]) == ("y", {"said": "my [redacted]"})


def test_secrets_are_masked_in_details_and_in_tracebacks(stream: io.StringIO) -> None:
    log = Log("x", stream=stream)
    log.info(
        "sent", headers={"Authorization": f"Bearer {JWT}"}, url=f"http://a/?access_token={JWT}"
    )
    try:
        raise ValueError(f"refused Bearer {JWT}")
    except ValueError as error:
        log.error("failed", error)
    assert JWT not in stream.getvalue()
    failed = lines(stream)[1]["details"]
    assert failed["error"].startswith("ValueError: refused")
    assert "test_logs.py" in failed["traceback"]


@pytest.mark.parametrize(
    "detail",
    [
        {1, 2},
        b"\xff\x00",
        ValueError("x"),
        float("nan"),
        "half \ud800 a character",
        PageText("what a page wrote"),
        {(1, 2): "a key that JSON has no word for"},
    ],
    ids=lambda detail: type(detail).__name__,
)
def test_whatever_is_logged_the_line_is_json_and_nothing_is_raised(
    stream: io.StringIO, detail: object
) -> None:
    Log("x", stream=stream).info("odd", detail=detail)
    (line,) = lines(stream)
    assert line["event"] == "odd"

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    json.loads(stream.getvalue(), parse_constant=refuse)


def test_a_detail_that_contains_itself_is_survived(stream: io.StringIO) -> None:
    circle: list[object] = []
    circle.append(circle)
    Log("x", stream=stream).info("odd", detail=circle)
    (line,) = lines(stream)
    assert line["event"] == "odd"


def test_a_stream_that_was_closed_does_not_raise(stream: io.StringIO) -> None:
    stream.close()
    Log("x", stream=stream).error("nobody_reads_this", RuntimeError("x"))
    assert stream.closed


def test_a_reader_that_went_away_does_not_raise() -> None:
    class Broken(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError

    Log("x", stream=Broken()).info("nobody_reads_this")


def test_stderr_is_looked_up_at_each_write(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    log = Log("x")
    monkeypatch.setattr("sys.stderr", stream)
    log.info("moved")
    assert [line["event"] for line in lines(stream)] == ["moved"]


def test_library_logs_take_the_same_form(stream: io.StringIO, root_logger: logging.Logger) -> None:
    adopt_library_logs(Log("x", "info", Redactor(), stream), "info")
    library = logging.getLogger("some.library")
    library.info("too quiet for us")
    library.warning("token %s", f"Bearer {JWT}")
    try:
        raise ValueError("inside")
    except ValueError:
        library.exception("failed")
    library.critical("worse")
    warned, failed, critical = lines(stream)
    assert (warned["component"], warned["level"]) == ("some.library", "warn")
    assert JWT not in stream.getvalue()
    assert failed["level"] == "error"
    assert "ValueError: inside" in failed["details"]["traceback"]
    assert critical["level"] == "error"
    assert [type(handler).__name__ for handler in root_logger.handlers] == ["LibraryLogs"]


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", ["debug", "info", "warn", "error"]),
        ("info", ["warn", "error"]),
        ("warn", ["warn", "error"]),
        ("error", ["error"]),
    ],
)
def test_libraries_are_quieter_than_we_are(
    stream: io.StringIO, root_logger: logging.Logger, level: str, heard: list[str]
) -> None:
    adopt_library_logs(Log("x", level, Redactor(), stream), level)
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        root_logger.log(number, "said")
    assert [line["level"] for line in lines(stream)] == heard


def test_a_librarys_malformed_log_call_does_not_fail_the_library(
    stream: io.StringIO, root_logger: logging.Logger
) -> None:
    adopt_library_logs(Log("x", "info", Redactor(), stream), "info")
    logging.getLogger("some.library").warning("%d apples", "many")
    assert len(lines(stream)) <= 1


def test_a_line_stays_whole_in_a_pipe_that_others_told_not_to_block() -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    text = "x" * 400_000
    parts: list[bytes] = []
    reader = threading.Thread(
        target=lambda: parts.extend(iter(lambda: os.read(readable, 1 << 16), b""))
    )
    with os.fdopen(writable, "w") as pipe:
        log = Log("x", stream=pipe)
        reader.start()
        for number in range(3):
            log.info("happened", number=number, text=text)
    reader.join()
    os.close(readable)
    told = [json.loads(line)["details"] for line in b"".join(parts).splitlines()]
    assert told == [{"number": number, "text": text} for number in range(3)]


def test_a_log_that_nobody_reads_is_waited_for_once_and_then_says_what_it_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[int] = []

    class CountingPoll:
        def register(self, descriptor: int, events: int) -> None:
            pass

        def poll(self, most_ms: int) -> list[tuple[int, int]]:
            waits.append(most_ms)
            return []

    monkeypatch.setattr("select.poll", CountingPoll)
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)

    def read() -> bytes:
        parts = []
        with suppress(BlockingIOError):
            while part := os.read(readable, 1 << 16):
                parts.append(part)
        return b"".join(parts)

    with os.fdopen(writable, "w") as pipe, os.fdopen(readable):
        log = Log("x", stream=pipe)
        for number in range(200):
            log.of("y").info("unread", number=number, text="x" * 5_000)
        assert waits == [line_writer.MOST_WAIT_MS]
        heard = read()
        assert not heard.endswith(b"\n")  # the pipe was full in the middle of a line
        log.info("read again")
        log.info("as ever")
        heard += read()
        # Who has read is waited for again.
        log.info("large", text="x" * 400_000)
        assert len(waits) == 2
    *taken, again, as_ever = [json.loads(line) for line in heard.splitlines()]
    assert [line["details"]["number"] for line in taken] == list(range(len(taken)))
    assert again["dropped"] == 200 - len(taken)
    assert again["event"] == "read again"
    assert "dropped" not in as_ever
