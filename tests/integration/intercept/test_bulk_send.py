"""Several sends at once: how many, and all of them at the same moment."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pilothouse.intercept.replay.job import Barrier, BarrierTurn
from pilothouse.intercept.replay.sockets import Sender, SendTarget
from tests.integration.intercept.history_rig import CLOCK
from tests.support.intercepting import GUARD_S, Tap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.intercept.resend_rig import Wire

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@contextmanager
def site() -> Iterator[int]:
    """A server that takes many connections at once; its port."""

    class Answer(socketserver.StreamRequestHandler):
        timeout = GUARD_S

        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(ANSWER)

    class Server(socketserver.ThreadingTCPServer):
        request_queue_size = 200

    with Server(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join()


@pytest.mark.anyio
async def test_nothing_goes_out_before_the_last_is_connected_or_has_failed() -> None:
    barrier = Barrier(3)
    turns = [BarrierTurn(barrier) for _ in range(3)]
    waiting = [asyncio.create_task(turn.wait()) for turn in turns[:2]]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    turns[2].give_up()
    async with asyncio.timeout(GUARD_S):
        await asyncio.gather(*waiting)
    turns[0].give_up()  # one that went out already counts no second time
    assert all(task.done() for task in waiting)


@pytest.mark.anyio
async def test_a_request_waits_on_its_connection_until_it_is_let_go(wire: Wire) -> None:
    sender, may_go = Sender(CLOCK), asyncio.Event()
    held = asyncio.Event()

    async def hold() -> None:
        held.set()
        await may_go.wait()

    target = SendTarget(host="127.0.0.1", port=wire.port)
    request = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"
    sending = asyncio.create_task(sender.http(target, request, b"", hold=hold))
    async with asyncio.timeout(GUARD_S):
        await held.wait()
        assert not any(wire.came)
        may_go.set()
        assert (await sending).error == ""
    assert wire.came == [request]


def test_as_many_are_sent_at_once_as_were_asked_for(tap: Tap) -> None:
    with site() as port:
        tap.get(f"http://127.0.0.1:{port}/race")
        request, _ = tap.both("url == /race && resend == false")
        done = tap.call(
            "bulk_send", packet_ids=[request["id"]], count=40, max_concurrent=40, barrier=True
        )
        assert (done["success"], done["sent_count"]) == (True, 40)
        assert done["performance"]["concurrent_connections"] == 40
        one_at_a_time = tap.call("bulk_send", packet_ids=[request["id"]] * 3, max_concurrent=1)
        assert one_at_a_time["performance"]["concurrent_connections"] == 1


def test_a_send_that_cannot_connect_does_not_hold_the_others(tap: Tap) -> None:
    with site() as gone:
        tap.get(f"http://127.0.0.1:{gone}/gone")
        lost, _ = tap.both("url == /gone")
    with site() as port:
        tap.get(f"http://127.0.0.1:{port}/there")
        found, _ = tap.both("url == /there")
        done = tap.call("bulk_send", packet_ids=[found["id"], lost["id"]], barrier=True)
    assert (done["sent_count"], done["failed_count"]) == (1, 1)


def test_a_barrier_for_more_than_are_sent_at_once_is_refused(tap: Tap) -> None:
    for more in ({"max_concurrent": 2}, {"mode": "sequential"}):
        fault = tap.fault("bulk_send", packet_ids=[1, 1, 1], barrier=True, **more)
        assert (fault["code"], "barrier" in fault["message"]) == (-32602, True)
    assert tap.fault("bulk_send", packet_ids=[1], max_concurrent=101)["code"] == -32602
