"""A real Chromium with the real extension in it, and the product on stdio that it connects to.

No debugger is ever attached to the extension's worker, for that would keep it alive: a person's
part is played in a page of the extension, and the worker is only seen in the list of targets.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pilothouse.bookmarks.model import EXTENSION_ID
from tests.support import forkserver
from tests.support.agent import Agent
from tests.support.chromium import Chromium, Debugger
from tests.support.ports import free_port
from tests.support.servers import ROOT, environment
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXTENSION = ROOT / "extension"
POPUP = f"chrome-extension://{EXTENSION_ID}/popup.html"
OPTIONS = f"chrome-extension://{EXTENSION_ID}/options.html"
BAR, OTHER = "1", "2"
GUARD_S = 60.0


class Desk(Agent):
    """`pilothouse --tools bookmarks` on stdio, with a home and a port of its own."""

    def __init__(self, *args: str, home: Path | None = None, port: int = 0) -> None:
        self._made = None if home else Path(tempfile.mkdtemp(prefix="ph-"))
        self.home = home or self._made or Path()
        self.bookmarks_port = port or free_port()
        self.env = {
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE_BOOKMARKS_PORT": str(self.bookmarks_port),
        }
        super().__init__("--tools", "bookmarks", "--profile", "full", *args, env=self.env)

    def open(self) -> Self:
        """Bind the port, which waits for a first call of the group."""
        assert self.fault("bookmark_get", id=BAR)["code"] == "EXTENSION_NOT_CONNECTED"
        return self

    @property
    def code(self) -> str:
        """What a user reads in the terminal."""
        return pairing_code(self.env)

    @property
    def state(self) -> str:
        """The link in one line, as `status` has it; asking does not touch the extension."""
        return str(self.call("status")["services"].get("bookmarks link", ""))

    @property
    def profiles(self) -> list[str]:
        """The names of the profiles that are connected."""
        names = self.state.rpartition("connected: ")[2]
        return [] if names in ("", "no Chrome") else names.split(", ")

    def until_connected(self, *names: str, guard_s: float = GUARD_S) -> None:
        wait_until(lambda: sorted(self.profiles) == sorted(names), f"{names} connected", guard_s)

    def answers(self, calls: Iterable[int]) -> dict[int, dict[str, Any]]:
        """The results of calls under way, in whatever order they come."""
        missing, found = set(calls), {}
        while missing:
            message = self.receive()
            if message.get("id") in missing:
                missing.remove(message["id"])
                found[message["id"]] = message["result"]
        return found

    def happenings(self) -> list[dict[str, Any]]:
        """What the timeline tells of the bookmarks."""
        told = json.loads(self.resource("pilothouse://timeline"))["events"]
        return [event for event in told if event["event"] == "BookmarksChanged"]

    def until_told(self, title: str, change: str = "created") -> dict[str, Any]:
        """The first event of that kind about a node of this title."""

        def told() -> dict[str, Any] | None:
            for event in self.happenings():
                if (event["title"], event["change"]) == (title, change):
                    return event
            return None

        return wait_until(told, f"{change} {title}", GUARD_S)

    def stop(self) -> None:
        """End it, and keep its home."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(GUARD_S)

    def __exit__(self, *args: object) -> None:
        self.stop()
        super().__exit__(*args)
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def pairing_code(env: dict[str, str], *args: str) -> str:
    """What `pilothouse pair` prints."""
    said = subprocess.run(
        forkserver.command("pilothouse", "pair", *args),
        env=environment(env),
        capture_output=True,
        text=True,
        check=True,
        timeout=GUARD_S,
    )
    return said.stdout.strip()


class BookmarkChrome(Chromium):
    """A profile of its own with the extension loaded, and somebody who edits bookmarks by hand."""

    def __init__(self, *args: str, name: str = "Work", beside: Path | None = None) -> None:
        """`beside` is another extension that is loaded, too."""
        loaded = f"{EXTENSION},{beside}" if beside else EXTENSION
        super().__init__(f"--load-extension={loaded}", *args)
        self.name = name
        self._person: Debugger | None = None
        self._target = ""

    def __exit__(self, *args: object) -> None:
        self.leave_alone()
        super().__exit__(*args)

    def inventory(self) -> dict[str, frozenset[str]]:
        """Return the open tabs but for the person's, which is opened when it is first needed."""
        return {"tabs": super().inventory()["tabs"] - {self._target}}

    @contextmanager
    def page(self, url: str = POPUP) -> Iterator[Debugger]:
        """A page of the extension for as long as the block lasts."""
        target = self.open(url)
        with self.debugger(target) as debugger:
            wait_until(
                lambda: debugger.evaluate(
                    "document.readyState === 'complete' && Boolean(globalThis.chrome?.bookmarks)"
                ),
                f"the page {url}",
            )
            yield debugger
        self.close_tab(target)

    @property
    def person(self) -> Debugger:
        """A page of the extension, where a person's edits are made; opened when first asked for."""
        if self._person is None:
            target = self.open(POPUP)
            self._person = self.debugger(target).__enter__()
            self._target = target
            wait_until(
                lambda: self.person.evaluate("Boolean(globalThis.chrome?.bookmarks)"),
                "chrome.bookmarks in the extension's page",
            )
        return self._person

    def leave_alone(self) -> None:
        """Close the person's page: nothing of ours is attached to this Chrome then."""
        if self._person is not None:
            self._person.__exit__()
            self._person = None
            self.close_tab(self._target)

    def by_hand(self, method: str, *args: Any) -> Any:
        """A call of chrome.bookmarks that is not the server's."""
        given = ", ".join(json.dumps(arg) for arg in args)
        return self.person.evaluate(f"chrome.bookmarks.{method}({given})")

    def children(self, folder: str = OTHER) -> list[dict[str, Any]]:
        """What is in a folder, as Chrome itself tells it."""
        found: list[dict[str, Any]] = self.by_hand("getChildren", folder)
        return found

    def titles(self, folder: str = OTHER) -> list[str]:
        return [child["title"] for child in self.children(folder)]

    def clear(self) -> None:
        """Remove everything that tests before have made."""
        for folder in (BAR, OTHER):
            for child in self.children(folder):
                self.by_hand("removeTree", child["id"])

    @property
    def profile_id(self) -> str:
        """Id that the extension gave to this profile, waited for.

        A worker at its first start writes it together with a name, over what comes meanwhile.
        """
        return wait_until(
            lambda: str(self.person.evaluate("chrome.storage.local.get()").get("profileId", "")),
            "the first start of the extension's worker",
        )

    def settle(self, port: int, code: str) -> None:
        """Put a server's address and code where the options page would."""
        assert self.profile_id
        settings = {"port": port, "token": code.replace("-", ""), "profileName": self.name}
        self.person.evaluate(f"chrome.storage.local.set({json.dumps(settings)})")

    def connect(self, desk: Desk) -> Self:
        """Pair with a server, and wait until it says so."""
        self.settle(desk.bookmarks_port, desk.code)
        wait_until(
            lambda: self.name in desk.profiles,
            lambda: f"{self.name} connected ({self.status}; {desk.state})",
        )
        return self

    @property
    def status(self) -> dict[str, Any]:
        """How the extension itself says that the connection is."""
        kept = self.person.evaluate("chrome.storage.local.get({ status: {} })")
        status: dict[str, Any] = kept["status"]
        return status

    def until(self, state: str, guard_s: float = GUARD_S) -> dict[str, Any]:
        """Wait for a state of the extension's: connected, waiting, refused, …"""
        return wait_until(
            lambda: status if (status := self.status).get("state") == state else None,
            f"the extension being {state}",
            guard_s,
        )

    @property
    def worker(self) -> str:
        """The target id of the extension's worker while it runs; listing it attaches nothing."""
        url = f"chrome-extension://{EXTENSION_ID}/background.js"
        return next((str(t["id"]) for t in self.targets() if t["url"] == url), "")

    def kill_worker(self) -> None:
        """End the extension's worker, as Chrome does with one that rests for too long."""
        worker = wait_until(lambda: self.worker, "the extension's worker")
        with self.debugger() as browser:
            browser.send("Target.closeTarget", targetId=worker)
        wait_until(lambda: self.worker != worker, "the end of the extension's worker")
