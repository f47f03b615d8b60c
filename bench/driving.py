"""Driving a page: raw Playwright, Pilothouse and @playwright/mcp, each with its own browser."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from bench.peers import PILOTHOUSE, PLAYWRIGHT, RAW_PLAYWRIGHT, PeerUnavailable, Workshop, command
from bench.wire import StdioServer
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox

FLAGS = ("--no-sandbox",) if needs_no_sandbox() else ()


def browser_path() -> str:
    found = find_browser(os.environ)
    if found is None:
        raise PeerUnavailable("no Chrome, Chromium or Edge is installed: run `make setup`")
    return str(found.path)


class Driver(Protocol):
    """Takes a step and tells how many milliseconds it took."""

    def take(self, do: str, **arguments: Any) -> float: ...


class RawPlaywright:
    """Playwright in a process of its own."""

    def __enter__(self) -> Self:
        argv = (*command(RAW_PLAYWRIGHT), browser_path(), *FLAGS)
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()

    def take(self, do: str, **arguments: Any) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


class Served:
    """An MCP server on stdio; the time is that of the call, as the agent sees it."""

    def __init__(self, server: StdioServer, words: "Words") -> None:
        self._server = server
        self._words = words

    def take(self, do: str, **arguments: Any) -> float:
        tool, translated = self._words(do, arguments)
        began = time.perf_counter()
        self._server.call_tool(tool, translated)
        return (time.perf_counter() - began) * 1000


class Words(Protocol):
    def __call__(self, do: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]: ...


def pilothouse_words(do: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return do, arguments


def playwright_words(do: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    match do:
        case "navigate":
            return "browser_navigate", arguments
        case "click":
            return "browser_click", {"target": arguments["selector"]}
        case "type":
            return "browser_type", {"target": arguments["selector"], "text": arguments["text"]}
        case "evaluate":
            return "browser_evaluate", {"function": f"() => {arguments['script']}"}
    return "browser_take_screenshot", {}


@contextmanager
def driver(workshop: Workshop, contender: str, url: str) -> Iterator[Driver]:
    """A contender with a browser that runs."""
    if contender == RAW_PLAYWRIGHT:
        with RawPlaywright() as raw:
            yield raw
        return
    flags: tuple[str, ...] = ()
    if contender == PLAYWRIGHT:
        flags = ("--executable-path", browser_path(), *(("--no-sandbox",) if FLAGS else ()))
    with workshop.start(contender, *flags) as server:
        server.handshake()
        if contender == PILOTHOUSE:
            server.call_tool("startSession", {"url": url})
            yield Served(server, pilothouse_words)
            server.call_tool("endSession", {})
        else:
            yield Served(server, playwright_words)


@contextmanager
def site() -> Iterator[str]:
    """The test site, in a process of its own; its address."""
    root = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.site"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    with process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
