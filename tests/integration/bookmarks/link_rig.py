"""An extension link on a free port of this machine, with an agent's view of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.bookmarks.agent import AgentBookmarks
from pilothouse.bookmarks.changes.journal import open_journal
from pilothouse.bookmarks.extension.guidance import Guidance
from pilothouse.bookmarks.extension.keepalive import Timing
from pilothouse.bookmarks.extension.listener import open_link
from pilothouse.bookmarks.extension.pairing import Pairing
from pilothouse.bookmarks.extension.server import ExtensionServer
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.machine.port_holders import port_trouble
from pilothouse.wiring.extension_pairing import secret_in
from tests.support.extension_peer import GUARD_S
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.bookmarks.changes.profile import ConnectedProfile
    from pilothouse.core.timeline.events import Event
    from pilothouse.machine.secret_file import SecretFile

QUICK = Timing(hello_s=0.4, close_s=0.2)
"""For tests that wait until a wait is over."""
PATIENT = Timing(hello_s=4 * GUARD_S, close_s=1.0, answer_s=GUARD_S)
"""For tests in which nothing may end by itself on a busy machine."""


async def nothing_to_finish(profile: ConnectedProfile) -> None:
    pass


@dataclass
class Rig:
    """What a test sees of a link."""

    link: ExtensionServer
    secret: SecretFile
    folder: Path
    states: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.ports[-1]

    @property
    def token(self) -> str:
        return self.secret.value()

    def view(self, session: str = "one") -> Seen:
        return Seen(self.link, session, self.folder)


class Seen:
    """An agent's view, and what it was told."""

    def __init__(self, link: ExtensionServer, session: str, folder: Path) -> None:
        self.changed: list[str] = []
        self.timeline = Timeline()
        self.view = AgentBookmarks(
            link=link,
            session=session,
            redactor=Redactor(),
            timeline=self.timeline,
            changed=self.changed.append,
            export_folder=lambda: folder,
        )

    @property
    def events(self) -> list[Any]:
        return [moment.event for moment in self.timeline]

    async def event(self, number: int) -> Event:
        """Wait until so many events came; the last of them."""
        await until(lambda: len(self.events) >= number)
        last: Event = self.events[number - 1]
        return last


@asynccontextmanager
async def linked(
    folder: Path,
    *,
    timing: Timing = PATIENT,
    on_connected: Any = nothing_to_finish,
    port: int = 0,
    own_user_only: bool = True,
) -> AsyncIterator[Rig]:
    secret = secret_in(folder / "config")
    states: list[str] = []
    ports: list[int] = []
    link = ExtensionServer(
        server="pilothouse 0",
        pairing=Pairing(secret),
        clock=lambda: 1_000.0,
        guidance=Guidance(folder / "extension", anyio.current_time),
        open_journal=partial(open_journal, folder / "journals"),
        on_connected=on_connected,
        on_state=states.append,
        on_port=ports.append,
        own_user_only=own_user_only,
        timing=timing,
    )
    async with open_link(link, port, port_trouble):
        yield Rig(link, secret, folder, states, ports)
