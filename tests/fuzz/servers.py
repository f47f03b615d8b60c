"""What is fuzzed: a hub and `--standalone`, each with an app, a Chrome and a hostile browser.

Everything lies in one temporary home, on ports of its own, and only loopback is reached.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from websockets.exceptions import WebSocketException

from pilothouse.core.settings import Settings
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.fuzz.clients import StdioClient
from tests.support.bookmarking import carried_out_by
from tests.support.chrome_bookmarks import ChromeBookmarks
from tests.support.driving import SHOP
from tests.support.extension_peer import extension
from tests.support.intercepting import token_of
from tests.support.ports import free_port
from tests.support.servers import PRODUCT, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

ALLOWED = "127.0.0.1,localhost"
TREE = (
    {"title": "Tech", "children": [{"title": "One", "url": "http://127.0.0.1:1/"}]},
    {"title": "Old links", "children": [{"title": "\u202ex", "url": "http://nobody.invalid/"}]},
    {"title": "Two", "url": "javascript:alert(1)"},
)


@dataclass
class Setting:
    """Where one server lives: its home, ports and environment."""

    home: Path
    token: str = ""
    rest: int = field(default_factory=free_port)
    config: int = field(default_factory=free_port)
    bookmarks: int = field(default_factory=free_port)
    cdp: int = field(default_factory=free_port)
    """Where a browser is looked for unless a call names a port: nobody listens there."""

    @classmethod
    @contextmanager
    def made(cls) -> Iterator[Setting]:
        """Make a home that is removed when the block ends."""
        home = Path(tempfile.mkdtemp(prefix="ph-"))
        try:
            setting = cls(home)
            setting.token = token_of(home)
            setting.files.mkdir()
            shutil.copytree(SHOP, setting.files / "shop")
            (setting.files / "upload.txt").write_text("up")
            yield setting
        finally:
            shutil.rmtree(home, ignore_errors=True)

    @property
    def files(self) -> Path:
        return self.home / "files"

    @property
    def environment(self) -> dict[str, str]:
        commands = ("true", "false", "sleep", "echo")
        found = [path for name in commands if (path := shutil.which(name))]
        return {
            "PILOTHOUSE_HOME": str(self.home),
            "PILOTHOUSE_ROOTS": str(self.files),
            "PILOTHOUSE_REST_PORT": str(self.rest),
            "PILOTHOUSE_CONFIG_PORT": str(self.config),
            "PILOTHOUSE_BOOKMARKS_PORT": str(self.bookmarks),
            "CDP_PORT": str(self.cdp),
            "PACKET_PROXY_ACCESS_TOKEN": self.token,
            "ALLOWED_HOSTS": ALLOWED,
            "SERVER_COMMAND_PATH": ":".join([sys.executable, *found]),
        }

    @property
    def pairing_code(self) -> str:
        return pairing_secret(Settings(home=str(self.home))).value()


@contextmanager
def running_hub(setting: Setting) -> Iterator[Server]:
    """Serve as a hub until the block ends."""
    with http_server(
        "--profile",
        "full",
        module=PRODUCT,
        env=setting.environment,
        expect_incidents=True,  # they are judged here
    ) as server:
        yield server


@contextmanager
def standalone(setting: Setting, era: str) -> Iterator[StdioClient]:
    """Serve on stdio until the block ends."""
    with StdioClient("--profile", "full", era=era, env=setting.environment) as client:
        yield client


@contextmanager
def connected_chrome(setting: Setting) -> Iterator[None]:
    """Keep an extension with bookmarks of its own connected until the block ends."""
    stop = threading.Event()
    is_there = threading.Event()

    async def stay() -> None:
        chrome = ChromeBookmarks(TREE)
        while not stop.is_set():
            with suppress(OSError, AssertionError, WebSocketException):
                async with extension(
                    setting.bookmarks, setting.pairing_code, carry_out=carried_out_by(chrome)
                ) as peer:
                    is_there.set()
                    while not stop.is_set() and peer.socket.close_code is None:  # noqa: ASYNC110
                        await asyncio.sleep(0.1)
            await asyncio.sleep(0.2)  # the port opens with the first call that needs it

    thread = threading.Thread(target=lambda: asyncio.run(stay()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def resident_mb(pid: int) -> float:
    """Return the memory of a process, without its children."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20
