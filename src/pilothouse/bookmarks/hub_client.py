"""The extension link of the hub, as a worker reaches it (bookmarks/hub_server.py is the other end).

Who is connected is mirrored here, so that it is known without asking. The journal is read and
written here; the right to do so is lent by the hub, which finishes what a dead worker left.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from pilothouse.bookmarks.extension.chrome_errors import after_silence
from pilothouse.bookmarks.model import BookmarksChanged, ConnectionLost, ExtensionNotConnected
from pilothouse.core.declare.faults import NotAvailable
from pilothouse.core.hub_port import HubLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from pilothouse.bookmarks.changes.journal import Journal
    from pilothouse.bookmarks.extension.guidance import Guidance
    from pilothouse.bookmarks.ports import ChangeListener
    from pilothouse.core.hub_port import HubPort

    type OpenJournal = Callable[[str], Journal]
    """Of a profile, though others may be writing it; raises OSError."""


@asynccontextmanager
async def open_remote_link(
    hub: HubPort, guidance: Guidance, open_journal: OpenJournal
) -> AsyncIterator[RemoteLink]:
    """Open the hub's link for the block; one for all sessions of this process.

    Raises:
        ExtensionNotConnected: the hub is lost.
    """
    link = RemoteLink(hub, guidance, open_journal)
    async with AsyncExitStack() as stack:
        stack.callback(link.close)
        stack.callback(hub.listen("bookmarks", link.receive))
        try:
            state = await stack.enter_async_context(hub.hold("bookmarks.view"))
        except HubLost as lost:
            raise _not_connected(lost) from None
        link.receive("state", state)
        yield link


class RemoteLink:
    """Implements `Profiles` over the hub."""

    def __init__(self, hub: HubPort, guidance: Guidance, open_journal: OpenJournal) -> None:
        self._hub = hub
        self._guidance = guidance
        self._open_journal = open_journal
        self._journals: dict[str, Journal] = {}
        self._profiles: list[RemoteProfile] = []
        self._views: list[ChangeListener] = []

    @property
    def profiles(self) -> list[RemoteProfile]:
        return self._profiles if self._hub.lost is None else []

    def not_connected(self) -> ExtensionNotConnected:
        if self._hub.lost is not None:
            return _not_connected(self._hub.lost)
        if self._guidance.is_off:
            self._hub.tell("bookmarks.wanted")
        return self._guidance.fault()

    @contextmanager
    def view(self, view: ChangeListener) -> Iterator[None]:
        self._views.append(view)
        try:
            yield
        finally:
            self._views.remove(view)

    def receive(self, what: str, given: dict[str, Any]) -> None:
        """Take in what the hub reports."""
        match what:
            case "state":
                self._guidance.learn(given["facts"])
                known = {profile.number: profile for profile in self._profiles}
                self._profiles = [
                    known.get(one["shelf"])
                    or RemoteProfile(self, one["shelf"], RemotePeer(self._hub, **one))
                    for one in given["profiles"]
                ]
            case "changed":
                for view in self._views:
                    view.changed(given["uri"])
            case "happened":
                event = BookmarksChanged(**{**given, "keys": frozenset(given["keys"])})
                for view in self._views:
                    view.tell(event)

    def journal(self, profile_id: str) -> Journal:
        """Return the journal as its file is now. It and its plans outlive a profile's connections.

        Raises:
            NotAvailable: it cannot be opened.
        """
        try:
            if profile_id not in self._journals:
                self._journals[profile_id] = self._open_journal(profile_id)
        except OSError as error:
            raise NotAvailable(
                f"the bookmarks' journal cannot be opened ({error.strerror})",
                hint=f"see to {error.filename}, then try again",
            ) from None
        journal = self._journals[profile_id]
        journal.catch_up(alone=False)
        return journal

    @asynccontextmanager
    async def writing(self, number: int) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._hub.hold("bookmarks.writing", shelf=number))
            except HubLost as lost:
                raise ConnectionLost(f"{lost.message}; nothing was done", hint=lost.hint) from None
            yield

    def close(self) -> None:
        for journal in self._journals.values():
            journal.close()


class RemotePeer:
    """Implements `ports.Peer` over the hub."""

    def __init__(self, hub: HubPort, shelf: int, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self._hub = hub
        self._number = shelf

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        given = {"shelf": self._number, "method": method, "params": dict(params or {})}
        try:
            return await self._hub.call("bookmarks.ask", **given)
        except HubLost as lost:
            raise ConnectionLost(
                f"{lost.message}, during {method}",
                hint=f"{after_silence(method)}; {lost.hint}",
            ) from None


class RemoteProfile:
    """Implements `ports.Profile` over the hub, for one connection of a profile."""

    def __init__(self, link: RemoteLink, number: int, peer: RemotePeer) -> None:
        self.number = number
        self.peer = peer
        self._link = link

    @property
    def journal(self) -> Journal:
        """Raises NotAvailable."""
        return self._link.journal(self.peer.id)

    def writing(self) -> Any:
        return self._link.writing(self.number)


def _not_connected(lost: HubLost) -> ExtensionNotConnected:
    return ExtensionNotConnected(
        f"Chrome is connected to the hub, which this worker lacks: {lost.message}", hint=lost.hint
    )
