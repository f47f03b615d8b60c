"""Heads as the filtering proxy reads them: one meaning per request, nothing else."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.net.http1 import MAX_HEADERS, BadMessage, Counted
from pilothouse.e2e.egress_proxy.http import own_answer, parse_request, rewrite_answer
from tests.support.rounds import examples

# Reading requests

GET = "GET http://a.example/ HTTP/1.1"
POST = "POST http://a.example/ HTTP/1.1"

UNDERSTOOD_IN_TWO_WAYS = [
    (POST, "Content-Length: 5", "Transfer-Encoding: chunked"),
    (POST, "Transfer-Encoding: chunked", "Content-Length: 5"),
    (POST, "Content-Length: 5", "Content-Length: 6"),
    (POST, "Content-Length: 5", "Content-Length: 5"),
    (POST, "Content-Length: 5, 5"),
    (POST, "Content-Length: +5"),
    (POST, "Content-Length: -5"),
    (POST, "Content-Length: 0x5"),
    (POST, "Content-Length: 5_0"),
    (POST, "Content-Length: 5 0"),
    (POST, "Content-Length: \xb2"),
    (POST, "Content-Length:"),
    (POST, "Content-Length: 9999999999999999999"),
    (POST, "Content-Length : 5"),
    (POST, "Content-Length\t: 5"),
    (POST, " Content-Length: 5"),
    (POST, "X: y", " Content-Length: 5"),
    (POST, "X: y", "\tfolded"),
    (POST, "Content-Length: 5\nX: y"),
    (POST, "Content-Length: 5\rX: y"),
    (POST, "X: a\x00b"),
    (POST, "X: a\x0bb"),
    (POST, "X\x00: a"),
    (POST, "X"),
    (POST, ": value"),
    (POST, ""),
    (POST, "X y: z"),
    (POST, "X(y): z"),
    (POST, "Transfer-Encoding: gzip"),
    (POST, "Transfer-Encoding: gzip, chunked"),
    (POST, "Transfer-Encoding: chunked, identity"),
    (POST, "Transfer-Encoding: xchunked"),
    (POST, "Transfer-Encoding: \x0bchunked"),
    (POST, "Transfer-Encoding: chunked;q=1"),
    (POST, "Transfer-Encoding:"),
    (POST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    (POST, "Transfer-Encoding: chunked", "transfer-encoding: identity"),
    ("POST http://a.example/ HTTP/1.0", "Transfer-Encoding: chunked"),
    (GET, "Host: a.example", "Host: b.example"),
    (GET, "Host: a.example", "hOsT: a.example"),
    ("CONNECT a.example:443 HTTP/1.1", "Content-Length: 5"),
    ("CONNECT a.example:443 HTTP/1.1", "Transfer-Encoding: chunked"),
]

NO_PROXY_REQUEST = [
    "", "GET", "GET http://a.example/", "GET  http://a.example/ HTTP/1.1",
    " GET http://a.example/ HTTP/1.1", "GET http://a.example/ HTTP/1.1 ",
    "GET\thttp://a.example/ HTTP/1.1", "GET http://a.example/\tHTTP/1.1",
    "GET http://a.example/a b HTTP/1.1", "GET http://a.example/\x00 HTTP/1.1",
    "GET http://a.example/\xe9 HTTP/1.1", "GET http://a.example/\n HTTP/1.1",
    "G(T http://a.example/ HTTP/1.1", "GET http://a.example/ HTTP/1.2", "GET / HTTP/2.0",
    "GET http://a.example/ HTTP/0.9", "GET http://a.example/ http/1.1", "A" * 33 + GET[3:],
    "GET / HTTP/1.1", "GET * HTTP/1.1", "OPTIONS * HTTP/1.1", "GET a.example HTTP/1.1",
    "GET //a.example/ HTTP/1.1", "GET http:/a.example/ HTTP/1.1", "GET http:a.example HTTP/1.1",
    "GET http:\\\\a.example/ HTTP/1.1", "GET http://a.example\\@b.example/ HTTP/1.1",
    "GET http://user@a.example/ HTTP/1.1", "GET http://u:p@a.example/ HTTP/1.1",
    "GET http://a.example/#x HTTP/1.1", "GET https://a.example/ HTTP/1.1",
    "GET wss://a.example/ HTTP/1.1", "GET ftp://a.example/ HTTP/1.1",
    "GET file:///etc/passwd HTTP/1.1", "GET javascript:1 HTTP/1.1",
    "CONNECT a.example HTTP/1.1", "CONNECT a.example: HTTP/1.1", "CONNECT :443 HTTP/1.1",
    "CONNECT a.example:http HTTP/1.1", "CONNECT a.example:443/ HTTP/1.1",
    "CONNECT http://a.example:443 HTTP/1.1", "CONNECT u@a.example:443 HTTP/1.1",
    "CONNECT a.example:443@b.example:443 HTTP/1.1", "CONNECT a.example:+443 HTTP/1.1",
    "CONNECT a.example:443:443 HTTP/1.1", "CONNECT ::1:443 HTTP/1.1", "CONNECT [::1]443 HTTP/1.1",
    "CONNECT a.example:443?x HTTP/1.1", "CONNECT a.example:123456 HTTP/1.1", "CONNECT / HTTP/1.1",
]  # fmt: skip


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


@pytest.mark.parametrize("lines", UNDERSTOOD_IN_TWO_WAYS)
def test_a_request_that_could_hide_another_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_request(head(*lines))
    assert caught.value.status == 400


@pytest.mark.parametrize("line", NO_PROXY_REQUEST)
def test_what_is_no_request_to_a_proxy_is_refused(line: str) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_request(head(line, "Host: a.example"))
    assert caught.value.status == 400


def test_too_many_headers_are_refused() -> None:
    lines = [f"X-{number}: y" for number in range(MAX_HEADERS)]
    assert parse_request(head(GET, *lines)).method == "GET"
    with pytest.raises(BadMessage) as caught:
        parse_request(head(GET, *lines, "X: y"))
    assert caught.value.status == 431


@settings(max_examples=examples(300))
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode())))
def test_any_bytes_are_a_request_or_a_bad_message(data: bytes) -> None:
    for given_head in (data, GET.encode() + b"\r\n" + data, b"CONNECT " + data + b" HTTP/1.1"):
        try:
            request = parse_request(given_head)
        except BadMessage:
            continue
        forwarded = request.forwarded
        assert request.is_tunnel or forwarded.endswith(b"\r\n\r\n")
        assert forwarded.count(b"\r\n\r\n") == (0 if request.is_tunnel else 1)
        assert b"\n" not in forwarded.replace(b"\r\n", b"")


def test_only_what_is_for_the_server_is_passed_on() -> None:
    request = parse_request(
        head(
            "POST http://A.example:81/p?q=%20 HTTP/1.1",
            "Host: evil.example",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "Connection: keep-alive, X-Private, Content-Length",
            "Keep-Alive: timeout=5",
            "X-Private: 1",
            "X-Pilothouse-Blocked: forged",
            "TE: trailers",
            "Upgrade: h2c",
            "Content-Length: 3",
            "Cookie: a=b",
            "X-Empty:",
        )
    )
    assert request.forwarded == (
        b"POST /p?q=%20 HTTP/1.1\r\nHost: A.example:81\r\nContent-Length: 3\r\nCookie: a=b\r\n"
        b"X-Empty: \r\nConnection: close\r\n\r\n"
    )
    assert (request.scheme, request.authority) == ("http", "A.example:81")
    assert isinstance(request.body, Counted)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("GET http://a.example HTTP/1.1", b"GET / HTTP/1.1"),
        ("GET http://a.example?x HTTP/1.0", b"GET /?x HTTP/1.0"),
        ("GET HTTP://a.example//b HTTP/1.1", b"GET //b HTTP/1.1"),
        ("OPTIONS http://a.example HTTP/1.1", b"OPTIONS * HTTP/1.1"),
        ("OPTIONS http://a.example/ HTTP/1.1", b"OPTIONS / HTTP/1.1"),
        ("GET ws://a.example/s HTTP/1.1", b"GET /s HTTP/1.1"),
        ("GET http://[::1]:8/x HTTP/1.1", b"GET /x HTTP/1.1\r\nHost: [::1]:8"),
    ],
)
def test_a_whole_url_becomes_a_path(line: str, first: bytes) -> None:
    assert parse_request(head(line)).forwarded.startswith(first + b"\r\n")


def test_only_a_websocket_may_change_the_protocol() -> None:
    asked = ("Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Key: k")
    request = parse_request(head(GET, *asked))
    assert request.upgrades
    assert b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" in request.forwarded
    for lines in (
        ("Connection: Upgrade", "Upgrade: h2c"),
        ("Connection: Upgrade", "Upgrade: websocket, h2c"),
        ("Upgrade: websocket",),
        (*asked, "Content-Length: 1"),
    ):
        request = parse_request(head(GET, *lines))
        assert not request.upgrades, lines
        assert b"pgrade" not in request.forwarded


# Answers


def test_an_answer_says_that_the_connection_ends() -> None:
    status, rewritten, says_its_length = rewrite_answer(
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n folded\r\n"
        b"X-Pilothouse-Blocked: forged\r\nTransfer-Encoding: chunked\nX: a\r\n b\r\nSet-Cookie: c"
    )
    assert (status, says_its_length) == (200, True)
    assert rewritten == (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: a\r\n b\r\nSet-Cookie: c\r\n"
        b"Connection: close\r\n\r\n"
    )
    assert rewrite_answer(b"HTTP/1.1 100 Continue") == (
        100,
        b"HTTP/1.1 100 Continue\r\n\r\n",
        False,
    )


@pytest.mark.parametrize("first", [b"", b"<html>", b"HTTP/2 200", b"HTTP/1.1 20", b"HTTP/1.1 2000"])
def test_an_answer_that_is_not_http_is_refused(first: bytes) -> None:
    with pytest.raises(BadMessage) as caught:
        rewrite_answer(first)
    assert caught.value.status == 502


def test_our_own_answer_escapes_what_it_quotes() -> None:
    answer = own_answer(HTTPStatus.FORBIDDEN, "<script>alert('x')</script>&", "rule")
    top, _, body = answer.partition(b"\r\n\r\n")
    assert b"X-Pilothouse-Blocked: rule" in top
    assert b"<script>" not in body
    assert b"&lt;script&gt;" in body
    assert f"Content-Length: {len(body)}".encode() in top
