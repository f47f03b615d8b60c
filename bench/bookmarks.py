"""The stage of the bookmark rows: a Chromium with the extension, connected to Pilothouse.

What Chrome itself needs is measured where the extension makes its calls: in its worker.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.peers import PILOTHOUSE, PeerUnavailable, open_workshop
from bench.wire import StdioServer
from pilothouse.machine.chromium.finder import find_browser
from tests.support.bookmark_chrome import BAR, BookmarkChrome, pairing_code
from tests.support.ports import free_port

IN_THE_EXTENSION = "in the extension"

TIMED = """
(async (samples, calls, call) => {
  const took = [];
  for (let n = 0; n < samples; n++) {
    const began = performance.now();
    for (let m = 0; m < calls; m++) await call();
    took.push((performance.now() - began) / calls);
  }
  return took;
})
"""


@dataclass(frozen=True)
class Desk:
    """Pilothouse on stdio with a Chrome that is connected to it."""

    server: StdioServer
    chrome: BookmarkChrome

    def inside(self, call: str, samples: int, calls: int = 1) -> list[float]:
        """Milliseconds of a call of chrome.bookmarks that the extension's worker makes.

        A worker's clock ticks ten times a millisecond, so that of quick calls several are timed
        together.
        """
        script = f"{TIMED}({samples}, {calls}, () => chrome.bookmarks.{call})"
        took: list[float] = self.chrome.evaluate(self.chrome.worker, script)
        return took

    def make(self, **details: str) -> str:
        """A bookmark; its id."""
        return str(self.chrome.by_hand("create", details)["id"])


@contextmanager
def open_desk() -> Iterator[Desk]:
    if find_browser(os.environ) is None:
        raise PeerUnavailable("no Chrome, Chromium or Edge is installed: run `make setup`")
    port = free_port()
    with (
        # A hub of its own: the port is that of the hub, not of one client.
        open_workshop() as workshop,
        workshop.start(PILOTHOUSE, "--profile", "full", "--bookmarks-port", str(port)) as server,
        BookmarkChrome(name="Bench") as chrome,
    ):
        server.handshake()
        # A first call binds the port; no Chrome is connected yet.
        server.request("tools/call", {"name": "bookmark_get", "arguments": {"id": BAR}})
        chrome.settle(port, pairing_code({"PILOTHOUSE_HOME": str(workshop.home)}))
        chrome.until("connected")
        yield Desk(server, chrome)
