"""Rules, mocks and breakpoints on real traffic."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import websockets

from pilothouse.core.declare.faults import InvalidInput
from tests.support.engine_rig import GUARD_S, Rig, running_engine
from tests.support.ports import free_port
from tests.support.until import until
from tests.support.upstreams import (
    Authority,
    Upstream,
    content_of,
    http_upstream,
    tcp_upstream,
    websocket_upstream,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

HOLD_S = 3.0
"""Instead of half a minute."""


@pytest.fixture(scope="module")
async def rig(
    tmp_path_factory: pytest.TempPathFactory, upstream_ca: Authority
) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("engine")
    options = ("--upstream-ca", str(upstream_ca.ca_file), "--hold-s", str(HOLD_S))
    async with running_engine(folder, *options) as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with http_upstream() as running:
        yield running


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[httpx.AsyncClient]:
    """Through a session's proxy, without any rule at first."""
    await rig.listen()
    port = await rig.session()
    async with rig.client(port) as made:
        yield made
    await rig.ask("end_session", session="s1")


async def test_rule_changes_the_request_and_the_original_is_kept(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.listen(
        edits=[{"pattern": "colour=red", "replaced": "colour=blue", "direction": "CLIENT_REQUEST"}]
    )
    answer = await client.post(f"http://{server.address}/echo", content="colour=red and more")
    request, _ = await rig.pair("/echo")
    assert answer.json()["length"] == len("colour=blue and more")
    assert request["modified"] == 1
    assert request["body"] == b"colour=blue and more"
    assert request["original_body"] == b"colour=red and more"
    assert b"content-length: 20" in request["head"].lower()


async def test_rule_sees_a_gzipped_response_decoded_and_it_stays_gzipped(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.listen(
        edits=[{"pattern": "secret", "replaced": "public", "direction": "SERVER_RESPONSE"}]
    )
    answer = await client.get(f"http://{server.address}/gzip")
    _, response = await rig.pair("/gzip")
    assert answer.text == "a public word" * 20
    assert answer.headers["content-encoding"] == "gzip"
    assert response["modified"] == 1


async def test_rules_change_messages_of_tcp_and_websocket_connections(rig: Rig) -> None:
    port = free_port()
    edit = {"pattern": "red", "replaced": "blue", "direction": "CLIENT_REQUEST"}
    async with tcp_upstream() as tcp, websocket_upstream() as sockets:
        await rig.listen(
            listen=[{"port": port, "type": "FORWARDER", "server_id": 1}],
            servers=[{"port": tcp.port, "encoder": "Sample"}],
            edits=[edit],
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"a red word")
        assert await asyncio.wait_for(reader.readexactly(11), GUARD_S) == b"a blue word"
        writer.close()
        proxy = f"http://127.0.0.1:{await rig.session('talking')}"
        async with websockets.connect(f"ws://localhost:{sockets.port}/", proxy=proxy) as connected:
            await connected.send("red")
            assert await connected.recv() == "echo:blue"
    changed = [row for row in await rig.packets() if row["modified"] and row["type"] != "HTTP"]
    assert {(row["type"], row["body"], row["original_body"]) for row in changed} == {
        ("TCP", b"a blue word", b"a red word"),
        ("WebSocket", b"blue", b"red"),
    }


async def test_rule_that_leaves_nothing_drops_the_request(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.listen(
        edits=[
            {
                "method": "REGEX",
                "pattern": r"(?s)\A.*\z",
                "replaced": "",
                "direction": "CLIENT_REQUEST",
            }
        ]
    )
    with pytest.raises(httpx.HTTPError):
        await client.get(f"http://{server.address}/dropped")
    assert server.heads == []


async def test_large_body_passes_a_rule_by_and_the_log_says_so(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    size = 3 << 20
    await rig.listen(edits=[{"pattern": "\x00\x01", "replaced": "xx"}])
    for kind in ("bytes", "chunked"):
        answer = await client.get(f"http://{server.address}/{kind}/{size}")
        assert answer.content == content_of(size)
        _, response = await rig.pair(f"/{kind}/{size}")
        assert (response["body_length"], response["modified"]) == (size, 0)
    await rig.event(
        lambda event: event["event"] == "log" and f"/chunked/{size}" in event["message"]
    )


async def test_mock_answers_in_place_of_a_server_that_does_not_exist(
    rig: Rig, client: httpx.AsyncClient
) -> None:
    rule = {"url": "/api/cart", "status": 418, "body": "{}", "headers": {"X-Mock": "1"}}
    await rig.ask("mocks", session="s1", rules=[rule])
    for scheme in ("http", "https"):
        answer = await client.get(f"{scheme}://shop.invalid/api/cart?{scheme}")
        assert (answer.status_code, answer.text, answer.headers["x-mock"]) == (418, "{}", "1")
        _, response = await rig.pair(f"/api/cart?{scheme}")
        assert response["status"] == 418
    shown = await rig.ask("mocks", session="s1")
    assert shown == [{**rule, "used": 2}]


async def test_mock_is_used_only_so_often_and_only_for_its_method(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    rule = {"url": "/hello", "method": "get", "body": "mocked", "times": 1}
    await rig.ask("mocks", session="s1", rules=[rule])
    url = f"http://{server.address}/hello"
    answers = [(await client.request(method, url)).text for method in ("POST", "GET", "GET")]
    assert answers == ["hello, world", "mocked", "hello, world"]


async def test_mock_of_another_session_does_not_answer(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.ask("mocks", session="other", rules=[{"url": "/hello", "body": "mocked"}])
    assert (await client.get(f"http://{server.address}/hello")).text == "hello, world"
    await rig.ask("end_session", session="other")


async def test_bad_pattern_is_refused_and_the_old_rules_stay(
    rig: Rig, client: httpx.AsyncClient
) -> None:
    await rig.ask("mocks", session="s1", rules=[{"url": "/kept"}])
    with pytest.raises(InvalidInput, match=r"mocks\[0\]\.url"):
        await rig.ask("mocks", session="s1", rules=[{"url": "("}])
    assert [rule["url"] for rule in await rig.ask("mocks", session="s1")] == ["/kept"]


async def held(rig: Rig, side: str) -> dict[str, Any]:
    """What is held, once it is."""

    async def found() -> dict[str, Any] | None:
        for one in await rig.ask("held", session="s1"):
            if one["side"] == side:
                return dict(one)
        return None

    return await until(found)


def b64(data: bytes) -> str:
    return b64encode(data).decode()


async def test_held_request_goes_on_edited(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.ask("breakpoints", session="s1", rules=[{"url": "/pay"}])
    url = f"http://{server.address}/pay"
    asking = asyncio.create_task(client.post(url, content="amount=1"))
    waiting = await held(rig, "request")
    assert b64decode(waiting["body"]) == b"amount=1"
    head = b64decode(waiting["head"]).replace(b"POST /pay", b"PUT /pay?edited")
    done = await rig.ask(
        "decide",
        held_id=waiting["held_id"],
        action="forward",
        edit={"head": b64(head), "body": b64(b"amount=1000")},
    )
    assert done["edited"] is True
    answer = (await asking).json()
    assert (answer["method"], answer["path"], answer["length"]) == ("PUT", "/pay?edited", 11)
    request, _ = await rig.pair("/pay?edited")
    assert (request["modified"], request["original_body"]) == (1, b"amount=1")


async def test_held_response_goes_on_edited(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.ask("breakpoints", session="s1", rules=[{"url": "/hello", "on": "response"}])
    asking = asyncio.create_task(client.get(f"http://{server.address}/hello"))
    waiting = await held(rig, "response")
    head = b64(b"HTTP/1.1 404 Gone Fishing\nX-Edited: yes")
    edit = {"head": head, "body": b64(b"nothing")}
    await rig.ask("decide", held_id=waiting["held_id"], action="forward", edit=edit)
    answer = await asking
    assert (answer.status_code, answer.text, answer.headers["x-edited"]) == (404, "nothing", "yes")


async def test_held_request_is_dropped(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.ask("breakpoints", session="s1", rules=[{"url": "/pay"}])
    asking = asyncio.create_task(client.get(f"http://{server.address}/pay"))
    waiting = await held(rig, "request")
    await rig.ask("decide", held_id=waiting["held_id"], action="drop")
    with pytest.raises(httpx.HTTPError):
        await asking
    assert server.heads == []
    with pytest.raises(InvalidInput, match="nothing is held"):
        await rig.ask("decide", held_id=waiting["held_id"], action="drop")


async def test_held_request_that_nobody_decides_on_goes_on_by_itself(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.ask("breakpoints", session="s1", rules=[{"url": "/hello"}])
    loop = asyncio.get_running_loop()
    start = loop.time()
    answer = await client.get(f"http://{server.address}/hello")
    assert answer.text == "hello, world"
    assert loop.time() - start >= HOLD_S
    assert await rig.ask("held") == []


async def test_what_a_session_holds_goes_on_when_it_ends(
    rig: Rig, server: Upstream, client: httpx.AsyncClient
) -> None:
    await rig.ask("breakpoints", session="s1", rules=[{"url": "/hello"}])
    asking = asyncio.create_task(client.get(f"http://{server.address}/hello"))
    await held(rig, "request")
    await rig.ask("end_session", session="s1")
    assert (await asking).text == "hello, world"
    assert await rig.ask("held") == []
