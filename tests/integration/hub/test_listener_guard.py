"""Who gets through the listener: Host and Origin, callers, requests that could hide another."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.net.origins import OriginPolicy
from pilothouse.hub.http import connection, listener
from pilothouse.hub.mcp.template import Template
from pilothouse.hub.model import Key
from pilothouse.hub.ports import Denied, Upstream
from tests.support.listener_rig import Asked, call, hello, listen, modern, plain, request
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.core.net.http1 import RequestHead
    from tests.support.listener_rig import Plain, Rig

pytestmark = pytest.mark.anyio

CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}}
TEMPLATE = Template(
    {"initialize": {"capabilities": CAPABILITIES, "serverInfo": {"name": "x", "version": "1"}}},
    {"server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}},
    minting=frozenset({"startSession"}),
)


async def answer(asked: Asked) -> None:
    """Both a worker and the pages: says which path was asked for."""
    if asked.head.method == "POST" and asked.head.target == "/mcp":
        if asked.message.get("method") == "initialize":
            asked.result({"protocolVersion": "2025-11-25"}, "Mcp-Session-Id: inner")
        else:
            asked.result({"content": []})
    else:
        asked.answer("200 OK", f"{asked.head.target} {len(asked.body)}".encode())


@pytest.fixture
async def upstream(tmp_path: Path) -> AsyncIterator[tuple[Plain, Rig]]:
    async with plain(tmp_path / "u", answer) as (served, crew):
        pages = Upstream("", path=str(tmp_path / "u"))
        origin_policy = OriginPolicy("https://pilot.example", ["https://friend.example"])
        async with listen(crew, TEMPLATE, pages=pages, origin_policy=origin_policy) as rig:
            yield served, rig


# Host and Origin

HOSTS = {
    "127.0.0.1:PORT": True,
    "localhost:PORT": True,
    "LOCALHOST:PORT": True,
    "[::1]:PORT": True,
    "localhost": True,
    "pilot.example": True,
    "pilot.example:443": True,
    None: False,
    "": False,
    "evil.example": False,
    "evil.example:PORT": False,
    "localhost.evil.example": False,
    "127.0.0.1.evil.example": False,
    "127.0.0.2": False,
    "0.0.0.0:PORT": False,
    "127.1:PORT": False,
    "[::ffff:127.0.0.1]:PORT": False,
    "localhost:PORT@evil.example": False,
    "localhost evil": False,
    "lo\u00adcalhost": False,
}
ORIGINS: dict[str | None, bool | str] = {
    None: True,
    "http://HOST": "local",
    "https://HOST": "public",
    "https://pilot.example": True,
    "https://friend.example": True,
    "null": False,
    "file://": False,
    "": False,
    "http://evil.example": False,
    "http://127.0.0.1:1": False,
    "http://localhost:3000": False,
    "http://HOST.evil.example": False,
    "https://evil.example@HOST": False,
}
ROUTES = ("/mcp", "/message", "/mcp/key", "/", "/health", "/no/such", "/%6dcp")


async def test_every_route_judges_host_and_origin(upstream: tuple[Plain, Rig]) -> None:
    served, rig = upstream
    cases = list(itertools.product(HOSTS, ORIGINS))
    assert len(cases) >= 200
    for number, (host, origin) in enumerate(cases):
        route = ROUTES[number % len(ROUTES)]
        await _judged(rig, route, host, origin)
    for route in ROUTES:  # each of them at least once for each kind of refusal
        await _judged(rig, route, "evil.example", None)
        await _judged(rig, route, "127.0.0.1:PORT", "http://evil.example")
        await _judged(rig, route, "127.0.0.1:PORT", None)
    assert all(one.head.one("host") != "evil.example" for one in served.asked)


async def _judged(rig: Rig, route: str, host: str | None, origin: str | None) -> None:
    named = host.replace("PORT", str(rig.port)) if host is not None else None
    lines = [f"GET {route} HTTP/1.1"] + ([f"Host: {named}"] if named is not None else [])
    if origin is not None:
        lines.append(f"Origin: {origin.replace('HOST', named or '')}")
    client = await rig.connect()
    client.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    got = await client.answer("GET")
    client.close()
    expected = verdict(host, origin)
    if expected is None:
        assert got.status not in (403, 421), (route, host, origin, got)
    else:
        assert got.status == expected, (route, host, origin, got)


def verdict(host: str | None, origin: str | None) -> int | None:
    """The status by which it is refused; None: it is let in."""
    if not HOSTS[host]:
        return 421
    is_ours = ORIGINS[origin]
    if is_ours in ("local", "public"):
        # An Origin of plain http is ours where the Host is local; the public one is https.
        is_ours = (is_ours == "public") == (host or "").startswith("pilot")
    return None if is_ours else 403


# Requests that could hide another

START = "POST /mcp HTTP/1.1"
HOST = "Host: localhost"
HIDING = [
    [START, HOST, "Content-Length: 5", "Transfer-Encoding: chunked"],
    [START, HOST, "Transfer-Encoding: chunked", "Content-Length: 5"],
    [START, HOST, "Content-Length: 5", "Content-Length: 6"],
    [START, HOST, "Content-Length: 5", "Content-Length: 5"],
    [START, HOST, "Content-Length: 5, 5"],
    [START, HOST, "Content-Length: +5"],
    [START, HOST, "Content-Length: 0x5"],
    [START, HOST, "Content-Length : 5"],
    [START, HOST, " Content-Length: 5"],
    [START, HOST, "X: y", " folded"],
    [START, HOST, "Transfer-Encoding: gzip, chunked"],
    [START, HOST, "Transfer-Encoding: xchunked"],
    [START, HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
    ["POST /mcp HTTP/1.0", HOST, "Transfer-Encoding: chunked"],
    [START, HOST, HOST],
    [START, HOST, "Host: evil.example"],
    [START, HOST, "Origin: http://localhost", "Origin: http://evil.example"],
    [START, HOST, "Mcp-Session-Id: a", "Mcp-Session-Id: b"],
    [START, HOST, "Content-Length: 5\nX: y"],
    [START, HOST, "Content-Length: 5\rX: y"],
    [START, HOST, "X: a\x00b"],
    [START, HOST, "X y: z"],
    [START, HOST, "X"],
    ["POST  /mcp HTTP/1.1", HOST],
    ["POST /mcp HTTP/1.1 ", HOST],
    ["POST /mcp HTTP/2.0", HOST],
    ["POST /mcp", HOST],
    ["POST http://localhost/mcp HTTP/1.1", HOST],
    ["CONNECT localhost:80 HTTP/1.1", HOST],
    ["OPTIONS * HTTP/1.1", HOST],
    ["GET /mcp#x HTTP/1.1", HOST],
    ["", START, HOST],
    ["GET / HTTP/1.1", HOST, "Content-Length: 0", "Transfer-Encoding: chunked"],
]
SMUGGLED = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("lines", HIDING, ids=range(len(HIDING)))
async def test_a_request_that_could_hide_another_reaches_nobody(
    upstream: tuple[Plain, Rig], lines: list[str]
) -> None:
    served, rig = upstream
    client = await rig.connect()
    client.send("\r\n".join([*lines, "", ""]).encode("latin-1") + SMUGGLED)
    got = await client.answer()
    assert (got.status, got.head.first("connection")) == (400, "close")
    assert await client.read() == b""
    assert served.asked == []


async def test_lines_that_end_without_a_carriage_return_are_refused(
    upstream: tuple[Plain, Rig],
) -> None:
    served, rig = upstream
    for raw in (b"GET / HTTP/1.1\nHost: localhost\n\n", b"GET / HTTP/1.1\r\nHost: localhost\n\r\n"):
        client = await rig.connect()
        client.send(raw)
        assert (await client.answer("GET")).status == 400
    assert served.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"5;a=b\r\nhello\r\n0\r\n\r\n",
        b"2\r\nhello\r\n0\r\n\r\n",
        b"zz\r\n",
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/health"])
async def test_a_malformed_chunk_is_refused_and_what_follows_is_not_read(
    upstream: tuple[Plain, Rig], path: str, body: bytes
) -> None:
    served, rig = upstream
    client = await rig.connect()
    client.request("POST", path, "Transfer-Encoding: chunked", "Host: localhost")
    client.send(body + SMUGGLED)
    assert (await client.answer()).status == 400
    assert await client.read() == b""
    assert "/smuggled" not in [one.head.target for one in served.asked]


async def test_a_head_without_end_is_refused(upstream: tuple[Plain, Rig]) -> None:
    _, rig = upstream
    client = await rig.connect()
    client.send(b"GET / HTTP/1.1\r\nX: ")
    for _ in range(40):
        client.send(b"x" * 4096)
    assert (await client.answer("GET")).status == 431


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'"x"', b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', b'{"jsonrpc":"1.0","id":1}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":[]}', b"\xff\xfe", b'{"a":' * 200,
    ],
)  # fmt: skip
async def test_what_is_no_sound_message_is_refused(
    upstream: tuple[Plain, Rig], body: bytes
) -> None:
    served, rig = upstream
    client = await rig.connect()
    client.request("POST", "/mcp", "Content-Type: application/json", "Accept: */*", body=body)
    got = await client.answer()
    assert got.status == 400
    assert got.json["error"]["code"] in (-32700, -32600)
    await client.initialize()  # on the same connection
    assert served.asked == []


# Callers


async def who(head: RequestHead) -> str | Denied:
    token = head.one("authorization")
    if token is None:
        return Denied(401, b"{}", (("WWW-Authenticate", "Bearer"),))
    return token.removeprefix("Bearer ")


async def test_sessions_paths_and_handles_of_another_principal_are_out_of_reach(
    tmp_path: Path,
) -> None:
    minted = iter(["handle-ann", "handle-bob"])

    async def worker(asked: Asked) -> None:
        if asked.message.get("params", {}).get("name") == "startSession":
            asked.result({"content": [], "structuredContent": {"sessionId": next(minted)}})
        else:
            await answer(asked)

    async with (
        plain(tmp_path / "u", worker) as (served, crew),
        listen(crew, TEMPLATE, authenticate=who) as rig,
    ):
        client = await rig.connect()
        client.post(hello())
        denied = await client.answer()
        assert (denied.status, denied.head.first("www-authenticate")) == (401, "Bearer")
        ann, bob = "Authorization: Bearer ann", "Authorization: Bearer bob"
        client = await rig.connect()
        client.post(hello(), ann)
        session = (await client.answer()).head.first("mcp-session-id")
        ours = f"Mcp-Session-Id: {session}"
        for verb in ("POST", "GET", "DELETE"):
            for stranger, id in ((bob, ours), (ann, "Mcp-Session-Id: unknown")):
                body = json.dumps(call("work")).encode() if verb == "POST" else None
                client.request(verb, "/mcp", stranger, id, "Accept: */*", body=body)
                got = await client.answer(verb)
                assert (got.status, got.json["error"]["message"]) == (404, "Session not found")
        assert served.asked == []
        for caller in (ann, bob):
            for path in ("/mcp", "/mcp/window"):
                message, fields = modern(call("work"))
                client.post(message, caller, *fields, path=path)
                assert (await client.answer()).status == 200
            message, fields = modern(call("startSession"))
            client.post(message, caller, *fields)
            assert (await client.answer()).status == 200
        starts = [key for key in crew.started if key.kind != "handle"]
        assert starts == [
            Key("principal", "ann", "ann"), Key("path", "window", "ann"),
            Key("principal", "bob", "bob"), Key("path", "window", "bob"),
        ]  # fmt: skip
        handles = [key for key in crew.started if key.kind == "handle"]
        assert [key.principal for key in handles] == ["ann", "bob"]
        for caller, handle, key in (
            (ann, "handle-ann", handles[0]),
            (bob, "handle-bob", handles[1]),
            (bob, "handle-ann", Key("principal", "bob", "bob")),
            (bob, "no-handle", Key("principal", "bob", "bob")),
        ):
            before = dict(crew.leases)
            message, fields = modern(call("click", sessionId=handle))
            client.post(message, caller, *fields)
            assert (await client.answer()).status == 200
            assert crew.leases.keys() == before.keys()
            assert crew.last == key
        assert all("authorization" not in one.head.values for one in served.asked)


# The pages


async def test_what_is_no_mcp_is_for_the_pages(upstream: tuple[Plain, Rig]) -> None:
    served, rig = upstream
    client = await rig.connect()
    client.request("GET", "/health?x=1", "Origin: " + rig.url)
    assert (await client.answer("GET")).body == b"/health?x=1 0"
    head = served.asked[0].head
    assert head.one("host") == f"127.0.0.1:{rig.port}"
    assert head.one("origin") == rig.url  # it answers pages of other sites by it
    client.request("POST", "/upload", body=b"x" * 1_000_000)
    assert (await client.answer()).body == b"/upload 1000000"
    client.request("POST", "/upload", "Transfer-Encoding: chunked")
    for _ in range(10):
        client.send(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
    client.send(b"0\r\n\r\n")
    assert (await client.answer()).body == b"/upload 100000"
    client.request("HEAD", "/page")
    assert (await client.answer("HEAD")).body == b""
    client.request("GET", "/mcp/one/two")
    assert (await client.answer("GET")).body == b"/mcp/one/two 0"
    client.request("GET", "/mcp/")
    assert (await client.answer("GET")).status == 400  # a stream without a session


async def test_pages_that_are_gone_are_reported(tmp_path: Path) -> None:
    async with plain(tmp_path / "u", answer) as (_, crew), listen(crew, TEMPLATE) as rig:
        client = await rig.connect()
        client.request("GET", "/health")
        assert (await client.answer("GET")).status == 502
        await client.initialize()  # on the same connection


async def test_a_websocket_passes_to_the_pages_and_nothing_else_changes_the_protocol(
    tmp_path: Path,
) -> None:
    async def switch(asked: Asked) -> None:
        if asked.head.one("upgrade") != "websocket":
            asked.answer("200 OK", b"plain")
            return
        asked.writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\n\r\nhello"
        )
        while data := await asked.reader.read(100):
            asked.writer.write(data.upper())
            if data == b"bye":
                asked.writer.close()
                return

    async with plain(tmp_path / "u", switch) as (_, crew):
        async with listen(crew, TEMPLATE, pages=Upstream("", path=str(tmp_path / "u"))) as rig:
            client = await rig.connect()
            client.request("GET", "/events", "Connection: Upgrade", "Upgrade: websocket")
            assert (await client.head()).status == 101
            assert await client.until(b"hello") == b"hello"
            for word in (b"one", b"bye"):
                client.send(word)
                assert await client.until(word.upper()) == word.upper()
            assert await client.read() == b""
            client = await rig.connect()
            client.request("GET", "/events", "Connection: Upgrade", "Upgrade: h2c")
            assert (await client.answer("GET")).body == b"plain"


async def test_after_a_change_that_the_pages_refuse_nothing_more_is_read(tmp_path: Path) -> None:
    async def refuse(asked: Asked) -> None:
        asked.answer("403 Forbidden")

    async with plain(tmp_path / "u", refuse) as (_, crew):
        async with listen(crew, TEMPLATE, pages=Upstream("", path=str(tmp_path / "u"))) as rig:
            client = await rig.connect()
            for _ in range(2):
                client.request("GET", "/events", "Connection: Upgrade", "Upgrade: websocket")
            got = await client.answer("GET")
            assert (got.status, got.head.first("connection")) == (403, "close")
            assert await client.read() == b""


# Clients that keep us waiting


@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ("IDLE_S", b""),
        ("HEAD_S", b"GET / HTTP/1.1\r\n"),
        ("BODY_S", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"),
    ],
)
async def test_a_client_that_never_finishes_is_hung_up_on(
    upstream: tuple[Plain, Rig], monkeypatch: pytest.MonkeyPatch, limit: str, sent: bytes
) -> None:
    monkeypatch.setattr(connection, limit, 0.05)
    monkeypatch.setattr(listener, "SWEEP_S", 0.02)
    _, rig = upstream
    client = await rig.connect()
    client.send(sent)
    try:
        assert await client.read() == b""
    except ConnectionResetError:
        pass
    await until(lambda: len(rig.listener) == 0)


async def test_a_head_in_single_bytes_is_read(upstream: tuple[Plain, Rig]) -> None:
    _, rig = upstream
    client = await rig.connect()
    for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n":
        client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer("GET")).body == b"/health 0"


async def test_more_connections_than_there_may_be_are_closed(
    upstream: tuple[Plain, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 2)
    _, rig = upstream
    kept = [await rig.connect() for _ in range(2)]
    for client in kept:
        await client.initialize()
    extra = await rig.connect()
    try:
        extra.post(request("ping"))
        assert await extra.read() == b""
    except ConnectionError:
        pass
    await until(lambda: len(rig.listener) == 2)
    await kept[0].initialize()
