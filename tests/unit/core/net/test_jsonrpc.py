"""What passes as a JSON-RPC message: the odd cases are refused, with an answer that is sound."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pilothouse.core.net import jsonrpc
from pilothouse.core.net.jsonrpc import (
    INVALID_REQUEST,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_ID,
    MAX_VALUES,
    PARSE_ERROR,
    Refusal,
    parse,
)
from tests.support.rounds import examples


def request(**parts: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **parts}).encode()


def with_params(params: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + params.encode() + b"}"


def assert_sound(refusal: Refusal) -> None:
    """The answer is a JSON-RPC error that can be sent and read by anyone."""
    wire = json.dumps(refusal.response()).encode("utf-8")
    response = json.loads(wire)
    assert response.keys() == {"jsonrpc", "id", "error"}
    assert response["jsonrpc"] == "2.0"
    assert response["id"] is None or type(response["id"]) in (str, int)
    assert response["error"]["code"] in (PARSE_ERROR, INVALID_REQUEST)
    assert response["error"]["message"]
    assert len(response["error"]["message"]) < 500


def refused(raw: bytes, code: int, message: str) -> Refusal:
    found = parse(raw)
    assert isinstance(found, Refusal), found
    assert found.code == code
    assert message in found.message
    assert_sound(found)
    return found


@pytest.mark.parametrize(
    ("raw", "code", "message"),
    [
        (b"", PARSE_ERROR, "not JSON"),
        (b"hello", PARSE_ERROR, "not JSON"),
        (b'{"jsonrpc":"2.0"', PARSE_ERROR, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"a"} {}', PARSE_ERROR, "not JSON"),
        (b"{'a': 1}", PARSE_ERROR, "not JSON"),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"a"}', PARSE_ERROR, "not JSON"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE_ERROR, "not UTF-8 at byte 34"),
        (b"\xed\xa0\x80", PARSE_ERROR, "not UTF-8 at byte 0"),
        ('{"jsonrpc":"2.0"}'.encode("utf-16"), PARSE_ERROR, "not UTF-8"),
        (with_params('{"a":NaN}'), PARSE_ERROR, "NaN is not JSON"),
        (with_params('{"a":Infinity}'), PARSE_ERROR, "Infinity is not JSON"),
        (with_params('{"a":-Infinity}'), PARSE_ERROR, "-Infinity is not JSON"),
        (with_params('{"a":' + "9" * 5_000 + "}"), PARSE_ERROR, "not JSON"),
        (b"[]", INVALID_REQUEST, "batches are not part of MCP"),
        (b"[" + request() + b"," + request() + b"]", INVALID_REQUEST, "batches"),
        (b"null", INVALID_REQUEST, "a message is a JSON object"),
        (b"7", INVALID_REQUEST, "a message is a JSON object"),
        (b'"ping"', INVALID_REQUEST, "a message is a JSON object"),
        (b"{}", INVALID_REQUEST, "jsonrpc"),
        (request(jsonrpc="1.0"), INVALID_REQUEST, 'jsonrpc must be "2.0"'),
        (request(jsonrpc=2.0), INVALID_REQUEST, 'jsonrpc must be "2.0"'),
        (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST, "neither method nor result nor error"),
        (request(method=7), INVALID_REQUEST, "method must be a string"),
        (request(method=None), INVALID_REQUEST, "method must be a string"),
        (request(params=[1, 2]), INVALID_REQUEST, "params must be an object"),
        (request(params="x"), INVALID_REQUEST, "params must be an object"),
        (request(params=None), INVALID_REQUEST, "params must be an object"),
    ],
)
def test_what_is_no_message_is_refused_with_the_reason(raw: bytes, code: int, message: str) -> None:
    refused(raw, code, message)


@pytest.mark.parametrize(
    ("id", "reason"),
    [
        ("null", "id is null"),
        ("1.5", "id is of type float"),
        ("1.0", "id is of type float"),
        ("1e3", "id is of type float"),
        ("true", "id is of type bool"),
        ("[1]", "id is of type list"),
        ("{}", "id is of type dict"),
        (str(2**64), "id is too large"),
        (str(-(2**64)), "id is too large"),
        (str(MAX_ID + 1), "id is too large"),
        ('"' + "x" * 1_001 + '"', "id is longer than 1,000 characters"),
    ],
)
def test_an_id_that_not_every_client_can_tell_apart_is_refused(id: str, reason: str) -> None:
    raw = b'{"jsonrpc":"2.0","method":"ping","id":' + id.encode() + b"}"
    assert refused(raw, INVALID_REQUEST, reason).id is None


@pytest.mark.parametrize("id", [0, -1, 7, MAX_ID, -MAX_ID, "", "7", "x" * 1_000, "ü"])
def test_a_sound_id_is_taken_and_named_in_a_later_refusal(id: int | str) -> None:
    assert parse(request(id=id)) == json.loads(request(id=id))
    assert refused(request(id=id, params=[]), INVALID_REQUEST, "params").id == id


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "a\\ud83d b", "\\udca1\\ud83d"])
@pytest.mark.parametrize("method", ['"ping"', "7"])
def test_an_id_that_is_half_of_a_character_is_refused_and_not_repeated(
    half: str, method: str
) -> None:
    raw = f'{{"jsonrpc":"2.0","id":"{half}","method":{method}}}'.encode()
    assert refused(raw, INVALID_REQUEST, "id is no text: half of a character").id is None


def test_null_is_an_id_only_in_the_answer_to_what_could_not_be_read() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}}
    assert parse(json.dumps(error).encode()) == error
    refused(request(id=None, error={}), INVALID_REQUEST, "id is null")


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}',
        with_params('{"a":{"b":[{"c":1,"c":1}]}}'),
        with_params('{"\\u0061":1,"a":2}'),
        with_params('{"\\ud800":1,"\\ud800":2}'),
        with_params('{"' + "k" * 5_000 + '":1,"' + "k" * 5_000 + '":2}'),
    ],
)
def test_a_key_given_twice_is_refused_wherever_it_stands(raw: bytes) -> None:
    refused(raw, INVALID_REQUEST, "stands twice in one object")


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "\\ud83d and more", "\\udca1\\ud83d"])
def test_half_a_character_is_refused_with_the_id_of_its_request(half: str) -> None:
    for params in (f'{{"a":"{half}"}}', f'{{"{half}":1}}'):
        refusal = refused(with_params(params), INVALID_REQUEST, "half of a character")
        assert refusal.id == 1


def test_a_character_that_is_written_in_two_halves_passes() -> None:
    message = parse(with_params('{"a":"\\ud83d\\udca1 and \\ud7ff"}'))
    assert isinstance(message, dict)
    assert message["params"]["a"] == "\U0001f4a1 and \ud7ff"


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [10_000, 100_000, 700_000])
def test_nesting_without_end_is_refused_and_does_not_crash(opening: str, depth: int) -> None:
    closing = "]" if opening == "[" else "}"
    inner = opening * depth + "0" + closing * depth
    refused(with_params('{"a":' + inner + "}"), INVALID_REQUEST, "")
    unclosed = opening * depth
    found = parse(unclosed.encode())
    assert isinstance(found, Refusal)
    assert_sound(found)


def test_the_depth_limit_is_exact() -> None:
    def nested(levels: int) -> bytes:  # the message is the first level, params the second
        return with_params('{"a":' * (levels - 1) + "0" + "}" * (levels - 1))

    assert isinstance(parse(nested(MAX_DEPTH - 1)), dict)
    assert (
        refused(nested(MAX_DEPTH + 1), INVALID_REQUEST, f"nested deeper than {MAX_DEPTH}").id == 1
    )


def test_a_million_keys_are_refused_by_their_size_before_they_are_read() -> None:
    # Not even JSON: whoever read it before it was measured would complain of that.
    raw = with_params("{" + '"k":0,' * 1_000_000)
    assert len(raw) > MAX_BYTES
    refused(raw, INVALID_REQUEST, f"larger than {MAX_BYTES} bytes")


def listed(*values: str) -> bytes:
    return with_params('{"a":[' + ",".join(values) + "]}")


TOO_MANY = {
    "keys": with_params("{" + ",".join(f'"{n}":0' for n in range(330_000)) + "}"),
    "numbers": listed(*["0"] * 1_000_000),
    "texts": listed(*['""'] * 1_000_000),
    "objects": listed(*["{}"] * 1_000_000),
    "nested": listed(*["[" * 99 + "]" * 99] * 10_000),
    "with spaces": listed(*['{ "a" : 0 }'] * 100_000),
    "keys that end in a backslash": listed(*['{"\\\\":0}'] * 100_000),
    "keys with a quote": listed(*['{"\\"":0}'] * 100_000),
    "no JSON": b'{"a":' + b"0," * 100_000,
    "a text without end": b'{"a":["' + b'","' * 100_000,
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_more_values_than_may_be_are_refused_before_they_are_read(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: object) -> None:
        raise AssertionError("it was read")

    assert len(TOO_MANY[case]) < MAX_BYTES
    monkeypatch.setattr(jsonrpc, "_DECODER", SimpleNamespace(decode=read))
    refused(TOO_MANY[case], INVALID_REQUEST, "more than 50,000 values")


@pytest.mark.parametrize(
    "text",
    ["[{,", '{"a":[1,2],"b":{}},', "\\", '\\"', '"', 'a\\",[', "[" * 99],
)
def test_a_long_text_is_one_value_whatever_stands_in_it(text: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": text * 40_000}}
    assert parse(json.dumps(message).encode()) == message


def test_the_limit_of_values_is_exact() -> None:
    # Five are the version, the id, the method, the parameters and the list.
    most = ["0"] * (MAX_VALUES - 5)
    found = parse(listed(*most))
    assert isinstance(found, dict)
    assert len(found["params"]["a"]) == len(most)
    refused(listed(*most, "0"), INVALID_REQUEST, "more than 50,000 values")


def test_a_number_that_overflows_is_no_infinity() -> None:
    """One parser reads 1e999 as infinity, the next refuses it, a third writes null."""
    found = parse(with_params('{"a":1e999}'))
    assert isinstance(found, Refusal), found
    assert_sound(found)


NAME = st.text(max_size=5)
NUMBER = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers(0, 9) | st.text(max_size=5) | JSON,
        "method": st.just("ping") | JSON,
        "params": st.dictionaries(NAME, JSON, max_size=3) | JSON,
        "result": JSON,
        "error": JSON,
    },
)


@settings(max_examples=examples(200))
@given(
    st.binary(max_size=60)
    | st.text(max_size=60).map(str.encode)
    | st.one_of(JSON, MESSAGE).map(lambda value: json.dumps(value).encode())
)
@example(b"\x00")
@example(b"1" * 5_000)
def test_any_bytes_are_a_message_or_a_sound_refusal(raw: bytes) -> None:
    found = parse(raw)
    if isinstance(found, Refusal):
        assert_sound(found)
    else:
        assert found["jsonrpc"] == "2.0"
        assert {"method", "result", "error"} & found.keys()


@settings(max_examples=examples(100))
@given(
    id=st.integers(-MAX_ID, MAX_ID) | st.text(max_size=20),
    params=st.dictionaries(NAME, JSON, max_size=4),
)
def test_a_sound_message_comes_back_equal(id: int | str, params: dict[str, Any]) -> None:
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    assert parse(json.dumps(message).encode()) == message
    assert parse(json.dumps(message, ensure_ascii=False, indent=2).encode()) == message
