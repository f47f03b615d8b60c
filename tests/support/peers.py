"""Other people's browser servers as workers: the kinds that start them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pilothouse.hub.workers.command import StdioCommand
from pilothouse.hub.workers.playwright import PACKAGE, PlaywrightMcp
from pilothouse.hub.workers.spawned import CommandLaunch
from pilothouse.machine.child import start_child
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from tests.support.npm import PEERS
from tests.support.servers import environment

if TYPE_CHECKING:
    from pathlib import Path

DEVTOOLS = PEERS / "node_modules" / "chrome-devtools-mcp" / "build/src/bin/chrome-devtools-mcp.js"
installed = pytest.mark.skipif(
    not (DEVTOOLS.is_file() and (PEERS / "node_modules" / PACKAGE).is_dir()),
    reason="`scripts/setup --tests` installs it",
)


def browser() -> str:
    found = find_browser(os.environ, "")
    return str(found.path) if found else ""


def playwright(mark: str, folder: Path, package: Path = PEERS) -> PlaywrightMcp:
    """`folder` is for what its workers write, `package` where it is installed."""
    return PlaywrightMcp(
        start_child,
        environment({"LC_MARK": mark}),
        folder,
        folder=str(package),
        flags=("--no-sandbox",) if needs_no_sandbox() else (),
        browser=browser,
    )


def devtools(mark: str, sockets: Path, cwd: Path) -> StdioCommand:
    argv = [
        *("node", str(DEVTOOLS), "--headless", "--isolated", "--no-usage-statistics"),
        *("--executable-path", browser()),
        *(("--chrome-arg=--no-sandbox",) if needs_no_sandbox() else ()),
    ]
    env = environment({"LC_MARK": mark, "CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"})
    return StdioCommand(start_child, lambda record: CommandLaunch(argv, cwd, env), sockets)
