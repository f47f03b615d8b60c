"""What a server command prints, and how it is found in its output."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from pilothouse.e2e.app_server.contract import (
    Excerpt,
    JsonFinder,
    ServerRestartResponse,
    ServerShutdownResponse,
    ServerStartResponse,
    ServerStatusResponse,
)
from tests.support.rounds import examples

START: dict[str, Any] = {
    "status": "ready",
    "url": "http://localhost:3542",
    "port": 3542,
    "pid": 12345,
    "startedAt": "2025-11-02T10:30:00Z",
    "logs": {"stdout": "/tmp/a.out", "stderr": "/tmp/a.err", "combined": "/tmp/a.log"},
    "message": "Server started",
}


class Marked(BaseModel):
    """An object that has a mark: what the search is to find in these tests."""

    model_config = ConfigDict(extra="allow")

    mark: int


def found_in(*pieces: bytes, largest: int = 1 << 20) -> Marked | None:
    finder = JsonFinder(Marked, largest=largest)
    for piece in pieces:
        if (found := finder.feed(piece)) is not None:
            return found
    return finder.close()


def by_definition(text: bytes) -> int | None:
    """The same search in the plain way, over the whole text at once."""
    decoder = json.JSONDecoder(parse_constant=refuse)
    plain = text.decode("latin-1")  # a byte is a character, so that places agree
    at = plain.find("{")
    while at >= 0:
        try:
            _, end = decoder.raw_decode(plain, at)
        except ValueError:
            end = at + 1
        else:
            try:
                whole = text[at:end].decode("utf-8", "replace")
                return Marked.model_validate_json(whole).mark
            except ValidationError:
                pass
        at = plain.find("{", end)
    return None


def refuse(name: str) -> None:
    raise ValueError(name)


# The responses


@pytest.mark.parametrize("status", ["ready", "already_running"])
def test_a_start_response_of_the_spec_is_read(status: str) -> None:
    read = ServerStartResponse.model_validate_json(json.dumps({**START, "status": status}))
    assert (read.status, read.port, read.pid) == (status, 3542, 12345)
    assert read.logs.combined == "/tmp/a.log"
    assert read.started_at == "2025-11-02T10:30:00Z"


def test_further_fields_are_let_through() -> None:
    read = ServerStartResponse.model_validate_json(json.dumps({**START, "workers": [1, 2]}))
    assert (read.model_extra or {})["workers"] == [1, 2]


@pytest.mark.parametrize("field", sorted(START))
def test_a_start_response_needs_every_field(field: str) -> None:
    short = {name: value for name, value in START.items() if name != field}
    with pytest.raises(ValidationError, match=field):
        ServerStartResponse.model_validate_json(json.dumps(short))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "running"), ("status", None), ("status", "READY"),
        ("url", "localhost:3000"), ("url", "ftp://localhost"), ("url", "http://"), ("url", ""),
        ("url", "http://localhost:99999"), ("url", "http://localhost:0"), ("url", "http://[::1"),
        ("port", 0), ("port", 65536), ("port", -1), ("port", "3000"), ("port", 3000.5),
        ("port", True), ("pid", 0), ("pid", -1), ("pid", "1"), ("pid", None),
        ("startedAt", "yesterday"), ("startedAt", 1730543400), ("startedAt", ""),
        ("logs", None), ("logs", {"stdout": "/tmp/a"}), ("logs", "/tmp/a"), ("message", 5),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        ServerStartResponse.model_validate_json(json.dumps({**START, field: value}))


@pytest.mark.parametrize("url", ["https://app.test", "http://[::1]:3000/x", "http://127.0.0.1:1"])
def test_any_web_address_is_taken(url: str) -> None:
    assert ServerStartResponse.model_validate_json(json.dumps({**START, "url": url})).url == url


def test_the_other_responses_take_what_the_spec_leaves_optional() -> None:
    status = ServerStatusResponse.model_validate_json('{"status":"stopped","message":""}')
    assert (status.pid, status.logs) == (None, None)
    uptime = ServerStatusResponse.model_validate_json(
        '{"status":"running","uptime":12,"healthy":true,"message":"","pid":null}'
    )
    assert (uptime.uptime, uptime.healthy) == (12, True)
    down = ServerShutdownResponse.model_validate_json(
        '{"status":"force_stopped","previousPid":7,"stoppedAt":"2025-11-02","message":"ok"}'
    )
    assert down.previous_pid == 7
    again = {k: v for k, v in START.items() if k != "logs"} | {"status": "restarted"}
    restarted = ServerRestartResponse.model_validate_json(json.dumps({**again, "previousPort": 80}))
    assert restarted.previous_port == 80
    with pytest.raises(ValidationError, match="status"):
        ServerShutdownResponse.model_validate_json('{"status":"running","message":""}')


# The search


@pytest.mark.parametrize(
    "text",
    [
        '{"mark":1}',
        'Starting …\n{"mark":1}\nready\n',
        'function () { return {a: 1} }\n{"mark":1}',
        'log {module\n{"mark":1}',
        '{"level":"info"}\n{"level":"warn","mark":null}\n{"mark":1}',
        '{"text":"a { and a } and a \\" and {\\"mark\\":2}"}{"mark":1}',
        '{"mark":1,"deep":{"list":[{"x":[]},{},[[]],-1.5e+3,true,false,null]}}',
        '[{"mark":1}]',
        '{"mark": oops, "a": {"mark":1}}',
        '{"oops {"mark":1}',
        '{"open": {"mark":1}\nand more text',
        '{{{"mark":1}}}',
        '{"a":01}{"mark":1}',
        '{"a":"line\nbreak"}{"mark":1}',
        '{"a":"\\x"}{"mark":1}',
        '{"a":[1,]}{"a":1,}{,}{"a"}{"a":}{"mark":1}',
        '{"mark":2,"never": \n{"mark":1}',
        '"{\\"mark\\":2}" {"mark":1}',
        '\u001b[32m{\u001b[0m "mark":2} {"mark":1}',
        '{"größe":"ü","mark":1}',
        '{"escape":"\\u00fc\\ud83d\\ude00","mark":1}',
    ],
)
def test_the_first_object_that_fits_is_found_in_pieces_of_every_size(text: str) -> None:
    data = text.encode()
    assert by_definition(data) == 1
    for size in (1, 2, 3, 5, len(data)):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        found = found_in(*pieces)
        assert found is not None
        assert found.mark == 1


@pytest.mark.parametrize(
    "text", ["", "no braces", "{", '{"mark":1', '{"mark":1]', "{'mark':1}", '{"mark":NaN}', "{}"]
)
def test_nothing_is_found_where_there_is_nothing(text: str) -> None:
    assert found_in(text.encode()) is None
    assert found_in(*(bytes([byte]) for byte in text.encode())) is None


def test_it_is_found_at_its_last_brace_and_not_later() -> None:
    finder = JsonFinder(Marked)
    assert finder.feed(b'noise {"mark":1') is None
    assert finder.feed(b"}") == Marked(mark=1)


def test_text_that_is_not_utf_8_does_not_hide_the_object() -> None:
    found = found_in(b'\xff\xc3{"mark":1,"name":"\xc3', b"(\xe2\x82", b'"}')
    assert found is not None
    assert found.mark == 1


FRAGMENTS = st.sampled_from(
    ["{", "}", "[", "]", '"', "\\", ":", ",", " ", "\n", "a", "0", "-1", "1.5", "1e", "true", "nul",
     '"mark"', '{"mark":1}', '{"mark":"x"}', '"a":', '{"a":', "\\u00e9", "\\u00", "é", "\x01"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
PIECES = st.one_of(FRAGMENTS, VALUES.map(lambda value: json.dumps(value, ensure_ascii=False)))


@settings(max_examples=examples(400))
@given(st.lists(PIECES, max_size=25).map("".join), st.lists(st.integers(1, 9), min_size=1))
@example('{"a":{"mark":1}', [1])
def test_any_text_in_any_pieces_gives_what_the_definition_gives(
    text: str, sizes: list[int]
) -> None:
    data = text.encode("utf-8", "surrogatepass")
    pieces, at = [], 0
    for number in range(len(data) + 1):
        size = sizes[number % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    found = found_in(*pieces)
    assert (found.mark if found else None) == by_definition(data)


@settings(max_examples=examples(200))
@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 7))
def test_a_marked_object_is_found_behind_a_line_of_any_bytes(
    before: bytes, after: bytes, size: int
) -> None:
    data = before + b"\n" + b'{"mark":7}' + after
    found = found_in(*(data[at : at + size] for at in range(0, len(data), size)))
    assert (found.mark if found else None) == by_definition(data)
    if b"{" not in before:
        assert found is not None


# Bounds


def test_an_object_longer_than_the_limit_is_passed_over_whole() -> None:
    inner = b'{"mark":2},' * 40
    long = b'{"items":[' + inner + b'{"mark":2}]}'
    finder = JsonFinder(Marked, largest=200)
    assert all(finder.feed(long[at : at + 50]) is None for at in range(0, len(long), 50))
    assert "longer than 200 bytes" in finder.problem
    assert finder.feed(b'\n{"mark":1}') == Marked(mark=1)


def test_the_search_goes_on_where_a_too_long_object_breaks() -> None:
    assert found_in(b'{"a":"' + b"x" * 500, b'\n{"mark":1}', largest=200) == Marked(mark=1)


@pytest.mark.parametrize(
    ("noise", "times"),
    [
        (b"x" * 100_000, 30),
        (b"{" * 100_000, 5),
        (b'{"a":' * 20_000, 1),
        (b'{"a":[' * 9, 2_000),
        (b'{"a":["{"' * 10_000, 1),
        (b'{"level":30,"msg":"request {completed}"}\n' * 2_500, 2),
        (b'{"a":"' + b"x" * 100_000, 30),
        (b'{"a":"' + b"x" * 4_000_000 + b'"', 1),
    ],
    ids=["text", "braces", "names", "lists", "strings", "json", "lines", "long"],
)
def test_noise_takes_little_memory_and_time(noise: bytes, times: int) -> None:
    finder = JsonFinder(Marked)
    tracemalloc.start()
    started = time.monotonic()
    for _ in range(times):
        assert finder.feed(noise) is None
    took = time.monotonic() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert took < 60, "a guard against a search whose time grows with the square"
    assert finder.feed(b'"]}\n\n{"mark":1}') == Marked(mark=1)


def test_one_piece_of_100_megabytes_takes_no_second_copy() -> None:
    piece = b"log line without an answer\n" * 4_000_000
    finder = JsonFinder(Marked)
    tracemalloc.start()
    assert finder.feed(piece) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_an_object_nested_without_end_is_not_followed() -> None:
    assert found_in(b'{"a":' + b"[" * 100_000 + b'\n{"mark":1}') == Marked(mark=1)


# What is told


def test_the_problem_names_what_was_wrong_with_the_last_object() -> None:
    finder = JsonFinder(ServerStartResponse)
    assert "no JSON object" in finder.problem
    finder.feed(json.dumps({**START, "port": 0, "pid": "x"}).encode())
    assert "port" in finder.problem
    assert "pid" in finder.problem
    finder.feed(b'{"status":')
    assert finder.close() is None
    assert "ends within" in finder.problem


@given(st.lists(st.binary(max_size=30)), st.integers(0, 20), st.integers(1, 20))
def test_an_excerpt_is_the_whole_or_both_ends(pieces: list[bytes], head: int, tail: int) -> None:
    excerpt = Excerpt(head, tail)
    for piece in pieces:
        excerpt.add(piece)
    whole = b"".join(pieces)
    if len(whole) <= head + tail:
        assert excerpt.text() == whole.decode("utf-8", "replace")
    else:
        assert excerpt.text().startswith(whole[:head].decode("utf-8", "replace"))
        assert excerpt.text().endswith(whole[-tail:].decode("utf-8", "replace"))
        assert not head or f"{len(whole) - head - tail} bytes left out" in excerpt.text()


def test_the_excerpt_of_a_long_output_stays_under_4000_characters() -> None:
    finder = JsonFinder(Marked)
    finder.feed(b"a" * 1_000_000)
    assert 3_500 < len(finder.excerpt.text()) <= 4_000
