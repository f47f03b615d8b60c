"""The command repeats the request, masked, and nothing in the traffic reaches the shell."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.intercept.ports import Detail, Side
from pilothouse.intercept.present.curl import curl, quoted
from pilothouse.intercept.replay.http1 import content_length, parse_head, split_message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GUARD_S = 30
OPEN = Redactor(reveal=True)


def detail(head: bytes, body: bytes = b"", *, port: int = 80, **row: Any) -> Detail:
    side = Side(
        id=1,
        time=0.0,
        length=len(head) + len(body),
        head=head,
        body=body,
        body_length=row.pop("body_length", len(body)),
    )
    facts = {
        "id": 1,
        "scheme": "http",
        "server_name": "127.0.0.1",
        "server_ip": "127.0.0.1",
        "server_port": port,
        "version": "HTTP/1.1",
    }
    return Detail(row=facts | row, request=side)


class Listener:
    """Takes one request after another and answers each with nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(GUARD_S)
        self.port: int = self._socket.getsockname()[1]

    def take(self) -> bytes:
        connection, _ = self._socket.accept()
        connection.settimeout(GUARD_S)
        came = b""
        with connection:
            while True:
                came += connection.recv(65536)
                head, body = split_message(came)
                parsed = parse_head(head)
                if parsed.end and len(body) >= (content_length(parsed) or 0):
                    break
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return came

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    running = Listener()
    yield running
    running.close()


def repeated(command: str, listener: Listener) -> bytes:
    """What arrives when the command runs in a plain POSIX shell."""
    took: list[bytes] = []
    thread = threading.Thread(target=lambda: took.append(listener.take()))
    thread.start()
    subprocess.run(["sh", "-c", command + "\n"], check=True, timeout=GUARD_S, capture_output=True)
    thread.join(GUARD_S)
    return took[0]


def sorted_lines(message: bytes) -> tuple[bytes, list[bytes], bytes]:
    head, body = split_message(message)
    parsed = parse_head(head)
    return parsed.start, sorted(header.raw for header in parsed.headers), body


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
EVIL = b"'; touch /tmp/pwned; echo $(id) `id` \\ \" $HOME !! %s %n #"


@needs_curl
@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"GET /a/../b?x=[1]&y={2}&z=%20 HTTP/1.1\r\nAccept: */*\r\n", b""),
        (b"GET / HTTP/1.1\r\nX-Evil: " + EVIL + b"\r\nX-Empty:\r\n", b""),
        (b"POST /form HTTP/1.1\r\nContent-Type: a/b\r\n", b"@/etc/passwd&a=" + EVIL),
        (b"POST /none HTTP/1.1\r\nUser-Agent: mine\r\n", b"no content type\r\nand lines\n"),
        (b"PUT /bytes HTTP/1.1\r\nX-Bytes: \xff\x01\xfe\r\n", bytes(range(256)) * 3),
        (b"DELETE /x HTTP/1.1\r\nCookie: a=1\r\nX-Two: 1\r\nX-Two: 2\r\n", b""),
        (b"OPTIONS * HTTP/1.1\r\nAccept: x/y\r\n", b""),
        (b"M'-X /odd HTTP/1.1\r\nAccept: x/y\r\n", b""),
        (b"POST /empty HTTP/1.1\r\nAccept: x/y\r\n", b""),
    ],
    ids=["target", "header", "form", "plain", "bytes", "delete", "star", "method", "empty post"],
)
@pytest.mark.process
def test_the_command_sends_what_was_recorded(head: bytes, body: bytes, listener: Listener) -> None:
    head += b"Host: 127.0.0.1:%d\r\n" % listener.port
    if body:
        head += b"Content-Length: %d\r\n" % len(body)
    recorded = head + b"\r\n" + body
    command = curl(detail(head + b"\r\n", body, port=listener.port), OPEN)
    came = sorted_lines(repeated(command, listener))
    expected = sorted_lines(recorded.replace(b"X-Empty:\r\n", b"X-Empty: \r\n"))
    assert (came[0], came[2]) == (expected[0], expected[2])
    assert [line.replace(b": ", b":") for line in came[1]] == [
        line.replace(b": ", b":") for line in expected[1]
    ]


@needs_curl
@pytest.mark.process
def test_a_body_that_is_too_long_for_an_argument_is_sent_all_the_same(
    listener: Listener, tmp_path: Path
) -> None:
    body = b"it's long\n" * 20_000
    head = b"POST /long HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    script = tmp_path / "repeat.sh"
    script.write_text(curl(detail(head, body, port=listener.port), OPEN))
    assert split_message(repeated(f"sh {script}", listener))[1] == body


@pytest.mark.parametrize(
    "text", [b"plain", EVIL, b"a\nb", bytes(range(1, 256)), b"\x1b[2J", "ä".encode()]
)
@pytest.mark.process
def test_a_quoted_word_is_one_word_with_the_same_bytes(text: bytes) -> None:
    ran = subprocess.run(
        ["sh", "-c", f"printf %s {quoted(text)}"], capture_output=True, check=True, timeout=GUARD_S
    )
    assert ran.stdout == text
    assert b"\x1b" not in quoted(text).encode()


def test_secrets_are_masked_in_url_headers_and_body() -> None:
    head = (
        b"POST /in?access_token=s3cr3tvalue HTTP/1.1\r\nAuthorization: Bearer abcdef123456\r\n"
        b"Cookie: sid=verysecretcookie\r\nContent-Type: application/json\r\n\r\n"
    )
    command = curl(detail(head, b'{"password": "hunter2hunter2", "user": "bob"}'), Redactor())
    for secret in ("s3cr3tvalue", "abcdef123456", "verysecretcookie", "hunter2hunter2"):
        assert secret not in command
    assert '"user": "bob"' in command


@pytest.mark.process
def test_a_compressed_body_with_a_secret_is_masked_inside() -> None:
    import gzip
    import re

    head = b"POST / HTTP/1.1\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n"
    command = curl(detail(head, gzip.compress(b'{"password": "hunter2hunter2"}')), Redactor())
    script = re.sub(r" \| curl .*", "", command)
    sent = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=GUARD_S)
    plain = gzip.decompress(sent.stdout)
    assert b"hunter2" not in plain
    assert b"password" in plain


def test_a_header_that_curl_would_take_for_a_file_is_left_out_and_told() -> None:
    command = curl(detail(b"GET / HTTP/1.1\r\n@/etc/passwd: x\r\nno colon\r\n\r\n"), OPEN)
    assert "passwd" not in command
    assert command.endswith("# 2 header lines are left out: curl cannot send them")


def test_a_cut_body_is_told() -> None:
    command = curl(detail(b"POST / HTTP/1.1\r\n\r\n", b"abc", body_length=99), OPEN)
    assert command.endswith("# only 3 of 99 bytes of the body are here")


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"version": "HTTP/2.0"}, "--http2"),
        ({"version": "HTTP/3"}, "--http3"),
        ({"version": "HTTP/1.0"}, "--http1.0"),
        ({"scheme": "https", "server_name": "shop.test", "server_port": 443}, "'https://shop.test/'"),
        ({"scheme": "https", "server_name": "::1", "server_port": 8443}, "'https://[::1]:8443/'"),
        ({"scheme": "wss", "server_name": "shop.test", "server_port": 443}, "'https://shop.test/'"),
    ],
)  # fmt: skip
def test_version_and_place_are_those_of_the_packet(row: dict[str, Any], word: str) -> None:
    assert word in curl(detail(b"GET / HTTP/1.1\r\n\r\n", **row), OPEN).split(" ")


def test_a_message_without_headers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no HTTP request"):
        curl(detail(b"", b"frame", type="WebSocket"), OPEN)
