"""What is recorded of a WebSocket besides its messages: pings, pongs and how it was closed."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import ServerConnection, serve

from tests.support.har_schema import check_archive
from tests.support.intercepting import GUARD_S, Tap
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """A server that sends messages back and closes as it is told: `close 4001 why`."""

    def answer(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            for message in socket:
                if isinstance(message, str) and message.startswith("close "):
                    _, code, reason = message.split(" ", 2)
                    socket.close(int(code), reason)
                elif message == "drop":
                    socket.socket.shutdown(SHUT_RDWR)
                else:
                    socket.send(message)

    with serve(answer, "127.0.0.1", 0, ping_interval=None) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        serving.join()


@contextmanager
def socket_through(tap: Tap, url: str) -> Iterator[ClientConnection]:
    proxy = f"http://127.0.0.1:{tap.port}"
    with connect(url, proxy=proxy, ping_interval=None, open_timeout=GUARD_S) as socket:
        yield socket


def rows(tap: Tap, path: str, *, upto: str) -> list[dict[str, Any]]:
    """The rows of a socket without its handshake, once one of that method is there."""

    def found() -> list[dict[str, Any]] | None:
        fields = ["id", "method", "direction", "error"]
        packets = tap.packets(f"url == {path} && type == WebSocket", fields=fields)
        return packets if upto in [packet["method"] for packet in packets] else None

    return wait_until(found, f"a {upto} of {path}")


def body(tap: Tap, row: dict[str, Any]) -> str:
    detail = tap.call("get_packet_detail", packet_id=row["id"], include_body=True)
    return str(detail["body"][row["direction"]])


def test_pings_and_pongs_are_rows_of_their_own(tap: Tap, site: str) -> None:
    with socket_through(tap, f"{site}/pings") as socket:
        assert socket.ping("are you there").wait(GUARD_S)
        seen = rows(tap, "/pings", upto="PONG")
    assert [(row["method"], row["direction"]) for row in seen] == [
        ("PING", "request"),
        ("PONG", "response"),
    ]
    assert [body(tap, row) for row in seen] == ["are you there"] * 2


def test_the_code_and_the_reason_of_a_close_are_kept(tap: Tap, site: str) -> None:
    with socket_through(tap, f"{site}/closed-by-server") as socket:
        socket.send("close 4001 sold out")
        closed = rows(tap, "/closed-by-server", upto="CLOSE")[-1]
    assert (closed["direction"], body(tap, closed)) == ("response", "4001 sold out")
    assert closed["error"] == "the server closed the WebSocket with 4001: sold out"
    with socket_through(tap, f"{site}/closed-by-client") as socket:
        socket.close(1000, "bye")
    closed = rows(tap, "/closed-by-client", upto="CLOSE")[-1]
    assert (closed["direction"], body(tap, closed), closed["error"]) == ("request", "1000 bye", "")
    assert tap.packets("type == WebSocket && full_text == 4001")


def test_an_end_without_a_close_is_1006(tap: Tap, site: str) -> None:
    with socket_through(tap, f"{site}/dropped") as socket:
        socket.send("drop")
        closed = rows(tap, "/dropped", upto="CLOSE")[-1]
    assert (closed["direction"], body(tap, closed)) == ("response", "1006")
    assert closed["error"] == "the server ended the WebSocket without closing it (1006)"


def test_what_is_no_message_is_not_sent_again_as_one(tap: Tap, site: str) -> None:
    with socket_through(tap, f"{site}/again") as socket:
        assert socket.ping("x").wait(GUARD_S)
        ping = rows(tap, "/again", upto="PONG")[0]
        fault = tap.fault("resend_packet", packet_id=ping["id"])
    assert (fault["code"], "a PING is no message" in fault["message"]) == (-32602, True)


def test_all_of_a_socket_is_one_entry_of_a_har_and_counted_as_one(tap: Tap, site: str) -> None:
    with socket_through(tap, f"{site}/har") as socket:
        socket.send("hi")
        assert socket.recv(GUARD_S) == "hi"
        assert socket.ping("p").wait(GUARD_S)
        socket.close(1000, "bye")
    rows(tap, "/har", upto="CLOSE")
    har = tap.call("export_har", filter="url == /har")
    (entry,) = har["har"]["log"]["entries"]
    assert har["entries"] == 1
    check_archive(har["har"])
    frames = [(frame["opcode"], frame["data"]) for frame in entry["_webSocketMessages"]]
    assert frames == [(1, "hi"), (1, "hi"), (9, "p"), (10, "p"), (8, "1000 bye")]
