"""Bookmark tools called as the server calls them, over bookmarks in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.changes.journal import Journal
from pilothouse.bookmarks.model import ExtensionNotConnected
from pilothouse.core.declare.faults import Fault
from pilothouse.core.net.url_policy import Policy
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.server.call import parse_args
from pilothouse.server.render import answer
from tests.support.extension_peer import ChromeError
from tests.support.memory_profile import MemoryProfile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pilothouse.core.declare.tool import Tool
    from pilothouse.server.render import Answer
    from tests.support.chrome_bookmarks import ChromeBookmarks
    from tests.support.extension_peer import CarryOut


@dataclass
class Bookmarking:
    """Implements `Bookmarks` for one profile."""

    chrome: ChromeBookmarks
    folder: Path
    redactor: Redactor = field(default_factory=Redactor)
    session: str = "s1"
    is_connected: bool = True
    progress: list[tuple[float, float | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._profile = MemoryProfile(self.chrome, Journal(self.folder / "journal.jsonl"))

    @property
    def profiles(self) -> list[MemoryProfile]:
        return [self._profile] if self.is_connected else []

    def profile(self, wanted: str | None) -> MemoryProfile:
        if not self.is_connected:
            raise ExtensionNotConnected("no Chrome is connected", hint="pilothouse pair")
        return self._profile

    def export_folder(self) -> Path:
        return self.folder

    def file_roots(self) -> Sequence[Path]:
        return (self.folder,)

    def policy(self) -> Policy:
        return Policy(development=True)

    async def ask(self, tool: Tool, **arguments: Any) -> Answer:
        """The whole answer; faults are raised."""
        ports: dict[str, Any] = {
            name: self._tell if name == "progress" else self for name in tool.ports
        }
        return answer(tool, await tool.handler(parse_args(tool, arguments), **ports))

    async def call(self, tool: Tool, **arguments: Any) -> dict[str, Any]:
        """The structured content of an answer."""
        return (await self.ask(tool, **arguments)).structured

    async def _tell(self, done: float, total: float | None = None, message: str = "") -> None:
        self.progress.append((done, total))


def carried_out_by(chrome: ChromeBookmarks) -> CarryOut:
    """What an extension of a test's own does with a call."""

    async def carry_out(method: str, params: dict[str, Any]) -> Any:
        try:
            return await chrome.ask(method, params)
        except Fault as fault:
            raise ChromeError(fault.message) from None

    return carry_out
