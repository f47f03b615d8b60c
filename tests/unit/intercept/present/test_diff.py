"""A difference names what changed, masked, and stays small however large the packets are."""

from __future__ import annotations

import gzip
import json
from typing import Any

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.intercept.ports import Detail, Side
from pilothouse.intercept.present.diff import MOST_CHANGES, MOST_LINES, diff

MASKING = Redactor()


def side(head: bytes, body: bytes = b"", kept: int | None = None) -> Side:
    return Side(
        id=1, time=0.0, length=len(head) + len(body), head=head, body=body[:kept],
        body_length=len(body),
    )  # fmt: skip


def exchange(
    headers: bytes = b"", body: bytes = b"", response: Side | None = None, path: bytes = b"/"
) -> Detail:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: shop.test\r\n" + headers + b"\r\n"
    return Detail(row={"id": 1}, request=side(head, body), response=response)


def compared(a: Detail, b: Detail) -> dict[str, Any]:
    found = diff(a, b, MASKING)
    json.dumps(found)
    return found


def test_equal_exchanges_are_identical() -> None:
    answer = side(b"HTTP/1.1 200 OK\r\n\r\n", b"ok")
    assert compared(exchange(b"A: 1\r\n", b"x", answer), exchange(b"A: 1\r\n", b"x", answer)) == {
        "identical": True
    }


def test_start_lines_and_headers_are_compared_by_name() -> None:
    a = exchange(b"A: 1\r\nB: 2\r\nC: 3\r\nC: 4\r\n", path=b"/a")
    b = exchange(b"a: 1\r\nB: 9\r\nC: 3\r\nD: 5\r\n", path=b"/b")
    assert compared(a, b) == {
        "identical": False,
        "request": {
            "start_line": {"a": "POST /a HTTP/1.1", "b": "POST /b HTTP/1.1"},
            "headers": {
                "added": [{"name": "d", "value": "5"}],
                "changed": [
                    {"name": "b", "a": "2", "b": "9"},
                    {"name": "c", "a": "3, 4", "b": "3"},
                ],
            },
        },
    }


def test_only_order_or_spelling_of_headers_is_told() -> None:
    found = compared(exchange(b"A: 1\r\nB: 2\r\n"), exchange(b"b: 2\r\nA: 1\r\n"))
    assert found["request"] == {"headers": {"only_order_or_spelling": True}}
    assert found["identical"] is False


def test_json_is_compared_by_value_whatever_its_spelling_and_compression() -> None:
    old: dict[str, Any] = {
        "user": {"name": "bob", "tags": ["a", "b"]},
        "n": 1,
        "same": None,
        "odd key": 1,
    }
    new: dict[str, Any] = {
        "same": None,
        "n": 1.5,
        "user": {"name": "eve", "tags": ["a"]},
        "odd key": True,
        "x": [],
    }
    json_type = b"Content-Type: application/json\r\n"
    a = exchange(json_type, json.dumps(old).encode())
    b = exchange(
        json_type + b"Content-Encoding: gzip\r\n", gzip.compress(json.dumps(new, indent=2).encode())
    )
    body = compared(a, b)["request"]["body"]
    assert body["kind"] == "json"
    assert body["changes"] == [
        {"path": "$.user.name", "a": '"bob"', "b": '"eve"'},
        {"path": "$.user.tags[1]", "a": '"b"'},
        {"path": "$.n", "a": "1", "b": "1.5"},
        {"path": '$["odd key"]', "a": "1", "b": "true"},
        {"path": "$.x", "b": "[]"},
    ]


def test_text_is_compared_by_lines() -> None:
    a = exchange(b"", b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    b = exchange(b"", b"one\ntwo\nthree\nFOUR\nfive\nsix\nseven\n")
    body = compared(a, b)["request"]["body"]
    assert body["kind"] == "text"
    assert body["starts_at_line"] == 2
    assert [line for line in body["lines"] if line[0] in "+-"] == ["-four", "+FOUR"]


def test_binary_bodies_are_compared_by_bytes() -> None:
    a, b = exchange(b"", b"\0\1\2\3"), exchange(b"", b"\0\1\xff")
    assert compared(a, b)["request"]["body"] == {
        "kind": "binary",
        "length": {"a": 4, "b": 3},
        "first_difference": 2,
    }


def test_the_same_text_compressed_differently_is_told() -> None:
    zipped = b"Content-Encoding: gzip\r\n"
    a = exchange(zipped, gzip.compress(b"text " * 50, 1))
    b = exchange(zipped, gzip.compress(b"text " * 50, 9))
    assert compared(a, b)["request"]["body"]["only_encoding_or_masked_values"] is True


def test_a_missing_side_and_a_cut_body_are_told() -> None:
    answer = side(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 50, kept=10)
    longer = side(b"HTTP/1.1 200 OK\r\n\r\n", b"y" * 50, kept=10)
    assert compared(exchange(), exchange(response=answer))["response"] == {"only_in": "b"}
    assert compared(exchange(response=answer), exchange())["response"] == {"only_in": "a"}
    found = compared(exchange(response=answer), exchange(response=longer))["response"]["body"]
    assert found["compared"] == "the parts that were kept"


def test_secrets_never_show() -> None:
    secrets = [f"s3cr3t{name}value{name}" for name in ("one", "two")]
    made = [
        exchange(
            f"Authorization: Bearer {secret}\r\nContent-Type: application/json\r\n".encode(),
            json.dumps({"password": secret, "user": secret[6:9]}).encode(),
            path=f"/?access_token={secret}".encode(),
        )
        for secret in secrets
    ]
    found = compared(*made)
    assert not any(secret in json.dumps(found) for secret in secrets)
    assert {"path": "$.user", "a": '"one"', "b": '"two"'} in found["request"]["body"]["changes"]


def test_what_is_shown_is_bounded_and_says_how_much_is_left_off() -> None:
    count = 1_000
    numbers = exchange(b"", json.dumps(list(range(count))).encode())
    others = exchange(b"", json.dumps(list(range(1, count + 1))).encode())
    body = compared(numbers, others)["request"]["body"]
    assert len(body["changes"]) == MOST_CHANGES
    assert body["left_off"] == count - MOST_CHANGES

    lines = exchange(b"", "\n".join(f"line {n}" for n in range(500)).encode())
    other_lines = exchange(b"", "\n".join(f"LINE {n}" for n in range(500)).encode())
    body = compared(lines, other_lines)["request"]["body"]
    assert len(body["lines"]) == MOST_LINES
    assert body["left_off"] > 0

    huge = exchange(b"", "\n".join(f"line {n}" for n in range(5_000)).encode())
    other = exchange(b"", "\n".join(f"line {n + n % 2}" for n in range(5_000)).encode())
    body = compared(huge, other)["request"]["body"]
    assert body["too_long_to_compare"] is True
    assert body["first_different_line"] == 2

    long = compared(exchange(b"A: " + b"x" * 9_000 + b"\r\n"), exchange(b"A: y\r\n"))
    assert len(json.dumps(long)) < 1_000


def test_deeply_nested_json_is_compared_to_a_depth() -> None:
    a, b = (exchange(b"", ("[" * 90 + str(number) + "]" * 90).encode()) for number in (1, 2))
    body = compared(a, b)["request"]["body"]
    assert len(body["changes"]) == 1
