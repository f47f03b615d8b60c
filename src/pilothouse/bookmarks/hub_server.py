"""What the hub does with its extension link for one worker (bookmarks/hub_client.py asks).

A connected profile goes by a number that is never used again: whoever asks for one that has gone is
told so, though the profile may be back.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import fields
from itertools import count
from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.model import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.bookmarks.changes.profile import ConnectedProfile
    from pilothouse.bookmarks.extension.server import ExtensionServer
    from pilothouse.bookmarks.model import BookmarksChanged

    type Tell = Callable[[str, dict[str, Any]], None]
    """Tells the worker what happened, by its name and details."""


class ServedLink:
    """The connected profiles for one worker."""

    def __init__(self, link: ExtensionServer, tell: Tell) -> None:
        self._link = link
        self._tell = tell
        self._counted = count(1)
        self._numbers: dict[ConnectedProfile, int] = {}
        self._asking: set[asyncio.Task[Any]] = set()

    async def call(self, method: str, given: dict[str, Any]) -> Any:
        """Call an extension for the worker. Raises Fault; LookupError for what there is not."""
        if method != "ask":
            raise LookupError(f"the extension link has no {method[:80]}")
        profile = self._profile(given["shelf"])
        asked = profile.peer.ask(given["method"], given["params"])
        asking = asyncio.Task(asked, loop=asyncio.get_running_loop(), eager_start=True)
        self._asking.add(asking)
        asking.add_done_callback(self._asked)
        # What was sent to Chrome cannot be called back: it goes on though the worker may be gone.
        return await asyncio.shield(asking)

    def _asked(self, asking: asyncio.Task[Any]) -> None:
        self._asking.discard(asking)
        if not asking.cancelled():
            asking.exception()  # nobody may be waiting for it any more

    @asynccontextmanager
    async def hold(self, method: str, given: dict[str, Any]) -> AsyncIterator[Any]:
        """Hold a view or a lock for the worker. Raises Fault; LookupError for anything else."""
        if method == "view":
            with self._link.watched(self._say_state), self._link.view(self):
                yield self._state()
        elif method == "writing":
            async with self._profile(given["shelf"]).lent(self._finish):
                yield None
        else:
            raise LookupError(f"the extension link lends no {method[:80]}")

    async def _finish(self, profile: ConnectedProfile) -> None:
        """Finish what a worker that died left half done, once Chrome has done the last call."""
        if self._asking:
            await asyncio.wait(self._asking)
        await self._link.finish(profile)

    def wanted(self) -> None:
        """Try again to listen where the port could not be had: a call found nobody connected."""
        self._link.not_connected()

    # What the worker is sent

    def changed(self, uri: str) -> None:
        self._tell("changed", {"uri": uri})

    def tell(self, event: BookmarksChanged) -> None:
        told = {field.name: getattr(event, field.name) for field in fields(event)}
        self._tell("happened", told)

    def _say_state(self) -> None:
        self._tell("state", self._state())

    def _state(self) -> dict[str, Any]:
        self._numbers = {
            profile: self._numbers.get(profile) or next(self._counted)
            for profile in self._link.profiles
        }
        profiles = [
            {"shelf": number, "id": profile.peer.id, "name": profile.peer.name}
            for profile, number in self._numbers.items()
        ]
        return {"profiles": profiles, "facts": self._link.facts}

    def _profile(self, number: int) -> ConnectedProfile:
        for profile, known in self._numbers.items():
            if known == number:
                return profile
        raise ConnectionLost(
            "the connection to this Chrome profile was lost before the call was sent",
            hint="nothing was done; a paired extension comes back within 30 s",
        )
