"""What a hostile or broken client may send over HTTP, and the answer it gets."""

from __future__ import annotations

import http.client
import itertools
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.servers import Server

ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/message"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/"),
    ("GET", "/style.css"),
    ("GET", "/no-such-page"),
]
FOREIGN_HOSTS = [
    "evil.com",
    "evil.com:{port}",
    "localhost.evil.com:{port}",
    "127.0.0.1.nip.io:{port}",
    "127.0.0.1.:{port}",
    "localhost.:{port}",
    "0.0.0.0:{port}",
    "127.0.0.2:{port}",
    "2130706433:{port}",
    "[::]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "localhost@evil.com",
    "localhost:{port}, evil.com",
    "localhost:99999999",
    "",
]
FOREIGN_ORIGINS = [
    "null",
    "file://",
    "http://evil.com",
    "http://evil.com:{port}",
    "http://localhost.evil.com:{port}",
    "http://127.0.0.1.nip.io:{port}",
    "http://localhost:1",
    "http://localhost",
    "http://[::1]:{port}",
    "https://127.0.0.1:{port}",
    "https://127.0.0.1",
    "http://localhost@evil.com:{port}",
    "http://127.0.0.1:{port}.evil.com",
    "http://127.0.0.1:{port}/",
    "ftp://127.0.0.1:{port}",
    "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
    "",
]
OWN = [
    ("127.0.0.1:{port}", None),
    ("localhost:{port}", None),
    ("LOCALHOST:{port}", None),
    ("[::1]:{port}", None),
    ("127.0.0.1:{port}", "http://127.0.0.1:{port}"),
    ("localhost:{port}", "http://localhost:{port}"),
    ("localhost:5123", "http://localhost:5123"),
]


def ask(
    server: Server, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b""
) -> tuple[int, bytes]:
    """A request with exactly these headers; http.client would add a Host of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        if body or method == "POST":
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        response = connection.getresponse()
        # An accepted GET of /mcp is a stream without an end.
        return (
            response.status,
            b"" if response.status == 200 and path == "/mcp" else response.read(),
        )
    finally:
        connection.close()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_foreign_hosts_and_origins_are_refused_on_every_route(
    server: Server, method: str, path: str
) -> None:
    port = server.port
    for host in FOREIGN_HOSTS:
        status, _ = ask(server, method, path, [("Host", host.format(port=port))])
        assert status in (400, 421), (host, status)
    for origin in FOREIGN_ORIGINS:
        headers = [("Host", f"127.0.0.1:{port}"), ("Origin", origin.format(port=port))]
        status, _ = ask(server, method, path, headers)
        assert status == 403, (origin, status)
    twice = [("Host", f"127.0.0.1:{port}"), ("Host", "evil.com")]
    assert ask(server, method, path, twice)[0] in (400, 421)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_local_clients_are_never_refused(server: Server, method: str, path: str) -> None:
    for host, origin in OWN:
        headers = [("Host", host.format(port=server.port))]
        if origin is not None:
            headers.append(("Origin", origin.format(port=server.port)))
        status, _ = ask(server, method, path, headers)
        assert status not in (403, 421), (host, origin, status)


def test_the_matrix_has_at_least_two_hundred_cases() -> None:
    cases = list(itertools.product(ROUTES, [*FOREIGN_HOSTS, *FOREIGN_ORIGINS, *OWN]))
    assert len(cases) >= 200


def test_a_websocket_upgrade_from_a_foreign_page_is_refused(server: Server) -> None:
    headers = [
        ("Host", f"127.0.0.1:{server.port}"),
        ("Origin", "http://evil.com"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    assert ask(server, "GET", "/mcp", headers)[0] == 403


def post(
    server: Server, body: bytes, path: str = "/mcp", kinds: Sequence[str] = ("application/json",)
) -> tuple[int, Any]:
    headers = [
        ("Host", f"127.0.0.1:{server.port}"),
        *(("Content-Type", kind) for kind in kinds),
        ("Accept", "application/json, text/event-stream"),
    ]
    status, answer = ask(server, "POST", path, headers, body)
    return status, json.loads(answer)


def deep(depth: int) -> bytes:
    nested = b"[" * depth + b"]" * depth
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":'
        + (nested + b"}}}")
    )


ODD_MESSAGES = {
    "deep": deep(10_000),
    "deeper than the parser": deep(200_000),
    "moderately deep": deep(500),
    "duplicate key": b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
    "duplicate argument": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
    b'{"name":"echo_code","arguments":{"text":"a","text":"b"}}}',
    "null id": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "float id": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "bool id": b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "huge id": b'{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}',
    "object id": b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    "bad utf-8": b'{"jsonrpc":"2.0","id":1,"method":"p\xff\xfeng"}',
    "batch": b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    "empty": b"",
    "not json": b"hello",
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
    "number": b"12",
    "no version": b'{"id":1,"method":"ping"}',
    "params list": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
    "many keys": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{'
    + b",".join(b'"%x":1' % n for n in range(330_000))
    + b"}}",
    "half an id": b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
    "half an id of a wrong method": b'{"jsonrpc":"2.0","id":"\\ud800","method":7}',
    "half a method": b'{"jsonrpc":"2.0","id":1,"method":"\\udfff"}',
}
OTHER_KINDS: dict[str, Sequence[str]] = {
    "none": (),
    "plain": ("text/plain",),
    "plain with json in it": ("text/plain; application/json",),
    "a form": ("application/x-www-form-urlencoded",),
    "parts": ("multipart/form-data; boundary=application/json",),
    "a longer name": ("application/json5",),
    "a patch": ("application/json-patch+json",),
    "a list": ("application/json, text/plain",),
    "empty": ("",),
    "parameters alone": ("; charset=utf-8",),
}
OWN_KINDS = ("application/json; charset=utf-8", "Application/JSON ;x=y", "application/json;")


@pytest.mark.parametrize("case", ODD_MESSAGES)
@pytest.mark.parametrize("path", ["/mcp", "/message"])
def test_odd_json_gets_a_valid_error(server: Server, case: str, path: str) -> None:
    status, answer = post(server, ODD_MESSAGES[case], path)
    assert status == 400
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] is None or answer["id"] == 1
    assert answer["error"]["code"] in (-32700, -32600)
    assert answer["error"]["message"]


@pytest.mark.parametrize("path", ["/mcp", "/message"])
def test_only_json_is_taken_with_any_parameters(server: Server, path: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    for case, kinds in OTHER_KINDS.items():
        status, answer = post(server, body, path, kinds)
        assert (status, answer["error"]["code"]) == (415, -32600), case
        assert "Content-Type must be application/json; " in answer["error"]["message"]
    for kind in OWN_KINDS:
        # Without a session /mcp says so; what matters is that it has read the message.
        assert post(server, body, path, [kind])[0] == (400 if path == "/mcp" else 200), kind


def test_a_body_over_four_mebibytes_is_refused(server: Server) -> None:
    status, answer = post(server, b" " * (4 * 1024 * 1024 + 1))
    assert (status, answer["error"]["code"]) == (413, -32600)
    assert post(server, b" " * (4 * 1024 * 1024))[0] == 400


def test_a_large_body_is_refused_before_it_is_sent(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 9999999999\r\n\r\n"
            % server.port
        )
        assert raw.recv(1024).startswith(b"HTTP/1.1 413")


def test_a_chunked_body_is_counted_as_it_comes(server: Server) -> None:
    chunk = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nTransfer-Encoding: chunked\r\n\r\n"
            % server.port
        )
        # The server reads on for a while, so that a client that is still sending sees the answer.
        for _ in range(4 * 64 + 1):
            raw.sendall(chunk)
        assert raw.recv(1024).startswith(b"HTTP/1.1 413")


BROKEN_BODIES = {
    "no chunk": b"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n",
    "a length and chunks": b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("case", BROKEN_BODIES)
@pytest.mark.parametrize("path", ["/mcp", "/nothing"])
def test_a_body_that_breaks_off_is_refused_once(server: Server, case: str, path: str) -> None:
    # In one piece with its head: it breaks before the application has begun to answer. The server
    # would log that it answers twice, which fails whoever uses it.
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        raw.sendall(head.encode() + BROKEN_BODIES[case])
        heard = b"".join(iter(lambda: raw.recv(4096), b""))
    assert heard.startswith(b"HTTP/1.1 400")
    assert heard.count(b"HTTP/1.1 ") == 1
    assert server.incidents() == []


def test_the_server_lives_on_after_all_of_it(server: Server) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "status"}}
    status, answer = post(server, json.dumps(body).encode(), "/message")
    assert status == 200
    assert answer["result"]["structuredContent"]["version"]
