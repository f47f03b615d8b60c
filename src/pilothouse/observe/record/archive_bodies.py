"""Bodies for an archive that were not kept by us: pictures, fonts, bytes.

The browser keeps them as long as it has room; it is asked when an archive is made, within bounds.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from pilothouse.observe.model import BodyNotAvailable
from pilothouse.observe.record.bodies import BUDGET_BYTES, MAX_BODY_BYTES

if TYPE_CHECKING:
    from pilothouse.observe.model import Body
    from pilothouse.observe.ports import Observer
    from pilothouse.observe.record.observation import Observation

MOST = 500
"""Most bodies that are asked for; of more, the newest."""
FETCH_S = 5.0
"""Seconds that an archive waits for them; what has not come by then is said to be not kept."""


async def other_bodies(observer: Observer, observation: Observation) -> dict[str, Body]:
    """Return what the browser still has of a tab that is being observed, by request id."""
    if observation.state != "observing":
        return {}
    found: dict[str, Body] = {}

    async def fetch(request_id: str) -> None:
        with suppress(BodyNotAvailable):
            found[request_id] = await observer.body(observation.target_id, request_id)

    with anyio.move_on_after(FETCH_S):
        async with anyio.create_task_group() as tasks:
            for request_id in _wanted(observation):
                tasks.start_soon(fetch, request_id)
    return found


def _wanted(observation: Observation) -> list[str]:
    """Return the newest that fit into the budget together."""
    wanted: dict[str, None] = {}
    room = BUDGET_BYTES
    for _, seen in reversed(list(observation.ring)):
        if seen.kind != "loadingFinished" or observation.bodies.get(seen.request_id) is not None:
            continue
        size = seen.unpack().get("encodedDataLength") or 0
        if size > MAX_BODY_BYTES:
            continue
        room -= size
        if room < 0 or len(wanted) == MOST:
            break
        wanted[seen.request_id] = None
    return list(wanted)
