"""What goes through the filtering proxy: whole, at the reader's pace, within bounds."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
from http import HTTPStatus

import pytest

from pilothouse.core.net.http1 import MAX_HEAD_BYTES
from pilothouse.e2e.egress_proxy import pipes, proxy
from pilothouse.machine.net.local_users import Caller
from tests.support.until import until
from tests.unit.e2e.proxy_rig import GUARD_S, OK, PRODUCTION, echo, head, rig, upstream

pytestmark = pytest.mark.anyio


async def test_bodies_of_any_size_pass_in_both_directions() -> None:
    size = 24 * 1024 * 1024
    block = bytes(range(256)) * 256

    async def digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen, left = hashlib.sha256(), size
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while left:
            data = await reader.read(min(left, 65536))
            seen.update(data)
            left -= len(data)
            writer.write(data)
            await writer.drain()
        writer.write(seen.digest())

    async with upstream(digest) as server, rig() as it:
        reader, writer = await it.connect()
        url = f"http://127.0.0.1:{server.port}/"
        writer.write(head(f"POST {url} HTTP/1.1", f"Content-Length: {size}", "", ""))

        async def send() -> None:
            for _ in range(size // len(block)):
                writer.write(block)
                await writer.drain()

        async with asyncio.timeout(GUARD_S):
            _, answer = await asyncio.gather(send(), reader.read(-1))
        body = answer.partition(b"\r\n\r\n")[2]
        assert len(body) == size + 32
        assert body[size:] == hashlib.sha256(body[:size]).digest()
        assert body[: len(block)] == block
        writer.close()


async def test_a_second_request_behind_the_first_reaches_nobody() -> None:
    async def all_of_it(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.seen += await reader.readuntil(b"hello")
        writer.write(OK)
        await writer.drain()
        server.seen += await reader.read(-1)

    async with upstream(all_of_it) as server, rig() as it:
        url = f"http://127.0.0.1:{server.port}/"
        hidden = head("GET http://169.254.169.254/ HTTP/1.1", "Host: x", "", "")
        first = head(f"POST {url} HTTP/1.1", "Content-Length: 5", "", "") + b"hello"
        answer = await it.ask(first + hidden, then_eof=True)
        assert answer.count(b"HTTP/1.1") == 1
        await until(lambda: server.seen.endswith(b"hello"))
        assert b"169.254" not in server.seen


async def test_a_chunked_request_passes_and_a_broken_one_is_400() -> None:
    async def read_chunked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        server.seen += await reader.readuntil(b"0\r\n\r\n")
        writer.write(OK)

    async with upstream(read_chunked) as server, rig() as it:
        post = head(
            f"POST http://127.0.0.1:{server.port}/ HTTP/1.1", "Transfer-Encoding: chunked", "", ""
        )
        assert (await it.ask(post + b"5\r\nhello\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert bytes(server.seen) == b"5\r\nhello\r\n0\r\n\r\n"
        assert (await it.ask(post + b"5;x\r\nhello\r\n0\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_a_refused_upload_still_hears_why() -> None:
    async with rig(PRODUCTION) as it:
        reader, writer = await it.connect()
        writer.write(head("POST http://127.0.0.1:1/ HTTP/1.1", "Content-Length: 4000000", "", ""))
        writer.write(bytes(4_000_000))
        async with asyncio.timeout(GUARD_S):
            assert (await reader.read(-1)).startswith(b"HTTP/1.1 403 ")
        writer.close()


async def test_interim_answers_pass_and_the_last_one_is_rewritten() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with upstream(interim + OK) as server, rig() as it:
        answer = await it.get(f"http://127.0.0.1:{server.port}/")
        assert answer == interim + OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"HTTP/1.1 200 OK\r\nX: y", b"garbage\r\n\r\n", b"HTTP/1.1 101 Other\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (MAX_HEAD_BYTES + 1),
    ],
    ids=["nothing", "half a head", "garbage", "101 unasked", "huge head"],
)  # fmt: skip
async def test_a_server_that_gives_no_answer_is_502(answer: bytes) -> None:
    async with upstream(answer) as server, rig() as it:
        got = await it.get(f"http://127.0.0.1:{server.port}/")
        assert got.startswith(b"HTTP/1.1 502 ")


async def test_a_websocket_in_a_plain_request_becomes_a_tunnel() -> None:
    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.seen += await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nX: y\r\n\r\nhi")
        await echo(reader, writer)

    async with upstream(switch) as server, rig() as it:
        reader, writer = await it.connect()
        url = f"http://localhost:{server.port}/ws"
        writer.write(
            head(f"GET {url} HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", "", "")
        )
        async with asyncio.timeout(GUARD_S):
            top = await reader.readuntil(b"\r\n\r\n")
            assert b"X: y\r\nConnection: Upgrade\r\nUpgrade: websocket" in top
            assert await reader.readexactly(2) == b"hi"
            writer.write(b"\x81\x02ok")
            assert await reader.readexactly(4) == b"\x81\x02ok"
        writer.close()


async def test_a_tunnel_carries_bytes_both_ways_and_stays_when_idle() -> None:
    async with upstream(echo) as server, rig() as it:
        reader, writer = await it.tunnel(f"localhost:{server.port}")
        for size in (1, 70_000, 1):
            writer.write(bytes(size))
            async with asyncio.timeout(GUARD_S):
                assert len(await reader.readexactly(size)) == size
        for transport in (*it.proxy._browsers, *it.proxy._servers):
            sock = transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


async def test_what_is_sent_along_with_the_tunnel_request_is_not_lost() -> None:
    async with upstream(echo) as server, rig() as it:
        wire = head(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1", "", "") + b"early"
        assert (await it.ask(wire, then_eof=True)).endswith(b"\r\n\r\nearly")


async def test_a_server_that_speaks_first_is_heard() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        await reader.read()

    async with upstream(greet) as server, rig() as it:
        reader, writer = await it.tunnel(f"127.0.0.1:{server.port}")
        async with asyncio.timeout(GUARD_S):
            assert await reader.readline() == b"220 hello\r\n"
        writer.close()


async def test_half_closed_ends_still_get_the_rest() -> None:
    async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = await reader.read(-1)
        writer.write(b"got %d" % len(sent))

    async with upstream(answer_at_the_end) as server, rig() as it:
        reader, writer = await it.tunnel(f"127.0.0.1:{server.port}")
        writer.write(b"12345")
        writer.write_eof()
        async with asyncio.timeout(GUARD_S):
            assert await reader.read(-1) == b"got 5"
        writer.close()
        await until(lambda: all(one.is_closing() for one in it.proxy._servers))
    async with upstream(OK) as server, rig() as it:
        get = head(f"GET http://127.0.0.1:{server.port}/ HTTP/1.1", "", "")
        assert (await it.ask(get, then_eof=True)).endswith(b"ok")


async def test_who_has_hung_up_before_our_own_answer_is_dropped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        browser = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, accepted)
    transport.pause_reading()  # as the proxy does while it finds out what becomes of a request
    browser.close()
    pipes.answer(transport, HTTPStatus.BAD_GATEWAY, "it cannot be reached")
    await until(transport.is_closing)


async def test_a_peer_that_ignores_the_hang_up_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipes, "HALF_OPEN_S", 0.05)
    release = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()

    async with upstream(deaf) as server, rig() as it:
        _, writer = await it.tunnel(f"127.0.0.1:{server.port}")
        writer.close()
        await until(lambda: all(one.is_closing() for one in it.proxy._servers))
        await until(lambda: all(one.is_closing() for one in it.proxy._browsers))
        release.set()


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["tunnel", "plain"])
async def test_what_a_server_cuts_short_does_not_look_complete(first: bytes) -> None:
    seen = asyncio.Event()

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first + b"part")
        await seen.wait()
        # With this option a close is a reset.
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async with upstream(cut) as server, rig() as it:
        reader, writer = await it.connect()
        where = f"127.0.0.1:{server.port}"
        line = f"GET http://{where}/ HTTP/1.1" if first else f"CONNECT {where} HTTP/1.1"
        writer.write(head(line, "", ""))
        async with asyncio.timeout(GUARD_S):
            await reader.readuntil(b"part")
            seen.set()
            with pytest.raises(ConnectionResetError):
                await reader.read(-1)


async def test_a_slow_reader_slows_the_sender_and_loses_nothing() -> None:
    total, block = 64 * 1024 * 1024, bytes(range(256)) * 1024
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(total // len(block)):
            writer.write(block)
            await writer.drain()
            sent += len(block)

    async with upstream(flood) as server, rig() as it:
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", it.proxy.port))
        await loop.sock_sendall(sock, head(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1", "", ""))
        await until(lambda: any(not one.is_reading() for one in it.proxy._servers))
        for transport in it.proxy._browsers:
            assert transport.get_write_buffer_size() < 1024 * 1024
        assert sent < total
        received = bytearray()
        async with asyncio.timeout(GUARD_S):
            while data := await loop.sock_recv(sock, 1024 * 1024):
                received += data
        body = received.partition(b"\r\n\r\n")[2]
        assert len(body) == total
        assert body.count(block) == total // len(block)
        sock.close()


async def test_a_hundred_at_once_are_kept_apart() -> None:
    async with upstream(echo) as server, rig() as it:

        async def one(number: int) -> None:
            reader, writer = await it.tunnel(f"127.0.0.1:{server.port}")
            for turn in range(5):
                mine = b"%d/%d " % (number, turn) * 500
                writer.write(mine)
                assert await reader.readexactly(len(mine)) == mine
            writer.close()

        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*(one(number) for number in range(100)))
        assert server.connections == 100


async def test_there_is_a_limit_to_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "MAX_CONNECTIONS", 4)
    async with upstream(echo) as server, rig() as it:
        tunnels = [await it.tunnel(f"127.0.0.1:{server.port}") for _ in range(4)]
        assert (await it.ask(b"")).startswith(b"HTTP/1.1 503 ")
        tunnels[0][1].close()
        await until(lambda: any(one.is_closing() for one in it.proxy._browsers))
        await it.tunnel(f"127.0.0.1:{server.port}")


async def test_a_head_has_bounds_in_size_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as it:
        huge = head("GET http://a.example/ HTTP/1.1", "X: " + "y" * MAX_HEAD_BYTES)
        assert (await it.ask(huge)).startswith(b"HTTP/1.1 431 ")
        assert (await it.ask(huge + b"\r\n\r\n")).startswith(b"HTTP/1.1 431 ")
        monkeypatch.setattr(proxy, "HEAD_S", 0.2)
        assert (await it.ask(b"GET http://a")).startswith(b"HTTP/1.1 408 ")
        assert await it.ask(b"") == b""


async def test_somebody_unknown_has_less_time_to_say_who_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert proxy.UNKNOWN_HEAD_S <= 5 < proxy.HEAD_S
    monkeypatch.setattr(proxy, "UNKNOWN_HEAD_S", 0.2)
    monkeypatch.setattr(proxy, "caller_of", lambda _: Caller.UNKNOWN)
    async with rig() as it:
        assert (await it.ask(b"GET http://a")).startswith(b"HTTP/1.1 408 ")
        assert await it.ask(b"") == b""
        wire = head("GET http://a/ HTTP/1.1", "Host: a", "Proxy-Authorization: Bearer \xff", "", "")
        assert (await it.ask(wire)).startswith(b"HTTP/1.1 407 ")


async def test_a_head_may_come_in_single_bytes() -> None:
    async with upstream(OK) as server, rig() as it:
        reader, writer = await it.connect()
        for byte in head(f"GET http://127.0.0.1:{server.port}/ HTTP/1.1", "", ""):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        async with asyncio.timeout(GUARD_S):
            assert (await reader.read(-1)).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_the_end_of_the_block_ends_every_connection() -> None:
    async with upstream(echo) as server:
        async with rig() as it:
            tunnels = [await it.tunnel(f"127.0.0.1:{server.port}") for _ in range(5)]
            idle = await it.connect()
            port = it.proxy.port
        for reader, writer in (*tunnels, idle):
            async with asyncio.timeout(GUARD_S):
                try:
                    assert await reader.read(-1) == b""
                except ConnectionResetError:
                    pass
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
