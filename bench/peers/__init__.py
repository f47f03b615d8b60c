"""Who takes part: the commands of Pilothouse and its peers, and where they are run.

The npm peers are installed from the pinned `bench/package-lock.json` into the ignored folder
`.peers/`, before anything is timed. They are started as `node cli.js`, never through npx, which
would add its own process and its own start-up time.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.hub import stop_hub
from bench.wire import StdioServer
from tests.support.npm import PEERS, NotInstalled, install

PILOTHOUSE = "pilothouse"
BARE_SDK = "mcp SDK, bare"
BARE_WEBSOCKET = "WebSocket, bare"
RAW_PLAYWRIGHT = "Playwright, raw"
PLAYWRIGHT = "@playwright/mcp"
DEVTOOLS = "chrome-devtools-mcp"

_BENCH = Path(__file__).resolve().parents[1]

# Headless and isolated is how an agent's machine runs them, and keeps them off the user's profile.
# Usage statistics would start a second, detached process that reports to the network.
_NPM_CLI = {
    PLAYWRIGHT: ("cli.js", "--headless", "--isolated"),
    DEVTOOLS: (
        "build/src/bin/chrome-devtools-mcp.js",
        "--headless",
        "--isolated",
        "--no-usage-statistics",
    ),
}

_DISTRIBUTIONS = {
    BARE_SDK: "mcp",
    BARE_WEBSOCKET: "websockets",
    RAW_PLAYWRIGHT: "playwright",
    "mitmdump -q": "mitmproxy",
}


class PeerUnavailable(Exception):
    """A contender cannot be started here; the message says what would help."""


@dataclass(frozen=True)
class Workshop:
    """An empty working directory and a clean environment, the same for every contender."""

    folder: Path

    @property
    def home(self) -> Path:
        """Pilothouse's, and so that of the hub that its first start here brings along."""
        return self.folder / "home"

    def start(self, contender: str, *flags: str) -> StdioServer:
        argv = (*command(contender), *flags)
        return StdioServer(argv, env=self.environment(), cwd=self.folder)

    def environment(self) -> dict[str, str]:
        # PYTHON* must not decide the outcome: PYTHONDONTWRITEBYTECODE would keep the warm-up from
        # leaving bytecode behind, PYTHONPATH could load other code than the installed one.
        ours = ("PYTHON", "NODE_", "PILOTHOUSE_", "CHROME_DEVTOOLS_MCP_", "PLAYWRIGHT_MCP_")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        return inherited | {
            "PILOTHOUSE_HOME": str(self.home),
            "CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1",
        }


@contextmanager
def open_workshop() -> Iterator[Workshop]:
    """A workshop of its own; the hub that was started in it ends with it."""
    with TemporaryDirectory(prefix="pilothouse-bench-") as folder:
        workshop = Workshop(Path(folder))
        try:
            yield workshop
        finally:
            stop_hub(workshop.home)


def command(contender: str) -> tuple[str, ...]:
    """The command that runs `contender` on stdio, installing an npm peer if need be."""
    if contender == PILOTHOUSE:
        installed = Path(sys.prefix) / "bin" / "pilothouse"
        if not installed.exists():
            raise PeerUnavailable(f"{installed} is missing: run `make setup`")
        return (str(installed),)
    if contender == BARE_SDK:
        return (sys.executable, str(_BENCH / "peers" / "bare_sdk.py"))
    if contender == BARE_WEBSOCKET:
        return (sys.executable, str(_BENCH / "peers" / "bare_websocket.py"))
    if contender == RAW_PLAYWRIGHT:
        return (sys.executable, str(_BENCH / "peers" / "raw_playwright.py"))
    script, *flags = _NPM_CLI[contender]
    return (_executable("node"), str(_installed_npm_peers() / contender / script), *flags)


def version(contender: str) -> str:
    """The exact version measured; 'not installed' for an npm peer no row has asked for."""
    if contender in _NPM_CLI:
        manifest = PEERS / "node_modules" / contender / "package.json"
        if not manifest.exists():
            return "not installed"
        return str(json.loads(manifest.read_text())["version"])
    distribution = _DISTRIBUTIONS.get(contender, contender)
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


@cache
def _installed_npm_peers() -> Path:
    """The peers' node_modules folder, made to match the lock file."""
    try:
        return install(_BENCH, PEERS)
    except NotInstalled as error:
        raise PeerUnavailable(str(error)) from None


def _executable(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerUnavailable(f"{name} is not on PATH: install Node.js 20.19 or newer")
    return found
