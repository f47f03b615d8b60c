"""The product's observer, driven over the MCP wire as an agent would."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.agent import Agent
from tests.support.servers import ROOT, environment
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.chromium import Chromium


class Watcher(Agent):
    """`pilothouse observe` on stdio."""

    def __init__(self, port: int, *args: str, env: dict[str, str] | None = None) -> None:
        super().__init__("observe", "--port", str(port), *args, env=env)
        self.port = port

    def events(self, target: str, **filters: Any) -> list[dict[str, Any]]:
        """All events that fit, over all pages."""
        found: list[dict[str, Any]] = []
        offset = filters.pop("offset", 0)
        while True:
            page = self.call(
                "cdp_read_events", targetId=target, offset=offset, limit=1000, **filters
            )
            found += page["events"]
            if len(page["events"]) == page["matched"]:
                return found
            offset = page["nextOffset"]

    def wait_for(
        self, target: str, found: Callable[[list[dict[str, Any]]], Any], **filters: Any
    ) -> list[dict[str, Any]]:
        """Read until the events satisfy a condition."""
        events: list[dict[str, Any]] = []

        def fits() -> bool:
            events[:] = self.events(target, **filters)
            return bool(found(events))

        def seen() -> object:
            told = ("kind", "type", "url", "text", "reason")
            shown = [{name: e[name] for name in told if name in e} for e in events]
            return {"state": self.call("cdp_read_events", targetId=target)["state"], "saw": shown}

        wait_until(fits, seen)
        return events

    def wait_for_state(self, target: str, state: str) -> dict[str, Any]:

        def page() -> dict[str, Any] | None:
            read = self.call("cdp_read_events", targetId=target, limit=1)
            return read if read["state"] == state else None

        return wait_until(page, f"the state {state}")


@contextmanager
def chrome_command(home: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run such a command as `pilothouse chrome` until the block ends; it, and the port that its
    browser listens on."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pilothouse", *words, "--port", "0"],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment({"PILOTHOUSE_HOME": str(home)}),
        cwd=ROOT,
    )
    assert process.stderr is not None
    with process.stderr:
        try:
            said = process.stderr.readline()
            port = re.search(r"127\.0\.0\.1:(\d+)", said)
            assert port is not None, said
            yield process, int(port[1])
        finally:
            process.terminate()
            process.wait(30)


def visit(chromium: Chromium, target: str, url: str, *, crashed: bool = False) -> None:
    """Navigate a tab; the title of the page before cannot be taken for the new one's."""
    with chromium.debugger(target) as debugger:
        if not crashed:  # a crashed page answers nothing but a navigation
            debugger.evaluate("document.title = ''")
        debugger.send("Page.navigate", url=url)
        debugger.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done(1)"
            " : addEventListener('load', () => done(1)))"
        )


def texts(events: list[dict[str, Any]]) -> list[str]:
    return [event["text"] for event in events if "text" in event]
