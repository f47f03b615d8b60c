"""A server that speaks on stdio, made reachable over HTTP as all other workers are.

One process for each session that shakes hands, and one for all requests of the 2026 era. A worker
has one session or none, so that it is one process in fact; only who captures a template opens more.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from pilothouse.core.net import jsonrpc
from pilothouse.core.net.http1 import LAST_CHUNK, BadMessage, chunk, write_head
from pilothouse.hub.http.connection import Connection
from pilothouse.hub.http.replies import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    JSON,
    METHOD_NOT_FOUND,
    Reply,
    compact,
    error,
    status_line,
)
from pilothouse.hub.http.sse import SSE, event
from pilothouse.hub.mcp.revision_2026 import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    VERSION_HEADER,
)
from pilothouse.hub.mcp.routing_keys import era_of
from pilothouse.hub.ports import Upstream
from pilothouse.hub.workers import StartFailed
from pilothouse.hub.workers.bridges.stdio_pipe import Pipe
from pilothouse.hub.workers.spawned import CommandOutput, SpawnedWorker
from pilothouse.ipc.local_socket import listen_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pilothouse.core.net.http1 import RequestHead
    from pilothouse.hub.workers.bridges.stdio_pipe import Message
    from pilothouse.hub.workers.spawned import CommandLaunch, Keep
    from pilothouse.machine.spawn import OutputReader, Spawn

SESSION = "mcp-session-id"
STATUSES = {
    jsonrpc.PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
KEPT = 256
"""Number of messages kept for the next who listens, while nobody does."""


class EventAnswer:
    """An answer of events, opened with the first of them."""

    def __init__(self, client: Connection, head: RequestHead, session: str) -> None:
        self._client = client
        self._chunked = head.minor == "1"
        self._session = session
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
        fields = [("Content-Type", SSE), ("Cache-Control", "no-cache"), *named(self._session)]
        framing = ("Transfer-Encoding", "chunked") if self._chunked else ("Connection", "close")
        self._client.write(write_head(status_line(200), [*fields, framing]))

    def send(self, message: Message) -> None:
        if not self.is_open:
            self.open()
        data = event(compact(message).encode())
        self._client.write(chunk(data) if self._chunked else data)

    def end(self) -> bool:
        """End the answer; return whether the client may ask again on its connection."""
        if self._chunked:
            self._client.write(LAST_CHUNK)
        return self._chunked


def status_of(answer: Message) -> int:
    """Return the status of an answer of the 2026 era, where it tells errors of the protocol too."""
    error = answer.get("error")
    code: Any = error.get("code") if isinstance(error, dict) else None
    return STATUSES.get(code, 200)


def named(session: str) -> list[tuple[str, str]]:
    return [(SESSION, session)] if session else []


class Talk:
    """A session with one process."""

    def __init__(self, worker: SpawnedWorker, said: CommandOutput) -> None:
        process = worker.process
        assert process.stdin is not None
        assert process.stdout is not None
        self.worker = worker
        self.push_stream: EventAnswer | None = None
        self._answering: list[EventAnswer] = []
        self._kept: deque[Message] = deque(maxlen=KEPT)
        self.pipe = Pipe(process.stdin, self._unasked, said.take)
        self._listening = asyncio.create_task(self._listen(process.stdout))

    async def _listen(self, out: OutputReader) -> None:
        await self.pipe.listen(out)
        # Its last words come by another pipe.
        await asyncio.wait([self.worker.died], timeout=1)
        self.pipe.end(f"the server has ended; it said: {self.worker.last_words}")

    def _unasked(self, message: Message) -> None:
        """Send it on the push stream, else along with an answer, else keep it."""
        stream = self.push_stream or (self._answering[-1] if self._answering else None)
        if stream is None:
            self._kept.append(message)
        else:
            stream.send(message)

    def give_kept(self, stream: EventAnswer) -> None:
        while self._kept:
            stream.send(self._kept.popleft())

    async def answer(
        self, message: Message, stream: EventAnswer, *, leaving_cancels: bool
    ) -> Message | None:
        """Return the answer, None if it went out as the last event of the stream."""
        done: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def receive(said: Message) -> None:
            if "method" in said:
                stream.send(said)
            elif not done.done():
                done.set_result(said)

        number = self.pipe.ask(message, receive)
        self._answering.append(stream)
        try:
            answered = await done
        finally:
            self._answering.remove(stream)
            self.pipe.forget(number, cancel=leaving_cancels)
        if not stream.is_open:
            return answered
        stream.send(answered)
        return None


class BridgedWorker(SpawnedWorker):
    """The worker, and the HTTP server before it."""

    _server: asyncio.Server
    _talks: dict[str, Talk]
    _spare: Talk | None
    _others: set[SpawnedWorker]
    """Further processes that live."""
    _more: Callable[[], Awaitable[Talk]]

    @classmethod
    async def open_at(cls, path: Path, spawn: Spawn, launch: CommandLaunch, keep: Keep) -> Self:
        """Start the command, and listen at the path for it. Raises StartFailed."""
        said = CommandOutput()
        worker = await cls.open(spawn, launch, said, keep, stdio=True)
        worker.address = Upstream("localhost", path=str(path))
        worker._talks = {}
        worker._others = set()
        worker._spare = Talk(worker, said)

        async def more() -> Talk:
            said = CommandOutput()
            other = await SpawnedWorker.open(spawn, launch, said, keep, stdio=True)
            worker._others.add(other)
            other.died.add_done_callback(lambda _: worker._others.discard(other))
            return Talk(other, said)

        worker._more = more
        try:
            worker._server = await asyncio.get_running_loop().create_unix_server(
                lambda: Connection(worker), sock=listen_at(str(path))
            )
        except BaseException:
            worker.process.kill_now()
            raise
        worker.died.add_done_callback(lambda _: worker._close(path))
        return worker

    def _close(self, path: Path) -> None:
        self._server.close()
        path.unlink(missing_ok=True)
        for other in self._others:
            other.process.kill_now()

    async def stop(self, grace: float) -> None:
        others = [other.stop(grace) for other in self._others]
        await asyncio.gather(super().stop(grace), *others)

    async def _talk(self) -> Talk:
        spare, self._spare = self._spare, None
        return spare or await self._more()

    # HTTP

    def opened(self, client: Connection) -> bool:
        return not self.died.done()

    def closed(self, client: Connection) -> None:
        """Do nothing: its request, if any, is cancelled."""

    async def serve(self, client: Connection) -> bool:
        """Serve one request; return whether there may be another."""
        head: RequestHead | None = None
        try:
            head = await client.head()
            done = await self._handle(client, head)
        except BadMessage as bad:
            done, head = error(bad.status, -32700, str(bad)), None
        except StartFailed as failed:
            done = error(503, -32603, f"the server did not start: {failed}")
        return client.reply(head, done) if isinstance(done, Reply) else done

    async def _handle(self, client: Connection, head: RequestHead) -> Reply | bool:
        era = era_of(head.one(VERSION_HEADER))
        session = (head.one(SESSION) or "") if era == "2025" else ""
        talk = self._talks.get(session or era)
        if head.method == "POST":
            message = jsonrpc.parse(await client.body(head, jsonrpc.MAX_BYTES) or b"")
            if isinstance(message, jsonrpc.Refusal):
                return Reply(400, compact(message.response()).encode(), JSON)
            if talk is None and era == "2026":
                talk = self._talks[era] = await self._talk()
            if talk is None and message.get("method") == "initialize" and not session:
                session = str(uuid.uuid4())
                talk = self._talks[session] = await self._talk()
            if talk is not None:
                return await self._post(client, head, session, talk, message)
        elif head.method == "GET" and talk is not None:
            return await self._stand(client, head, session, talk)
        elif head.method == "DELETE" and talk is not None:
            del self._talks[session or era]
            if talk.worker is not self:  # our own process ends with the worker
                talk.worker.process.kill_now()
            return Reply(200)
        return error(404, -32600, "Session not found")

    async def _post(
        self, client: Connection, head: RequestHead, session: str, talk: Talk, message: Message
    ) -> Reply | bool:
        if "id" not in message or "method" not in message:
            talk.pipe.send(message)
            return Reply(202)
        stream = EventAnswer(client, head, session)
        talk.give_kept(stream)
        answer = await talk.answer(message, stream, leaving_cancels=not session)
        if answer is None:
            return stream.end()
        status = 200 if session else status_of(answer)
        return Reply(status, compact(answer).encode(), JSON, tuple(named(session)))

    async def _stand(
        self, client: Connection, head: RequestHead, session: str, talk: Talk
    ) -> Reply | bool:
        if talk.push_stream is not None:
            return error(409, -32600, "Conflict: Only one SSE stream is allowed per session")
        talk.push_stream = EventAnswer(client, head, session)
        talk.push_stream.open()
        talk.give_kept(talk.push_stream)
        try:
            await asyncio.shield(talk.worker.died)
        finally:
            talk.push_stream = None
        return False
