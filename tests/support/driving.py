"""The product's e2e sessions, driven over the MCP wire as an agent would, in a shop of our own."""

from __future__ import annotations

import base64
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support import forkserver
from tests.support.agent import Agent
from tests.support.living import commands_below
from tests.support.servers import environment
from tests.support.until import wait_until

SHOP = Path(__file__).parent / "shop"
GUARD_S = 30
PNG = b"\x89PNG\r\n\x1a\n"


class Driver(Agent):
    """`pilothouse --tools e2e,observe` on stdio, with a home of its own."""

    def __init__(
        self, *args: str, env: dict[str, str] | None = None, joins_hub: bool = False
    ) -> None:
        # Not tmp_path: Chromium cannot live in a path that long.
        self.home = Path(tempfile.mkdtemp(prefix="ph-"))
        self.files = self.home / "files"
        self.files.mkdir()
        own = {"PILOTHOUSE_HOME": str(self.home), "PILOTHOUSE_ROOTS": str(self.files)}
        super().__init__(
            "--tools",
            "e2e,observe",
            "--profile",
            "full",
            *args,
            env={**own, **(env or {})},
            joins_hub=joins_hub,
        )
        self._joins_hub = joins_hub
        self.session_id = ""
        self.url = ""
        self._own_files: set[Path] = set()

    def start(self, **arguments: Any) -> dict[str, Any]:
        """Start a session: with the shop, unless something else is asked for."""
        if not arguments.keys() & {"url", "command", "commandPath", "services", "cdp"}:
            arguments["command"] = [sys.executable, str(SHOP / "server.py")]
        started = self.call("startSession", **arguments)
        self._own_files = self._own_files or {*self.files.iterdir()}
        self.session_id, self.url = started["sessionId"], started["url"]
        return started

    def visit(self, path: str) -> dict[str, Any]:
        return self.call("navigate", url=path)

    def value(self, script: str) -> Any:
        """What a script gives in the page."""
        return self.call("evaluate", script=script).get("result")

    def text(self, selector: str) -> str:
        content: str = self.call("getContent", selector=selector, **{"as": "text"})["content"]
        return content

    def until_hot(self, target_id: str) -> None:
        """Wait for the dev server's first word to the page: an edit before it is told to nobody."""
        sockets = {"targetId": target_id, "kinds": ["websocket"]}
        wait_until(
            lambda: [
                event
                for event in self.call("cdp_read_events", **sockets)["events"]
                if event.get("direction") == "recv"
            ]
        )

    def processes(self, kind: str = "") -> list[psutil.Process]:
        """Chromium's processes of a type, such as renderer; without one, the browsers."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                arguments = process.cmdline()
                types = [a for a in arguments if a.startswith("--type=")]
                is_chromium = "--enable-automation" in arguments or types
                if is_chromium and types == ([f"--type={kind}"] if kind else []):
                    found.append(process)
        return found

    def inventory(self) -> dict[str, frozenset[str]]:
        """Return the processes below the server (of a browser only its first), tabs and files."""
        told = self.ask("tabs")
        tabs = () if told["isError"] else told["structuredContent"]["tabs"]  # no session is open
        return {
            "processes": commands_below(self.process.pid),
            "tabs": frozenset(tab["id"] for tab in tabs),
            "files": frozenset(path.name for path in self.files.iterdir()),
        }

    def tidy(self) -> None:
        """Leave one tab without a dialog and no files, whatever the test had."""
        for tab in self.call("tabs")["tabs"]:
            if self.ask("exists", selector="html", tabId=tab["id"])["isError"]:
                self.ask("handleDialog", accept=True, tabId=tab["id"])
            if tab["id"] != "t1":
                self.call("tabs", action="close", tabId=tab["id"])
        self.tidy_files()

    def tidy_files(self) -> None:
        """Remove what was put into the session's folder since it was started."""
        for path in {*self.files.iterdir()} - self._own_files:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def __exit__(self, *args: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()  # it ends its browsers and servers itself
            self.process.wait(GUARD_S)
        super().__exit__(*args)
        if self._joins_hub:
            stop = forkserver.command("pilothouse", "stop")
            subprocess.run(stop, env=environment({"PILOTHOUSE_HOME": str(self.home)}), check=True)
        shutil.rmtree(self.home, ignore_errors=True)


def size(png: bytes) -> tuple[int, int]:
    """Width and height of a PNG."""
    assert png.startswith(PNG)
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def whole_text(result: dict[str, Any]) -> str:
    """All that an answer says, text and structured content, as it goes over the wire."""
    texts = [block["text"] for block in result["content"] if block["type"] == "text"]
    structured = result["structuredContent"]
    return "\n".join(texts) + json.dumps(structured, ensure_ascii=False, separators=(",", ":"))


def picture(result: dict[str, Any]) -> bytes:
    """The image block of an answer."""
    return next(base64.b64decode(b["data"]) for b in result["content"] if b["type"] == "image")
