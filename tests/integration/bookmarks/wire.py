"""The product on stdio with a Chrome of the test's own connected to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.settings import Settings
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.bookmarking import carried_out_by
from tests.support.extension_peer import extension
from tests.support.ports import free_port
from tests.support.servers import stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from mcp.client import Client

    from tests.support.chrome_bookmarks import ChromeBookmarks

GUARD_S = 120


@dataclass
class Rig:
    """A server with a connected Chrome, as a client has it."""

    client: Client
    chrome: ChromeBookmarks

    async def ask(self, tool: str, **arguments: Any) -> Any:
        return await self.client.call_tool(tool, arguments)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that goes well."""
        result = await self.ask(tool, **arguments)
        assert not result.is_error, result.structured_content
        content: dict[str, Any] = result.structured_content
        return content

    async def fault(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that must fail."""
        result = await self.ask(tool, **arguments)
        assert result.is_error, result.structured_content
        error: dict[str, Any] = result.structured_content["error"]
        return error


@asynccontextmanager
async def opened(home: Path, mode: str = "auto") -> AsyncIterator[tuple[Client, int, str]]:
    """The product, the port on which it waits for an extension, and the code that it takes."""
    port = free_port()
    env = {"PILOTHOUSE_HOME": str(home), "PILOTHOUSE_BOOKMARKS_PORT": str(port)}
    code = pairing_secret(Settings(home=str(home))).value()
    with anyio.fail_after(GUARD_S):
        async with stdio(
            "--tools", "bookmarks", "--profile", "full", mode=mode, module="pilothouse", env=env
        ) as client:
            yield client, port, code


@asynccontextmanager
async def connected(home: Path, chrome: ChromeBookmarks, mode: str = "auto") -> AsyncIterator[Rig]:
    async with opened(home, mode) as (client, port, code):
        await client.call_tool("bookmark_search", {"query": "x"})  # the port opens on first use
        async with extension(port, code, carry_out=carried_out_by(chrome)):
            yield Rig(client, chrome)
