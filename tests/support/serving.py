"""HTTP servers of the standard library, in a thread of the test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import HTTPServer


@contextmanager
def serving[S: HTTPServer](server: S) -> Iterator[S]:
    """Serve until the block ends."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
