"""Who gets in by the extension's port: one Origin, one token, in time; no flood changes that."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from pilothouse.bookmarks.extension.admission import MAX_STRANGERS
from pilothouse.bookmarks.extension.keepalive import Timing
from pilothouse.bookmarks.extension.protocol import ORIGIN
from pilothouse.core.secrets.check import MAX_FAILURES
from tests.integration.bookmarks.link_rig import PATIENT, QUICK, Rig, linked
from tests.support.extension_peer import GUARD_S, dialled, extension, hello, say_hello
from tests.support.second_user import needs_root, sent_by_another_user
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"
OTHER_EXTENSION = "chrome-extension://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
FLOOD = 1_000


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with linked(tmp_path) as made:
        yield made


def upgrade(*headers: str) -> bytes:
    """A request as a program may write it, every header a lie of its own."""
    lines = [
        "GET / HTTP/1.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *headers,
    ]
    return "\r\n".join((*lines, "", "")).encode()


async def answered(port: int, request: bytes) -> int:
    """The status of the answer; 0 when there was none."""
    with anyio.fail_after(GUARD_S):
        reader, writer = await asyncio.open_connection(HOST, port)
        try:
            writer.write(request)
            line = await reader.readline()
        except ConnectionError:
            return 0
        finally:
            writer.close()
    return int(line.split()[1]) if line else 0


ORIGINS = {
    "the extension's": ([ORIGIN], True),
    "none": ([], False),
    "empty": ([""], False),
    "null": (["null"], False),
    "another extension's": ([OTHER_EXTENSION], False),
    "a page's on this machine": (["http://localhost:3000"], False),
    "a page's": (["https://evil.test"], False),
    "the id as a host": (["https://ampnaceinapbblmlkfembdggeggofphe"], False),
    "a path behind it": ([ORIGIN + "/"], False),
    "more behind it": ([ORIGIN + ".evil.test"], False),
    "in capitals": ([ORIGIN.upper()], False),
    "two": ([ORIGIN, "https://evil.test"], False),
    "twice": ([ORIGIN, ORIGIN], False),
}
HOSTS = {
    "the address": (["127.0.0.1:{port}"], True),
    "the name": (["localhost:{port}"], True),
    "none": ([], False),
    "a rebound name": (["evil.test:{port}"], False),
    "a name that begins well": (["127.0.0.1.evil.test"], False),
    "another address": (["192.168.0.1:{port}"], False),
    "two": (["127.0.0.1:{port}", "evil.test"], False),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("origin", ORIGINS)
async def test_only_the_extensions_own_origin_on_this_machine_opens_a_socket(
    rig: Rig, origin: str, host: str
) -> None:
    origins, right_origin = ORIGINS[origin]
    hosts, right_host = HOSTS[host]
    headers = [f"Origin: {value}" for value in origins]
    headers += [f"Host: {value.format(port=rig.port)}" for value in hosts]
    status = await answered(rig.port, upgrade(*headers))
    assert (status == 101) is (right_origin and right_host)
    assert status in ((101,) if right_origin and right_host else (400, 403))


@pytest.mark.parametrize("request_", [b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"\r\n"])
async def test_what_is_no_upgrade_is_dropped(rig: Rig, request_: bytes) -> None:
    assert await answered(rig.port, request_ + b"\r\n" * 2) in (0, 400, 403, 426)


async def refused(rig: Rig, first: dict[str, Any] | str | bytes) -> tuple[int, dict[str, Any]]:
    async with dialled(rig.port) as peer:
        answer = await say_hello(peer, first)
        code, _ = await peer.closed()
    error: dict[str, Any] = answer["error"]
    assert error["code"] == code
    assert rig.link.profiles == []
    return code, error


async def test_the_token_lets_in_whoever_has_it(rig: Rig) -> None:
    async with dialled(rig.port) as peer:
        answer = await say_hello(peer, hello(rig.token))
        assert answer["result"] == {"server": "pilothouse 0", "heartbeatSec": 20}
        assert [profile.peer.name for profile in rig.link.profiles] == ["Work"]
        assert rig.states[-1].endswith("connected: Work")
    await until(lambda: rig.states[-1].endswith("connected: no Chrome"))


@pytest.mark.parametrize("token", ["", "WRONG", "0" * 26, "\u0000"])
async def test_a_wrong_token_is_4401_and_the_next_call_says_so(rig: Rig, token: str) -> None:
    code, error = await refused(rig, hello(token))
    assert code == 4401
    assert "pilothouse pair" in error["message"]
    assert "pairing code is wrong" in rig.link.not_connected().message


@pytest.mark.parametrize(
    "first",
    [
        "hello", "[]", "{}", b"\x00\x01", json.dumps(hello("x")).encode(),
        {"jsonrpc": "2.0", "method": "heartbeat"},
        {"jsonrpc": "2.0", "id": 1, "result": "the answer before the question"},
        hello("x", profile="../../etc/passwd"),
    ],
)  # fmt: skip
async def test_whoever_does_not_say_hello_is_4400(rig: Rig, first: Any) -> None:
    code, error = await refused(rig, first)
    assert code == 4400
    assert "hello" in error["message"]


async def test_a_hello_without_end_is_not_even_read(rig: Rig) -> None:
    async with dialled(rig.port) as peer:
        with suppress(ConnectionClosed):
            await peer.send("x" * 1_000_000)
        code, _ = await peer.closed()
    assert code == 1009


async def test_a_socket_that_says_nothing_is_closed(tmp_path: Path) -> None:
    async with linked(tmp_path, timing=QUICK) as rig, dialled(rig.port) as peer:
        assert (await peer.closed())[0] == 4400


@pytest.mark.parametrize("begun", [b"", b"GET / HT"])
async def test_a_connection_without_a_request_is_closed(tmp_path: Path, begun: bytes) -> None:
    async with linked(tmp_path, timing=QUICK) as rig:
        assert await answered(rig.port, begun) == 0


async def test_the_usual_patience_leaves_room_to_close_within_five_seconds() -> None:
    from pilothouse.bookmarks.extension.keepalive import USUAL

    assert USUAL.hello_s + USUAL.close_s <= 5
    assert (USUAL.heartbeat_s, USUAL.silence_s, USUAL.answer_s) == (20, 45, 30)


async def test_after_ten_wrong_tokens_nobody_new_is_looked_at_but_who_was_in_comes_back(
    rig: Rig,
) -> None:
    async with extension(rig.port, rig.token, profile="known"):
        pass
    await until(lambda: not rig.link.profiles)
    for number in range(MAX_FAILURES):
        code, _ = await refused(rig, hello("WRONG", profile=f"stranger-{number}"))
        assert code == 4401
    for token in ("WRONG", rig.token):
        code, error = await refused(rig, hello(token, profile="new"))
        assert code == 4429
        assert 0 < error["data"]["retryAfterSec"] <= 60
    async with extension(rig.port, rig.token, profile="known"):
        assert len(rig.link.profiles) == 1


async def test_a_new_code_ends_what_the_old_one_opened(tmp_path: Path) -> None:
    async with linked(tmp_path, timing=Timing(heartbeat_s=0.1)) as rig, dialled(rig.port) as peer:
        await say_hello(peer, hello(rig.token))
        rig.secret.renew()
        assert (await peer.closed())[0] == 4401
        await until(lambda: not rig.link.profiles)


async def test_silent_strangers_make_room_for_each_other_and_the_extension_gets_in(
    rig: Rig,
) -> None:
    async with AsyncExitStack() as stack:
        sockets = []
        for _ in range(3 * MAX_STRANGERS):
            reader, writer = await asyncio.open_connection(HOST, rig.port)
            stack.callback(writer.close)
            sockets.append(reader)
        with anyio.fail_after(GUARD_S):
            for reader in sockets[:MAX_STRANGERS]:
                with suppress(ConnectionError):
                    assert await reader.read() == b"", "dropped, long before its time"
        async with extension(rig.port, rig.token):
            assert await rig.link.profiles[0].peer.ask("getTree") == {
                "method": "getTree",
                "params": {},
            }


async def test_a_flood_of_foreign_connections_leaves_the_live_one_working(rig: Rig) -> None:
    foreign = upgrade("Origin: https://evil.test", "Host: 127.0.0.1")
    guessing = upgrade(f"Origin: {ORIGIN}", "Host: 127.0.0.1")
    statuses: list[int] = []
    done = 0

    async def flood(number: int) -> None:
        request = (foreign, guessing, b"")[number % 3]
        if request:
            statuses.append(await answered(rig.port, request))
        else:
            _, writer = await asyncio.open_connection(HOST, rig.port)
            writer.close()

    async with extension(rig.port, rig.token):
        peer = rig.link.profiles[0].peer
        async with asyncio.TaskGroup() as tasks:
            for start in range(0, FLOOD, 50):
                batch = [tasks.create_task(flood(start + at)) for at in range(50)]
                while not all(task.done() for task in batch):
                    answer = await peer.ask("get", {"ids": [str(done)]})
                    assert answer["params"] == {"ids": [str(done)]}
                    done += 1
        assert rig.link.profiles[0].peer is peer
    assert done >= FLOOD / 50
    assert statuses.count(403) >= FLOOD // 3
    assert PATIENT.hello_s > 5, "what was refused was not refused for being late"


@needs_root
async def test_another_user_is_refused_unless_all_local_users_may_come(tmp_path: Path) -> None:
    asks = upgrade("Host: 127.0.0.1", f"Origin: {ORIGIN}")
    async with linked(tmp_path) as own:
        answer = await asyncio.to_thread(sent_by_another_user, own.port, asks)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"--local-users all" in answer
        assert await answered(own.port, asks) == 101
    async with linked(tmp_path, own_user_only=False, timing=QUICK) as everybody:
        answer = await asyncio.to_thread(sent_by_another_user, everybody.port, asks)
        assert answer.startswith(b"HTTP/1.1 101 ")
