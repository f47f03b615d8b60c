"""The hub's control socket, spoken to by relays, commands and whoever should not be there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse import __version__
from pilothouse.hub.control.protocol import ask
from pilothouse.hub.control.server import ControlServer
from pilothouse.hub.model import TooBusy
from pilothouse.hub.ports import Upstream
from pilothouse.hub.sessions.registry import MemoryRegistry
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.model import Key, SessionRecord

pytestmark = pytest.mark.anyio

HELLO = {"version": __version__, "pid": 7, "settings": {"cdp_port": 9333}, "cwd": "/tmp"}
NOBODY = 65534


class Lease:
    is_fresh = True

    def __init__(self, address: Upstream) -> None:
        self.worker = self
        self.address = address

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Crew:
    """Workers that are there at once, later, or not at all."""

    def __init__(self) -> None:
        self.asked: list[SessionRecord] = []
        self.ended: list[Key] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0
        self.full = False

    async def get(self, key: Key, record: SessionRecord) -> Any:
        self.asked.append(record)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.full:
            raise TooBusy("no room", retry_after=10)
        return Lease(Upstream("localhost", path="/p", lines="/p.lines"))

    def running(self, key: Key) -> Any:
        return None

    async def end(self, key: Key) -> None:
        self.ended.append(key)


class Visit:
    """One connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def say(self, **word: object) -> None:
        self.writer.write(json.dumps(word).encode() + b"\n")

    async def hear(self) -> Any:
        """What the next line says; None at the end, also at one that cut off what we said."""
        try:
            async with asyncio.timeout(30):
                line = await self._reader.readline()
        except ConnectionResetError:
            return None
        return json.loads(line) if line else None

    async def ask(self, **word: object) -> Any:
        await self.say(**word)
        return await self.hear()


class Rig:
    def __init__(
        self, path: Path, crew: Crew, server: ControlServer, stopped: asyncio.Event
    ) -> None:
        self.path = path
        self.crew = crew
        self.server = server
        self.stopped = stopped

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[Visit]:
        reader, writer = await asyncio.open_unix_connection(self.path)
        try:
            yield Visit(reader, writer)
        finally:
            writer.close()


@pytest.fixture
async def rig(sockets: Path) -> AsyncIterator[Rig]:
    crew, stopped = Crew(), asyncio.Event()
    server = ControlServer(
        workers=crew,
        registry=MemoryRegistry(time.monotonic, max_sessions=3),
        clock=time.monotonic,
        about={"version": __version__, "pid": 1, "url": "http://x", "worker": "builtin"},
        status=lambda: {"relays": len(server.relays)},
        stop=stopped.set,
        settings={"worker_idle": 60, "cdp_port": 1},
    )
    path = sockets / "hub.sock"
    async with server.open_at(path):
        yield Rig(path, crew, server, stopped)
    assert not path.exists()


async def test_a_relay_joins_gets_a_worker_and_its_session_ends_with_its_connection(
    rig: Rig,
) -> None:
    async with rig.visit() as relay:
        welcome = (await relay.ask(hello=HELLO))["welcome"]
        assert welcome["version"] == __version__
        assert await relay.ask(worker=True) == {"worker": {"lines": "/p.lines", "fresh": True}}
        (record,) = rig.crew.asked
        assert record.key.kind == "relay"
        assert record.cwd == "/tmp"
        assert record.settings == {"worker_idle": 60, "cdp_port": 9333}  # its own before the hub's
        assert await relay.ask(status=True) == {"status": {"relays": 1}}
        assert rig.crew.ended == []
    await until(lambda: rig.crew.ended == [record.key])
    assert rig.server.relays == {}


async def test_each_relay_is_another_session(rig: Rig) -> None:
    async with rig.visit() as one, rig.visit() as other:
        for relay in (one, other):
            await relay.ask(hello=HELLO)
            await relay.ask(worker=True)
    assert len({record.key for record in rig.crew.asked}) == 2


async def test_a_relay_that_leaves_while_its_worker_starts_is_noticed(rig: Rig) -> None:
    rig.crew.gate.clear()
    async with rig.visit() as relay:
        await relay.ask(hello=HELLO)
        await relay.say(worker=True)
        await until(lambda: len(rig.crew.asked) == 1)
    await until(lambda: rig.crew.cancelled == 1)
    await until(lambda: len(rig.crew.ended) == 1)


async def test_a_fault_is_told_in_full_and_the_relay_may_ask_again(rig: Rig) -> None:
    rig.crew.full = True
    async with rig.visit() as relay:
        await relay.ask(hello=HELLO)
        told = await relay.ask(worker=True)
        assert told == {"fault": {"message": "no room", "code": -32603, "retryAfter": 10}}
        rig.crew.full = False
        assert "worker" in await relay.ask(worker=True)


async def test_too_many_relays_are_refused_in_words(rig: Rig) -> None:
    async with rig.visit() as a, rig.visit() as b, rig.visit() as c, rig.visit() as d:
        for relay in (a, b, c):
            assert "welcome" in await relay.ask(hello=HELLO)
        assert "--max-sessions" in (await d.ask(hello=HELLO))["refused"]


async def test_a_relay_of_another_version_is_refused(rig: Rig) -> None:
    async with rig.visit() as relay:
        told = await relay.ask(hello={**HELLO, "version": "9.9.9"})
        assert "9.9.9" in told["refused"]
        assert rig.server.relays == {}


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"[1]\n",
        b'{"hello": {"version": "1"}}\n',
        b'{"worker": true}\n',
        b'{"nothing": 1}\n',
        b"\xff\xfe\n",
    ],
)
async def test_noise_is_refused_and_hung_up_on(rig: Rig, noise: bytes) -> None:
    async with rig.visit() as visit:
        visit.writer.write(noise)
        assert "refused" in await visit.hear()
        assert await visit.hear() is None
    assert rig.crew.asked == []


async def test_a_line_without_end_is_hung_up_on(rig: Rig) -> None:
    async with rig.visit() as visit:
        visit.writer.write(b"x" * (3 << 20))
        assert await visit.hear() is None


async def test_anybody_of_this_user_may_ask_for_the_status_and_for_the_end(rig: Rig) -> None:
    assert await asyncio.to_thread(ask, str(rig.path), {"status": True}) == {
        "status": {"relays": 0}
    }
    assert not rig.stopped.is_set()
    assert await asyncio.to_thread(ask, str(rig.path), {"stop": True}) == {"stopping": True}
    assert rig.stopped.is_set()


async def test_the_socket_is_for_this_user_alone(rig: Rig) -> None:
    assert rig.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_who_reaches_the_socket_all_the_same_gets_nothing(rig: Rig) -> None:
    rig.path.chmod(0o666)
    rig.path.parent.chmod(0o711)
    script = (
        f"import os,socket\nos.setuid({NOBODY})\nlink=socket.socket(socket.AF_UNIX)\n"
        f"link.connect({str(rig.path)!r})\n"
        "try: link.sendall(b'{\"status\": true}\\n'); print(link.recv(100))\n"
        "except OSError: print(b'')"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, timeout=60
    )
    assert done.stdout.strip() == b"b''", done


async def test_nobody_there_is_told_apart_from_silence(sockets: Path) -> None:
    assert ask(str(sockets / "nothing"), {"status": True}) is None
