"""A response is read the same whatever the pieces it arrives in, and nothing makes reading fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.intercept.replay.http1_response import Http1

GET = b"GET / HTTP/1.1\r\n\r\n"
PARTS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.0 404 No\n", b"\r\n", b"\n",
    b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"hello", b"5\r\nhello\r\n",
    b"0\r\n\r\n", b"HTTP/", b"X: \xff\0\r\n", b" folded\r\n", b"5;x\r\n", b"0\r\nA: 1\r\n\r\n",
]  # fmt: skip
streams = st.lists(st.sampled_from(PARTS) | st.binary(max_size=4), max_size=10).map(b"".join)


def read(stream: bytes, step: int) -> Http1:
    """All of the stream, then its end, as far as the conversation wants it."""
    talk = Http1(GET, b"")
    assert talk.to_send() == GET
    for start in range(0, len(stream), step):
        if not talk.is_done:
            talk.receive(stream[start : start + step], 1.0)
    if not talk.is_done:
        talk.receive(b"", 2.0)
    return talk


@given(streams, st.integers(1, 5))
def test_pieces_make_no_difference(stream: bytes, step: int) -> None:
    whole, pieces = read(stream, len(stream) or 1), read(stream, step)
    assert whole.is_done
    assert pieces.is_done
    assert whole.response == pieces.response
    assert whole.error == pieces.error


@given(streams)
def test_what_is_kept_was_sent_and_is_counted(stream: bytes) -> None:
    response = read(stream, 3).response
    assert response.head in stream
    assert response.body_length == len(response.body) <= len(stream)
    assert bool(response.time) == bool(stream)


@given(st.binary(max_size=300), st.integers(1, 7))
def test_a_body_of_known_length_is_read_to_its_last_byte(body: bytes, step: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    talk = read(head + body + b"of the next", step)
    assert (talk.error, talk.response.head, bytes(talk.response.body)) == ("", head, body)
