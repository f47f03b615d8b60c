"""What a worker asks of its hub: the services that exist once on the machine.

Groups know this port alone; how it is carried is the gateway's affair. A process that serves
everything by itself has no hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager


class HubLost(Exception):
    """The hub cannot be asked: the message says why, the hint what to do about it."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class HubPort(Protocol):
    """The hub as one worker reaches it. A method of a service is named `service.method`."""

    session: str
    """The hub's name for the agent that this worker serves: every worker of that agent has it."""

    @property
    def lost(self) -> HubLost | None:
        """The reason why the hub cannot be asked; None while it can."""

    async def call(self, do: str, /, **given: Any) -> Any:
        """Return what the service answers.

        Raises:
            Fault: as the service raised it.
            HubLost
        """

    def hold(self, do: str, /, **given: Any) -> AbstractAsyncContextManager[Any]:
        """Hold what the service lends until the block ends; the hub takes it back when we die.

        Raises:
            Fault, HubLost: as `call` does, when it is entered.
        """

    def tell(self, do: str, /, **given: Any) -> None:
        """Send something that needs no answer; to a lost hub nothing is sent."""

    def listen(
        self, service: str, hear: Callable[[str, dict[str, Any]], None]
    ) -> Callable[[], None]:
        """Call `hear` with the name and details of what happens there, until the returned
        function is called."""
