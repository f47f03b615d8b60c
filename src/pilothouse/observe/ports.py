"""What the observer's tools ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe
    from pilothouse.observe.connections import Key
    from pilothouse.observe.model import Body, Filters, Target
    from pilothouse.observe.record.observation import Observation


class Observer(Protocol):
    """The targets that one session observes."""

    redactor: Redactor

    @property
    def observations(self) -> list[Observation]:
        """All of them, also those that have ended and are still readable."""

    async def targets(self, host: str | None, port: int | None) -> list[Target]:
        """Return a browser's targets. Raises BrowserUnreachable, SecurityBlocked."""

    async def observe(
        self,
        host: str | None,
        port: int | None,
        target_id: str | None,
        url_includes: str | None,
        *,
        include_workers: bool,
        include_iframes: bool,
        buffer_size: int | None,
        ttl_sec: int | None,
    ) -> Observation:
        """Observe. Raises BrowserUnreachable, SecurityBlocked, TargetNotFound, AlreadyObserving."""

    def share(self, session_id: str, pipe: BrowserPipe) -> Key:
        """Reach an e2e session's own browser by its pipe; return the place to name it by."""

    async def record(self, key: Key, target_id: str, *, and_popups: bool) -> Observation:
        """Observe a tab of an e2e session; as `observe`. In a browser of the session's own, also
        every page that is opened later, before it runs."""

    async def leave(self, key: Key) -> None:
        """Leave the browser of that place, which is about to end: wait for nothing any more."""

    def place(
        self, session_id: str | None, host: str | None, port: int | None
    ) -> tuple[str | None, int | None]:
        """Return where an e2e session's browser is, or without one the host and port as given;
        raises SessionUnknown."""

    async def stop(self, target_id: str, *, drop_buffer: bool) -> None:
        """Stop observing a target. Raises NotObserving."""

    def find(self, target_id: str) -> Observation:
        """Return an observation, also one stopped or without its browser; raises NotObserving."""

    async def title(self, target_id: str) -> str | None:
        """Return the tab's title; None where it cannot be known."""

    async def value(self, target_id: str, expression: str) -> Any:
        """Return what an expression is in the tab's document; None where it cannot be known."""

    async def ask(self, target_id: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a tab that is observed a command; raises BrowserUnreachable."""

    async def picture(self, target_id: str) -> bytes:
        """Return a JPEG of what the tab shows now; empty where it cannot be had."""

    async def body(self, target_id: str, request_id: str) -> Body:
        """Return a response's body. Raises NotObserving, BodyNotAvailable."""

    def set_filters(self, target_id: str, filters: Filters) -> None:
        """Replace the filters of a target. Raises NotObserving."""
