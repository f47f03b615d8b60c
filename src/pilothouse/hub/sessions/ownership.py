"""Whose workers may be used here, when several gateways share the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.hub.ports import Fence, Lease, PlacedWorkers, Worker


class FencedWorkers:
    """Uses a worker only under the token under which it was started; a `Workers` port.

    Where the workers run is not known here: those of another machine are one more `PlacedWorkers`.
    """

    def __init__(self, workers: PlacedWorkers, fence: Fence) -> None:
        self._workers = workers
        self._fence = fence
        self._tokens: dict[Key, int] = {}

    async def get(self, key: Key, record: SessionRecord) -> Lease:
        """Return a lease under a token that holds. Raises as `Workers.get` and `Fence.token` do."""
        while True:
            token = await self._fence.token(key)
            if self._tokens.get(key, token) != token:
                self.drop(key)
            self._tokens[key] = token
            lease = await self._workers.get(key, record)
            try:
                # It may have taken seconds to start.
                if await self._fence.token(key) == token:
                    owes_notice = await self._fence.use(key)
                    return _Fenced(lease, is_fresh=owes_notice or lease.is_fresh)
            except BaseException:
                await lease.__aexit__(None, None, None)
                raise
            await lease.__aexit__(None, None, None)

    def running(self, key: Key) -> Worker | None:
        return self._workers.running(key) if self._fence.holds(key) else None

    async def end(self, key: Key) -> None:
        self._tokens.pop(key, None)
        await self._workers.end(key)

    def drop(self, key: Key) -> None:
        """Drop the worker of a key that another gateway serves, or did meanwhile."""
        self._tokens.pop(key, None)
        self._workers.drop(key)


class _Fenced:
    """A lease that may have more to tell."""

    def __init__(self, lease: Lease, *, is_fresh: bool) -> None:
        self._lease = lease
        self.worker = lease.worker
        self.is_fresh = is_fresh

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._lease.__aexit__(kind, error, trace)
