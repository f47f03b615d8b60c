"""The stage of the observer's rows: a Chromium, the test site, and Pilothouse watching a tab.

The site runs in a process of its own: it must not share an interpreter with whoever measures.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.peers import BARE_WEBSOCKET, PILOTHOUSE, PeerUnavailable, Workshop, command
from bench.wire import Json, StdioServer, WireError
from pilothouse.machine.chromium.finder import find_browser
from tests.support.chromium import Chromium, Debugger

ROOT = Path(__file__).resolve().parents[1]
RING = 10_000
"""Events that an observation keeps by default."""
POLL_S = 0.02
GUARD_S = 180
"""Against hanging, not a measurement."""

NEEDLE = "needle in the haystack"
ROUNDS_PER_LAP = 55
"""Rounds of the page /mix that make about a thousand events."""


@dataclass(frozen=True)
class Stage:
    """A browser with the test site in its reach."""

    chromium: Chromium
    site_port: int

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.site_port}{path}"

    @contextmanager
    def tab(self, path: str, title: str) -> Iterator[str]:
        """A fresh tab, once its page has taken that title; its target id."""
        target = self.chromium.open(self.url(path))
        self.chromium.wait_for_title(target, title)
        yield target
        self.chromium.close_tab(target)

    def visit(self, target: str, url: str, title: str = "done") -> None:
        """Take a tab elsewhere and wait for the title that the page has at its end."""
        with self.chromium.debugger(target) as page:
            page.evaluate("document.title = ''")  # else the page before could have it already
            page.send("Page.navigate", url=url)
        self.chromium.wait_for_title(target, title)

    def target_of(self, url: str) -> str:
        """The only tab at that address."""
        (target,) = (found for found in self.chromium.targets() if found["url"] == url)
        return str(target["id"])


@contextmanager
def open_stage() -> Iterator[Stage]:
    if find_browser(os.environ) is None:
        raise PeerUnavailable("no Chrome, Chromium or Edge is installed: run `make setup`")
    site = subprocess.Popen(
        [sys.executable, "-m", "tests.support.site"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    # Leaving the block closes its stdin, and with that it ends.
    with site, Chromium() as chromium:
        assert site.stdout is not None
        yield Stage(chromium, int(site.stdout.readline()))


class Watch:
    """Pilothouse observing one tab, asked over the wire as an agent does."""

    def __init__(self, server: StdioServer, target: str) -> None:
        self.server = server
        self.target = target

    def read(self, **arguments: Any) -> Json:
        return self.ask("cdp_read_events", **arguments)

    def ask(self, tool: str, **arguments: Any) -> Json:
        answer = self.server.call_tool(tool, {"targetId": self.target, **arguments})
        content: Json = answer["structuredContent"]
        return content

    def pages(self, **arguments: Any) -> Iterator[Json]:
        """Every page of a read, to its end."""
        offset = arguments.pop("offset", 0)
        while True:
            page = self.read(offset=offset, limit=1000, **arguments)
            yield page
            if len(page["events"]) == page["matched"]:
                return
            offset = page["nextOffset"]

    def recorded(self) -> int:
        """How many events there have been: the seq that the next one gets."""
        page = self.read(limit=1)
        return int(page["events"][0]["seq"] + page["matched"] if page["events"] else 0)

    def wait_for_line(self, seq: int, marker: str) -> None:
        """Poll, at little cost to the server, until the line of about that seq is readable."""
        deadline = time.monotonic() + GUARD_S
        while True:
            page = self.read(offset=seq, limit=1)
            if page["events"]:
                if marker in page["events"][0]["text"]:
                    return
                seq = page["nextOffset"]
                continue
            if time.monotonic() > deadline:
                raise WireError(f"the line of seq {seq} was not readable within {GUARD_S} s")
            time.sleep(POLL_S)


@contextmanager
def watched(server: StdioServer, stage: Stage, target: str, **options: Any) -> Iterator[Watch]:
    """Observe a tab; what was recorded is dropped at the end, for the next one to start anew."""
    watch = Watch(server, target)
    watch.ask("cdp_observe", port=stage.chromium.port, **options)
    yield watch
    watch.ask("cdp_stop_observe", dropBuffer=True)


@contextmanager
def pilothouse(workshop: Workshop) -> Iterator[StdioServer]:
    with workshop.start(PILOTHOUSE) as server:
        server.handshake()
        yield server


def new_marker() -> str:
    """A text that no line of an earlier round has."""
    return f"marker-{secrets.token_hex(8)}"


def start_flood(page: Debugger, lines: int, marker: str) -> None:
    """Have the page /flood log so many lines, the last one with the marker; without waiting."""
    page.post("Runtime.evaluate", expression=_flood(lines, marker))


def flood(page: Debugger, lines: int, marker: str) -> None:
    """The same, and wait until the page has logged the last one.

    Nothing can be read before that, and whoever asks meanwhile takes from the two cores what the
    flood is measured with.
    """
    page.send("Runtime.evaluate", expression=_flood(lines, marker))


def _flood(lines: int, marker: str) -> str:
    last = lines - 1
    return f"start({last}); console.log('line', {last}, {{ a: {last} }}, '{marker}')"


def fill_ring(stage: Stage, watch: Watch) -> None:
    """A full ring of the mix of console, network and exceptions, one needle in a thousand."""
    while watch.recorded() < RING:
        stage.visit(watch.target, stage.url(f"/mix?n={ROUNDS_PER_LAP}"))
        stage.chromium.evaluate(watch.target, f"console.log({NEEDLE!r})")


class BareSocket:
    """The peer that receives and throws away, in its own process."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            command(BARE_WEBSOCKET), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with self._process:  # closes the pipes and waits
            pass

    def attach(self, stage: Stage, target: str, marker: str) -> None:
        url = f"ws://127.0.0.1:{stage.chromium.port}/devtools/page/{target}"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"url": url, "marker": marker}) + "\n")
        self._process.stdin.flush()
        self._expect("attached")

    def wait_for_marker(self) -> None:
        self._expect("seen")

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if said != word:
            raise WireError(f"the bare WebSocket said {said!r} instead of {word!r}")
