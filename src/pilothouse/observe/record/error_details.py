"""More about an error than the browser tells by itself: its place in the sources, its causes.

Both are asked for when the error comes, and told with its event afterwards, for those who read it
without waiting: the timeline, watches, the answers of steps.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from pilothouse.observe.read.stack_frames import places
from pilothouse.observe.record.error_causes import errors_with_more, inner_errors, with_causes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from pilothouse.observe.record.observation import Observation

    type AskSession = Callable[[str, str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a command to a session."""

MOST = 100
"""Errors at once of which more is found out; of a flood the first ones."""
EXPLAINED = frozenset({"error", "warning", "assert"})
"""Console calls of which more is found out, by the protocol's names."""


class ErrorDetails:
    """Finds out more about the errors of one browser."""

    def __init__(self, ask: AskSession) -> None:
        self._ask = ask
        self._tasks: set[asyncio.Future[None]] = set()

    def explain(
        self,
        observation: Observation,
        kept: list[dict[str, Any]],
        method: str,
        params: dict[str, Any],
        session: str,
    ) -> None:
        """Begin to find out more about an error that was kept."""
        if not kept or len(self._tasks) >= MOST:
            return
        if objects := errors_with_more(method, params):
            causes = self._tell_causes(observation, kept[0]["seq"], objects, session)
            self._spawn(causes, observation)
        self._spawn(_tell_places(observation, kept[0]), observation)

    def _spawn(self, work: Coroutine[Any, Any, None], observation: Observation) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        observation.explaining.add(task)
        task.add_done_callback(partial(self._done, observation))

    def _done(self, observation: Observation, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        observation.explaining.discard(task)
        if not task.cancelled():
            task.exception()  # an error whose page has gone keeps its own text

    async def _tell_causes(
        self, observation: Observation, seq: int, objects: list[str], session: str
    ) -> None:
        ask = partial(self._ask, session)
        causes = [text for one in objects for text in await inner_errors(one, ask)]
        if causes:
            most = observation.filters.max_body_bytes
            observation.amend(seq, lambda known: with_causes(known, causes, most))


async def _tell_places(observation: Observation, event: dict[str, Any]) -> None:
    mapper = observation.mapper
    named = places(event)
    if mapper is None or not any(place.get("url") for place in named):
        return
    await mapper.ready({place.get("url") or "" for place in named})
    originals = [await mapper.original(place) for place in named]

    def with_originals(known: dict[str, Any]) -> dict[str, Any]:
        for place, original in zip(places(known), originals, strict=True):
            place["original"] = original
        return known

    if any(originals):
        observation.amend(event["seq"], with_originals)
