"""Notifies subscribers that a resource changed, without ever making a producer wait.

A change sets a flag; each subscriber has one task that sends what is flagged, at most ten times a
second for a URI, and is dropped when it does not take what is sent. Both protocol eras end here:
a 2025 subscription is a task of ours, a 2026 `subscriptions/listen` is the request's own task.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from anyio.abc import TaskGroup

INTERVAL_S = 0.1
"""Changes of one URI within this time are one notification."""
SEND_TIMEOUT_S = 10.0
"""A subscriber that takes nothing for this long is gone."""

type Topic = tuple[str, str]
"""Session id and URI: one session's changes are nobody else's business. A list that can change is
named by the method that returns it (`tools/list`), which no URI looks like."""


class Subscriber:
    """One client's lasting subscription to changes."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._dirty: dict[str, None] = {}
        self._wake = anyio.Event()
        self.scope = anyio.CancelScope()

    def mark(self, uri: str) -> None:
        self._dirty[uri] = None
        self._wake.set()

    async def pump(self) -> None:
        """Send what is marked until cancelled; ends by itself when the client stopped reading."""
        with self.scope:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                due, self._dirty = self._dirty, {}
                with anyio.move_on_after(SEND_TIMEOUT_S) as patience:
                    for uri in due:
                        await self._send(uri)
                if patience.cancelled_caught:
                    return
                await anyio.sleep(INTERVAL_S)


class Pusher:
    """All subscribers of this process, by their topics."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._topics: dict[Topic, set[Subscriber]] = {}
        self._subscribers: dict[tuple[object, Topic], Subscriber] = {}
        self._clients: dict[object, Callable[[], Awaitable[None]]] = {}
        """Function by which each 2025 client is notified unasked of a changed list of tools."""

    def __len__(self) -> int:
        return len({subscriber for group in self._topics.values() for subscriber in group})

    def changed(self, session_id: str, uri: str) -> None:
        """Mark a resource as changed. Only sets flags: safe on the hottest path."""
        subscribers = self._topics.get((session_id, uri))
        if subscribers:
            for subscriber in subscribers:
                subscriber.mark(uri)

    def meet(self, client: object, send: Callable[[], Awaitable[None]]) -> bool:
        """Tell this 2025 client of a changed list of tools; return whether it was not known."""
        is_new = client not in self._clients
        self._clients[client] = send
        return is_new

    def list_changed(self, name: str) -> None:
        """Tell everybody, in every session, that a list has changed."""
        for session_id, topic in list(self._topics):
            if topic == name:
                self.changed(session_id, name)
        for send in self._clients.values():
            self._tasks.start_soon(_send, send)

    def subscribe(
        self, client: object, session_id: str, uri: str, send: Callable[[str], Awaitable[None]]
    ) -> None:
        """Subscribe a 2025 client; doing so twice is one subscription."""
        topic = (session_id, uri)
        if (client, topic) in self._subscribers:
            return
        subscriber = Subscriber(send)
        self._subscribers[client, topic] = subscriber
        self._topics.setdefault(topic, set()).add(subscriber)
        self._tasks.start_soon(self._serve, client, topic, subscriber)

    def unsubscribe(self, client: object, session_id: str, uri: str) -> None:
        subscriber = self._subscribers.pop((client, (session_id, uri)), None)
        if subscriber is not None:
            subscriber.scope.cancel()

    def forget(self, client: object) -> None:
        """Forget a 2025 client that is gone, with all that it subscribed to."""
        self._clients.pop(client, None)
        for (owner, _), subscriber in list(self._subscribers.items()):
            if owner is client:
                subscriber.scope.cancel()

    async def _serve(self, client: object, topic: Topic, subscriber: Subscriber) -> None:
        try:
            await subscriber.pump()
        except Exception:  # the client's connection broke: nobody is left to notify
            pass
        finally:
            # The client may have subscribed anew meanwhile.
            if self._subscribers.get((client, topic)) is subscriber:
                del self._subscribers[client, topic]
            self._drop(topic, subscriber)

    async def listen(
        self,
        session_id: str,
        uris: Iterable[str],
        acknowledge: Callable[[], Awaitable[None]],
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        """Serve a 2026 listener: return when it stopped reading, raise when it went away."""
        subscriber = Subscriber(send)
        topics = [(session_id, uri) for uri in uris]
        for topic in topics:
            self._topics.setdefault(topic, set()).add(subscriber)
        try:
            # Only now: a client whose request is acknowledged must not miss the very next change.
            await acknowledge()
            await subscriber.pump()
        finally:
            for topic in topics:
                self._drop(topic, subscriber)

    def _drop(self, topic: Topic, subscriber: Subscriber) -> None:
        group = self._topics.get(topic)
        if group is not None:
            group.discard(subscriber)
            if not group:
                del self._topics[topic]


async def _send(send: Callable[[], Awaitable[None]]) -> None:
    with anyio.move_on_after(SEND_TIMEOUT_S), suppress(Exception):  # it has gone meanwhile
        await send()
