"""A request that came in chunks is sent again in the same ones."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.intercepting import GUARD_S, Tap

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECES = (b"one", b"twotwo", b"three")
FRAMED = b"3\r\none\r\n6\r\ntwotwo\r\n5\r\nthree\r\n0\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@contextmanager
def site() -> Iterator[tuple[int, list[bytes]]]:
    """A server that keeps the bytes of each chunked body; its port."""
    came: list[bytes] = []

    class Answer(socketserver.StreamRequestHandler):
        timeout = GUARD_S

        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            body = b""
            while not body.endswith(b"0\r\n\r\n"):
                body += self.rfile.readline()
            came.append(body)
            self.wfile.write(ANSWER)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_address[1], came
        server.shutdown()
        serving.join()


def test_a_chunked_request_is_sent_again_in_its_chunks_unless_they_no_longer_fit(tap: Tap) -> None:
    with site() as (port, came):
        tap.get(f"http://127.0.0.1:{port}/chunks", method="POST", content=iter(PIECES))
        request, _ = tap.both("url == /chunks")
        tap.call("resend_packet", packet_id=request["id"])
        edit = {
            "target": "request",
            "type": "regex_replace",
            "pattern": "twotwo",
            "replacement": "2",
        }
        edited = tap.call("resend_packet", packet_id=request["id"], modifications=[edit])
        # What was sent again has its chunks, too.
        (again,) = tap.packets(
            "url == /chunks && resend == true && modified == false && method == POST",
            fields=["id", "direction"],
            limit=1,
        )
        tap.call("resend_packet", packet_id=again["id"])
    assert edited["success"]
    assert came == [FRAMED, FRAMED, b"9\r\none2three\r\n0\r\n\r\n", FRAMED]
