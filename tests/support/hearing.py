"""What a client of 2025 is told of resources that have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD_S = 60


class Heard:
    """Keeps the addresses of what has changed; hand it in as the client's message handler."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._more = anyio.Event()

    async def __call__(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            self.uris.append(str(message.params.uri))
            self._more.set()

    async def at_least(self, number: int) -> None:
        await self._until(lambda: len(self.uris) >= number)

    async def hears(self, uri: str) -> None:
        await self._until(lambda: uri in self.uris)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(GUARD_S):
            while not is_so():
                self._more = anyio.Event()
                await self._more.wait()
