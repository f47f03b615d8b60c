"""A real headless Chromium for tests, with just enough of a debugging client to act on its pages.

Everything here blocks; an async test calls it through `anyio.to_thread.run_sync`. None of the
product's own browser code is used but the search for the program, so that a test can compare what
the product reports with what happened.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import psutil
from websockets.sync.client import connect

from pilothouse.e2e.browser.flags import UNSEEN_FEATURES
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from tests.support import process_table

# unit/support/test_forkserver.py takes it from here.
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

FLAGS = (
    "--headless",
    "--remote-debugging-port=0",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    f"--disable-features={','.join(UNSEEN_FEATURES)}",
    # Not --disable-crashpad-for-testing: Debian's Chromium 156 then crashes its network service,
    # over and over, and no page ever loads.
)
GUARD_S = 60
"""How long anything here may take before the test fails; against hanging, not a measurement."""


class Debugger:
    """One target's debugging socket: a command at a time, events kept in `events`."""

    def __init__(self, ws_url: str) -> None:
        self._ws_url = ws_url
        self._last_id = 0
        self._open = ExitStack()
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        # Chrome refuses a socket that names an Origin; this client names none by itself.
        # It reads on while nobody asks, so that a flood waits here and not in the browser.
        connection = connect(
            self._ws_url,
            proxy=None,
            compression=None,
            max_size=None,
            max_queue=None,
            ping_interval=None,
            open_timeout=GUARD_S,
        )
        self._socket = self._open.enter_context(connection)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def post(self, method: str, **params: Any) -> int:
        """Send a command without waiting for its answer; its id."""
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": params}))
        return self._last_id

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its result."""
        command = self.post(method, **params)
        answer = self._receive_until(lambda message: message.get("id") == command, method)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for_event(self, method: str) -> dict[str, Any]:
        """The parameters of the next event of that name, counted from now."""
        event = self._receive_until(lambda message: message.get("method") == method, method)
        params: dict[str, Any] = event["params"]
        return params

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        result = self.send(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if details := result.get("exceptionDetails"):
            thrown = details.get("exception", {}).get("description", details["text"])
            raise RuntimeError(f"{expression}: {thrown}")
        return result["result"].get("value")

    def _receive_until(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + GUARD_S
        while True:
            try:
                text = self._socket.recv(timeout=max(0, deadline - time.monotonic()))
            except TimeoutError:
                raise TimeoutError(f"{what}: no answer within {GUARD_S} s") from None
            message: dict[str, Any] = json.loads(text)
            if "method" in message:
                self.events.append(message)
            if wanted(message):
                return message


# For root alone Chromium raises its own priority above everybody else's. A user's does not, and
# what is measured beside it would wait for it on a busy machine.
AS_A_USERS = (
    ("setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice")
    if os.geteuid() == 0 and shutil.which("setpriv")
    else ()
)


class Chromium:
    """A browser of its own: `with Chromium("--site-per-process") as chromium: …`."""

    port: int
    ws_url: str
    pid: int

    def __init__(self, *args: str) -> None:
        self._args = args

    def __enter__(self) -> Self:
        browser = find_browser(os.environ)
        assert browser is not None, "no Chrome, Chromium or Edge is installed"
        # Chromium puts a unix socket there, whose path must be short: TMPDIR is, in tests.
        self.profile = Path(tempfile.mkdtemp(prefix="ph-"))
        sandbox = ("--no-sandbox",) if needs_no_sandbox() else ()
        self._log = self.profile / "stderr.log"
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [
                        *AS_A_USERS,
                        browser.path,
                        *FLAGS,
                        *sandbox,
                        f"--user-data-dir={self.profile}",
                        *self._args,
                        "about:blank",
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    # Not a session: the kernel would share the machine out between it and ours.
                    process_group=0,
                )
        except BaseException:
            shutil.rmtree(self.profile)
            raise
        self.pid = self._process.pid
        try:
            self.port, path = wait_until(self._active_port, "Chromium's debugging port")
        except BaseException:
            self.__exit__()
            raise
        self.ws_url = f"ws://127.0.0.1:{self.port}{path}"
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.profile)

    def kill(self) -> None:
        """SIGKILL to every process of the browser, until none is left."""
        wait_until(self._killed, "the end of every process of Chromium")

    def processes(self) -> list[psutil.Process]:
        """The browser's living processes."""
        found = []
        for pid, started in process_table.processes():
            with suppress(ProcessLookupError, PermissionError, psutil.Error):  # gone meanwhile
                # The crash handler leaves the group, but names the folder that only we know.
                named = f"--database={self.profile}" in started.words
                if os.getpgid(pid) == self.pid or named:
                    process = psutil.Process(pid)
                    # A zombie runs no more; whoever adopted it reaps it in its own time.
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
        return found

    def targets(self) -> list[dict[str, Any]]:
        """What `/json/list` tells, workers and out-of-process frames included."""
        targets: list[dict[str, Any]] = json.loads(self._http("GET", "/json/list"))
        return targets

    def inventory(self) -> dict[str, frozenset[str]]:
        """Return the open tabs."""
        pages = (target["id"] for target in self.targets() if target["type"] == "page")
        return {"tabs": frozenset(pages)}

    def open(self, url: str) -> str:
        """Open a tab; its target id. The page may still be loading."""
        opened: dict[str, str] = json.loads(self._http("PUT", f"/json/new?{quote(url, safe='')}"))
        return opened["id"]

    def close_tab(self, target_id: str) -> None:
        """Close a tab and wait until it is gone."""
        self._http("GET", f"/json/close/{target_id}")
        wait_until(
            lambda: all(target["id"] != target_id for target in self.targets()),
            f"the end of the tab {target_id}",
        )

    def debugger(self, target_id: str = "") -> Debugger:
        """The debugging socket of a target, or of the browser itself; a block closes it."""
        if not target_id:
            return Debugger(self.ws_url)
        return Debugger(f"ws://127.0.0.1:{self.port}/devtools/page/{target_id}")

    def evaluate(self, target_id: str, expression: str) -> Any:
        """The value of a JavaScript expression in a page, awaited if it is a promise."""
        with self.debugger(target_id) as debugger:
            return debugger.evaluate(expression)

    def wait_for_title(self, target_id: str, title: str = "done") -> None:
        """Wait until a page calls itself so, which the test site's pages do at their end."""
        wait_until(
            lambda: any(
                target["id"] == target_id and target["title"] == title for target in self.targets()
            ),
            f"the title {title!r} of the tab {target_id}",
        )

    def crash(self, target_id: str) -> None:
        """Crash the page's renderer, and wait until the browser says so."""
        with self.debugger(target_id) as debugger:
            debugger.send("Inspector.enable")
            debugger.post("Page.navigate", url="chrome://crash")
            debugger.wait_for_event("Inspector.targetCrashed")

    def _active_port(self) -> tuple[int, str] | None:
        if self._process.poll() is not None:
            raise RuntimeError(f"Chromium ended at once:\n{self._log.read_text(errors='replace')}")
        try:
            lines = (self.profile / "DevToolsActivePort").read_text().splitlines()
        except FileNotFoundError:
            return None
        return (int(lines[0]), lines[1]) if len(lines) == 2 else None

    def _environment(self) -> dict[str, str]:
        # Both, so that nothing stays behind: temporary folders and crash dumps go with the profile.
        folder = str(self.profile)
        return {**os.environ, "TMPDIR": folder, "BREAKPAD_DUMP_LOCATION": folder}

    def _killed(self) -> bool:
        # Again until nobody is left: one of them may have been starting another meanwhile.
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return self._process.poll() is not None and not self.processes()

    def _http(self, method: str, path: str) -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=GUARD_S)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {body[:200]!r}")
        return body
