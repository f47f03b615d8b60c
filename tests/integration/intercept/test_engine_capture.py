"""Real clients through the real proxy: what they get, what servers see, what is recorded."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from typing import TYPE_CHECKING, Any

import pytest
import websockets

from pilothouse.core.declare.faults import InvalidInput
from tests.support.engine_rig import GUARD_S, Rig
from tests.support.until import until
from tests.support.upstreams import (
    Authority,
    authority,
    content_of,
    h2_upstream,
    http_upstream,
    websocket_upstream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@pytest.fixture(scope="module")
async def port(rig: Rig) -> int:
    return await rig.session("browser")


async def test_plain_exchange_is_recorded_as_its_bytes_were(rig: Rig, port: int) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        url = f"http://{server.address}/hello"
        answer = await client.get(url, headers=[("X-Twice", "a"), ("X-Twice", "B")])
        request, response = await rig.pair("/hello")
    assert answer.text == "hello, world"
    assert request["head"].startswith(b"GET /hello HTTP/1.1\r\n")
    assert b"X-Twice: a\r\nX-Twice: B\r\n" in request["head"]
    assert request["head"].endswith(b"\r\n\r\n")
    assert b"X-Two: one\r\nX-Two: two\r\n" in response["head"]
    assert response["body"] == b"hello, world"
    assert response["length"] == len(response["head"]) + 12
    told = {name: response[name] for name in ("method", "url", "status", "type", "scheme")}
    assert told == {
        "method": "GET",
        "url": "/hello",
        "status": 200,
        "type": "HTTP",
        "scheme": "http",
    }
    assert (response["server_ip"], response["server_port"]) == ("127.0.0.1", server.port)
    assert response["duration_ms"] > 0


async def test_session_traffic_carries_the_joining_key_and_a_forged_one_is_stripped(
    rig: Rig, port: int
) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        answer = await client.get(
            f"http://{server.address}/echo", headers={"x-pilothouse-exchange": "forged"}
        )
        request, _ = await rig.pair("/echo")
    key = answer.headers["x-pilothouse-exchange"]
    assert answer.json()["headers"]["x-pilothouse-exchange"] == key == request["key"]
    assert request["session"] == "browser"
    assert b"pilothouse" not in request["head"]


async def test_tls_exchange_is_decrypted_under_our_authority(
    rig: Rig, port: int, upstream_ca: Authority
) -> None:
    async with http_upstream(upstream_ca.context()) as server, rig.client(port) as client:
        answer = await client.get(f"https://localhost:{server.port}/bytes/1024")
        request, response = await rig.pair("/bytes/1024")
    assert answer.content == content_of(1024)
    assert (request["scheme"], request["server_name"]) == ("https", "localhost")
    assert response["body"] == content_of(1024)


async def test_client_that_does_not_trust_us_leaves_a_word_in_the_log(
    rig: Rig, port: int, upstream_ca: Authority
) -> None:
    async with http_upstream(upstream_ca.context()) as server:
        process = await asyncio.create_subprocess_exec(
            "curl",
            "-s",
            "-x",
            f"http://127.0.0.1:{port}",
            f"https://localhost:{server.port}/",
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await process.wait() == 60  # it does not trust the certificate
        await rig.event(
            lambda event: event["event"] == "log" and "did not accept" in event["message"]
        )


async def test_http2_stays_http2_on_both_sides(rig: Rig, port: int, upstream_ca: Authority) -> None:
    async with (
        h2_upstream(upstream_ca.context("h2")) as server,
        rig.client(port, http2=True) as client,
    ):
        answer = await client.get(f"https://localhost:{server.port}/two?a=1")
        request, response = await rig.pair("/two?a=1")
    assert (answer.http_version, answer.text) == ("HTTP/2", "h2:/two?a=1")
    assert request["head"].startswith(
        f"GET /two?a=1 HTTP/2.0\r\nhost: localhost:{server.port}\r\n".encode()
    )
    assert response["head"].startswith(b"HTTP/2.0 200")
    assert (request["alpn"], request["version"]) == ("h2", "HTTP/2.0")


async def test_gzipped_body_is_kept_as_it_was_transferred(rig: Rig, port: int) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        answer = await client.get(f"http://{server.address}/gzip")
        _, response = await rig.pair("/gzip")
    assert answer.text.startswith("a secret word")
    assert gzip.decompress(response["body"]) == answer.content


@pytest.mark.parametrize("kind", ["bytes", "chunked"])
async def test_large_response_arrives_whole_and_its_first_part_is_kept(
    rig: Rig, port: int, kind: str
) -> None:
    size = 5 * MIB + 17
    async with http_upstream() as server, rig.client(port) as client:
        answer = await client.get(f"http://{server.address}/{kind}/{size}")
        _, response = await rig.pair(f"/{kind}/{size}")
    assert answer.content == content_of(size)
    assert response["body"] == content_of(MIB)
    assert response["body_length"] == size
    assert response["length"] == len(response["head"]) + size


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_upload_arrives_whole_and_its_first_part_is_kept(
    rig: Rig, port: int, chunked: bool
) -> None:
    body = content_of(3 * MIB + 5)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 50_000):
            yield body[at : at + 50_000]

    path = f"/digest?chunked={chunked}"
    async with http_upstream() as server, rig.client(port) as client:
        sent = pieces() if chunked else body
        answer = await client.post(f"http://{server.address}{path}", content=sent)
        request, _ = await rig.pair(path)
    assert answer.json()["sha256"] == hashlib.sha256(body).hexdigest()
    assert request["body"] == body[:MIB]
    assert request["body_length"] == len(body)


async def test_stream_of_events_is_in_the_history_while_it_goes_on(rig: Rig, port: int) -> None:
    async def rows() -> list[tuple[str, str | None, int | None, bytes]]:
        return [
            (row["type"], row["method"], row["status"], row["body"])
            for row in await rig.packets()
            if row["server_port"] == server.port
        ]

    async def is_over() -> bool:
        request = next(row for row in await rig.packets() if row["server_port"] == server.port)
        return request["duration_ms"] is not None

    so_far = [
        ("SSE", "GET", 200, b""),
        ("SSE", "GET", 200, b""),
        ("SSE", None, None, b"data: first\n\n"),
    ]
    async with http_upstream() as server, rig.client(port) as client:
        async with client.stream("GET", f"http://{server.address}/sse") as answer:
            lines = answer.aiter_lines()
            async with asyncio.timeout(GUARD_S):
                assert await anext(lines) == "data: first"
                assert await rows() == so_far
                server.go_on.set()
                assert [line async for line in lines if line] == ["data: second"]
        await until(is_over)
        found = [row for row in await rig.packets() if row["server_port"] == server.port]
    assert await rows() == [*so_far, ("SSE", None, None, b"data: second\n\n")]
    assert found[1]["head"].startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream")
    assert len({row["connection"] for row in found}) == len({row["key"] for row in found}) == 1


async def test_grpc_message_arrives_while_the_call_goes_on(
    rig: Rig, port: int, upstream_ca: Authority
) -> None:
    async with (
        h2_upstream(upstream_ca.context("h2")) as server,
        rig.client(port, http2=True) as client,
        client.stream(
            "POST",
            f"https://localhost:{server.port}/grpc",
            headers={"content-type": "application/grpc+proto"},
            content=b"\0\0\0\0\2hi",
        ) as answer,
    ):
        pieces = answer.aiter_raw()
        async with asyncio.timeout(GUARD_S):
            assert await anext(pieces) == b"first"
            server.go_on.set()
            assert b"".join([piece async for piece in pieces]) == b"second"
    request, response = await rig.pair("/grpc")
    assert (request["type"], request["body"]) == ("gRPC", b"\0\0\0\0\2hi")
    assert response["body"] == b"firstsecond"
    assert response["trailers"] == b"grpc-status: 0\r\n"


async def test_recorded_request_is_sent_again_by_the_engine(rig: Rig, port: int) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        await client.post(f"http://{server.address}/again", content=b"once")
        request, _ = await rig.pair("/again")
        done = await rig.ask("resend", plan={"packet_id": request["id"], "count": 2})
        rows = [row for row in await rig.packets() if row["url"] == "/again" and row["resend"]]
    assert done["sent_count"] == 2
    assert len(server.heads) == 3
    assert [bytes(row["body"]) for row in rows if not row["is_response"]] == [b"once", b"once"]
    status = await rig.ask("job", job_id=done["job_id"])
    assert [job["job_id"] for job in await rig.ask("jobs")].count(status["job_id"]) == 1


async def test_event_of_a_stream_cannot_be_sent_again_and_is_told_why(rig: Rig, port: int) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        server.go_on.set()
        await client.get(f"http://{server.address}/sse")
        event = [row for row in await rig.packets() if row["body"].startswith(b"data: ")][-1]
        with pytest.raises(InvalidInput, match="send the request of its stream again"):
            await rig.ask("resend", plan={"packet_id": event["id"]})


async def test_request_without_an_answer_yet_is_in_the_history(rig: Rig, port: int) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        asking = asyncio.create_task(client.get(f"http://{server.address}/slow"))
        await rig.event(
            lambda event: (
                event["event"] == "recorded"
                and any(row["url"] == "/slow" and row["status"] is None for row in event["rows"])
            )
        )
        server.go_on.set()
        assert (await asking).status_code == 200
        request, response = await rig.pair("/slow")
    assert request["group_id"] == response["group_id"] == request["id"]
    assert request["status"] == 200


async def test_server_that_is_not_there_leaves_the_reason(rig: Rig, port: int) -> None:
    async with http_upstream() as server:
        gone = server.port
    async with rig.client(port) as client:
        answer = await client.get(f"http://127.0.0.1:{gone}/nobody")
    rows = [row for row in await rig.packets() if row["url"] == "/nobody"]
    assert answer.status_code == 502
    assert "refused" in rows[0]["error"].lower() or "connect" in rows[0]["error"].lower()


@pytest.mark.parametrize("tls", [False, True])
async def test_websocket_messages_are_rows_of_one_connection(
    rig: Rig, port: int, upstream_ca: Authority, tls: bool
) -> None:
    async with websocket_upstream(upstream_ca.context() if tls else None) as server:
        scheme = "wss" if tls else "ws"
        async with websockets.connect(
            f"{scheme}://localhost:{server.port}/chat-{scheme}",
            proxy=f"http://127.0.0.1:{port}",
            ssl=rig.trust() if tls else None,
        ) as socket:
            await socket.send("hi")
            assert await socket.recv() == "echo:hi"
            await socket.send(b"\x00\xff")
            assert await socket.recv() == b"\x00\xff"

    async def closed() -> list[dict[str, Any]] | None:
        rows = [row for row in await rig.packets() if row["url"] == f"/chat-{scheme}"]
        return rows if rows[-1]["method"] == "CLOSE" else None

    rows = await until(closed)
    upgrade, messages = rows[:2], rows[2:]
    assert [row["status"] for row in upgrade] == [101, 101]
    assert [(row["is_response"], row["method"], row["body"]) for row in messages] == [
        (0, "TEXT", b"hi"),
        (1, "TEXT", b"echo:hi"),
        (0, "BINARY", b"\x00\xff"),
        (1, "BINARY", b"\x00\xff"),
        (0, "CLOSE", b"1000"),
    ]
    assert {row["type"] for row in messages} == {"WebSocket"}
    assert len({row["connection"] for row in rows}) == 1
    assert {row["scheme"] for row in messages} == {scheme}


async def test_message_put_into_a_live_websocket_reaches_the_server(rig: Rig, port: int) -> None:
    async with (
        websocket_upstream() as server,
        websockets.connect(
            f"ws://localhost:{server.port}/put-in", proxy=f"http://127.0.0.1:{port}"
        ) as socket,
    ):
        await socket.send("mine")
        await socket.recv()
        rows = [row for row in await rig.packets() if row["url"] == "/put-in"]
        await rig.ask(
            "inject", connection=rows[-1]["connection"], to_client=False, payload_b64="eW91cnM="
        )
        assert await asyncio.wait_for(socket.recv(), GUARD_S) == "echo:yours"
    rows = [row for row in await rig.packets() if row["url"] == "/put-in"]
    assert [row["body"] for row in rows if row["resend"]] == [b"yours"]


async def test_websocket_message_is_sent_again_as_what_it_was(rig: Rig, port: int) -> None:
    long = "ä" * 5_000
    async with (
        websocket_upstream() as server,
        websockets.connect(
            f"ws://localhost:{server.port}/kinds", proxy=f"http://127.0.0.1:{port}"
        ) as socket,
    ):
        for message in (b"readable", "text", long):
            await socket.send(message)
            await socket.recv()
        sent = [
            row["id"]
            for row in await rig.packets()
            if row["url"] == "/kinds" and row["type"] == "WebSocket" and not row["is_response"]
        ]
        came = []
        for packet_id in sent:
            await rig.ask("resend", plan={"packet_id": packet_id})
            came.append(await asyncio.wait_for(socket.recv(), GUARD_S))
    assert came == [b"readable", "echo:text", f"echo:{long}"]
    rows = [row for row in await rig.packets() if row["url"] == "/kinds" and row["resend"]]
    assert [(row["method"], row["body"]) for row in rows] == [
        ("BINARY", b"readable"),
        ("TEXT", b"text"),
        ("TEXT", long.encode()),
    ]


async def test_each_packet_is_told_once(rig: Rig, port: int) -> None:
    async with http_upstream() as server, rig.client(port) as client:
        for number in range(20):
            await client.get(f"http://{server.address}/bytes/{number}")
    await rig.packets()
    told = [row["id"] for event in rig.events for row in event.get("rows", ())]
    recorded = {row["id"] for row in await rig.packets()}
    assert len(told) == len(set(told))
    assert recorded == set(told)


async def test_untrusted_upstream_is_refused_with_a_reason(
    rig: Rig, port: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = authority(tmp_path_factory.mktemp("stranger"))
    async with http_upstream(stranger.context()) as server, rig.client(port) as client:
        answer = await client.get(f"https://localhost:{server.port}/secret")
    assert answer.status_code == 502
    assert "certificate verify failed" in answer.text.lower()
    assert "PILOTHOUSE_UPSTREAM_CA=FILE" in answer.text
    (request,) = [row for row in await rig.packets() if row["url"] == "/secret"]
    assert "PILOTHOUSE_UPSTREAM_CA=FILE" in request["error"]


async def test_stream_that_the_server_resets_is_not_said_to_be_the_clients_doing(
    rig: Rig, port: int, upstream_ca: Authority
) -> None:
    async with (
        h2_upstream(upstream_ca.context("h2")) as server,
        rig.client(port, http2=True) as client,
    ):
        answer = await client.get(f"https://localhost:{server.port}/reset")
    assert (answer.status_code, "reset by server" in answer.text) == (502, True)
    (request,) = [row for row in await rig.packets() if row["url"] == "/reset"]
    assert request["error"].startswith("stream reset by server")
