"""What e2e sessions need of the rest of Pilothouse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from pilothouse.core.timeline.ring import Ring
    from pilothouse.e2e.app_server.start import StartRequest
    from pilothouse.e2e.ended_sessions import FailedLogs
    from pilothouse.e2e.model import EndReason, Past, ServerHealth, ServerInfo, ServerState
    from pilothouse.e2e.session import E2eSession
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe


class AppServer(Protocol):
    """One server of a session, however it was started."""

    @property
    def info(self) -> ServerInfo: ...

    @property
    def exit_code(self) -> int | None:
        """Exit code of a server that has ended by itself, None while it runs."""

    @property
    def last_seen(self) -> ServerState:
        """State of the server when it was last asked; whoever only looks on does not ask it."""

    @property
    def not_asked(self) -> str:
        """Reason why its own command could not be asked to stop it, empty otherwise."""

    async def health(self) -> ServerHealth: ...

    async def restart(self) -> ServerInfo: ...

    async def stop(self, grace: float = 5.0) -> bool: ...


@dataclass(frozen=True, slots=True)
class Entrance:
    """A proxy on this machine at which a browser's traffic enters."""

    port: int
    secret: str = field(repr=False)
    """Password that its clients show where the system does not tell whose they are."""
    trusted_key: str = ""
    """Hash of an intercepting proxy's key, whose certificates its browser is to trust."""

    @property
    def intercepts(self) -> bool:
        return bool(self.trusted_key)


class Intercept(Protocol):
    """Opens an intercepting proxy for one session's browser; all goes on to another proxy."""

    def __call__(self, session_id: str, onward: Entrance) -> AbstractAsyncContextManager[Entrance]:
        """Open the proxy for the block. Entering raises BrowserLaunchFailed."""


class Recording(Protocol):
    """The recording of one tab, as the observer keeps it."""

    @property
    def ring(self) -> Ring[Any]:
        """Events of the tab, as part of a timeline."""

    @property
    def next_seq(self) -> int: ...

    @property
    def touched_at(self) -> float:
        """Time when somebody last read it, in epoch milliseconds."""

    async def wait(self, seq: int, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for the first event from a seq on that `found` accepts, and return it."""

    def since(self, seq: int) -> list[dict[str, Any]]:
        """Return events from a seq on, masked as they are shown; the oldest may be gone."""

    async def mapped(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the same events with their places led back to the sources."""

    async def explained(self) -> bool:
        """Wait a moment until more is known of the newest errors: their sources and causes; return
        whether there were any."""

    async def title(self) -> str | None:
        """Return the tab's title, without asking its page; None where it cannot be known."""

    async def value(self, expression: str) -> Any:
        """Return what an expression is in the tab's document; None where it cannot be known."""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send the tab a DevTools command, and return its answer; raises OSError without one."""

    async def body(self, request_id: str) -> str:
        """Return the text of a response's body, masked; empty where there is none."""


class TabRecorder(Protocol):
    """Records the tabs of a browser from their first request on."""

    async def prepare(self) -> None:
        """Make ready now what a recording may need: a tab will be recorded soon."""

    async def claim(
        self, session_id: str, port: int, pipe: BrowserPipe | None, *, shared: bool
    ) -> None:
        """Take note of an e2e session's browser. Its debugging port, if it has one, is this agent's
        alone unless the browser is the user's: from then on every other one is refused it."""

    async def release(self, session_id: str) -> None:
        """Forget a session that has ended, and its browser with it."""

    def foreign_ports(self) -> frozenset[int]:
        """Return the ports of this machine that this agent's browser has no business with."""

    async def record(self, session_id: str, target_id: str, *, and_popups: bool) -> Recording:
        """Record a tab; in a browser of our own also every page opened later, before it runs."""


class Sessions(Protocol):
    """The e2e sessions of one agent."""

    @property
    def sessions(self) -> list[E2eSession]: ...

    @property
    def past(self) -> list[Past]:
        """Sessions that ended last and had failures, the newest at the end."""

    @property
    def state_folder(self) -> Path:
        """Private folder of the logins that were saved by name."""

    async def start(self, request: StartRequest, report: Callable[[str], None]) -> E2eSession:
        """Start a session. Raises the faults that the tool `startSession` declares."""

    def find(self, session_id: str | None) -> E2eSession:
        """Return an open session. Raises SessionNotFound, BrowserCrashed."""

    def failed_logs(self, session_id: str | None) -> FailedLogs:
        """Return the logs of a start that failed; none of any other session."""

    def why_swept(self, session_id: str | None) -> str:
        """Return when and why the files of an ended session were removed, if they were."""

    def mask(self, text: str) -> str:
        """Return a text as it may be shown."""

    def using(self, session_id: str | None) -> AbstractAsyncContextManager[E2eSession]:
        """Hold a session for the length of a call; raises SessionNotFound, BrowserCrashed."""

    async def end(
        self,
        session_id: str | None,
        reason: EndReason = "manual",
        note: str = "",
        *,
        stop_server: bool | None = None,
        remove_logs: bool = False,
    ) -> dict[str, Any]:
        """End a session; return what was left or failed. Raises SessionNotFound, BrowserCrashed."""
