"""A dev server that prints as many numbered lines as it is asked for: /say?first=0&many=1000."""

from __future__ import annotations

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

LINE = "line {:07d} of a server that has a great deal to say of itself\n"
WIDTH = len(LINE.format(0))


class Talker(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/say":
            asked = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
            first, last = asked["first"], asked["first"] + asked["many"]
            for begin in range(first, last, 1000):
                numbers = range(begin, min(begin + 1000, last))
                sys.stdout.write("".join(map(LINE.format, numbers)))
                sys.stdout.flush()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>talker</title>ok")

    def log_message(self, *_: object) -> None:
        """Say nothing beside what was asked for."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Talker).serve_forever()
