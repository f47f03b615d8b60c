"""Our own server as a worker, forked from a warm parent (zygote.py)."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from pilothouse.hub.http.client import NoAnswer, get
from pilothouse.hub.ports import Upstream
from pilothouse.hub.workers import LONGEST_PATH, SHOWN_LINES, StartFailed, Use, can_be_temp
from pilothouse.hub.workers.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import Key, SessionRecord
    from pilothouse.machine.spawn import Process, Spawn

WARM_S = 60.0
"""Seconds that the parent may take: the first one on a machine compiles what it imports."""
LEAVE_S = 5.0
"""Seconds that workers may take to close their browsers when the hub ends."""
USE_PATH = "/use"
USE_S = 5.0
MOST_UNANSWERED = 3
"""Times in a row that a worker may not say whether it is in use before it is taken for hung."""
LINES = ".lines"
"""Suffix to the path of a worker's socket: the one on which it speaks with a relay."""
SERVICES = "services"
"""The socket, beside those of the workers, at which the hub has what all of them share."""
TEMP = ".tmp"
"""Suffix to it as well: the folder for what the worker's browsers keep while they run."""
_CLEAR_S = (0.0, 0.2, 1.0, 5.0)
"""Seconds before each try to remove that folder: a browser being killed may still write there."""
_LINE_LIMIT = 1 << 20
_PARENT = "parent"
LONGEST_WHY = 200
"""Characters of what a parent says that are logged."""


class ForkedWorker:
    """One worker of the parent's. Made by `Builtin` alone."""

    def __init__(self, name: str, socket: Path, tell: Callable[..., None]) -> None:
        self.name = name
        self.pid = 0
        self.address = Upstream("localhost", path=str(socket), lines=f"{socket}{LINES}")
        loop = asyncio.get_running_loop()
        self.died: asyncio.Future[None] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.last_words = ""
        self._socket = socket
        self._temp = socket.with_name(socket.name + TEMP)
        self._clearing: asyncio.Task[None] | None = None
        self._tell = tell
        self._unanswered = 0
        """Number of times in a row that it did not say whether it is in use."""

    def make_temp(self) -> str:
        """Make a folder that ends with the worker however it ends; return its path, '' where it
        would be too long for what Chromium puts in it."""
        if not can_be_temp(self._temp):
            return ""
        self._temp.mkdir(0o700)
        return str(self._temp)

    async def use(self) -> Use:
        try:
            told = await get(self.address, USE_PATH, USE_S)
        except NoAnswer:
            # Who is too busy to answer is in use; who is so each time is past help.
            self._unanswered += 1
            return Use.HOLDING if self._unanswered < MOST_UNANSWERED else Use.NONE
        self._unanswered = 0
        return Use(told.body)

    async def stop(self, grace: float) -> None:
        if grace > 0 and not self.died.done():
            self._tell(signal=self.name, number=signal.SIGTERM)
            await asyncio.wait([self.died], timeout=grace)
        if not self.died.done():
            self._tell(signal=self.name, number=signal.SIGKILL)
        await asyncio.shield(self.died)

    def failed(self, why: str) -> None:
        self.last_words = why = "\n".join(why.splitlines()[-SHOWN_LINES:])
        if not self.ready.done():
            self.ready.set_exception(StartFailed(why))
            self.ready.exception()  # whoever waited may have left

    def ended(self, how: str) -> None:
        for path in (self._socket, self._socket.with_name(self._socket.name + LINES)):
            path.unlink(missing_ok=True)
        if self._temp.exists():
            self._clearing = asyncio.create_task(_clear(self._temp))
        self.failed(self.last_words or how)
        if not self.died.done():
            self.died.set_result(None)


async def _clear(folder: Path) -> None:
    """Remove a folder; what cannot be removed after a while goes with the hub."""
    for wait in _CLEAR_S:
        await asyncio.sleep(wait)
        if await asyncio.to_thread(_removed, folder):
            return


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


class ZygoteClient:
    """The hub's end of one zygote."""

    def __init__(
        self,
        process: Process,
        link: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        report: Callable[..., None],
    ) -> None:
        self.process = process
        self._report = report
        self.workers: dict[str, ForkedWorker] = {}
        self.warm = asyncio.Event()
        """Set when the zygote may be asked, or is gone already."""
        self.gone = asyncio.Event()
        self._reader, self._writer = link
        self._listening = asyncio.create_task(self._listen())

    def tell(self, **word: object) -> None:
        if not self.gone.is_set():
            self._writer.write(json.dumps(word).encode() + b"\n")

    async def _listen(self) -> None:
        """Listen until it ends; what was forked from it ends with it."""
        try:
            # A word that no parent of ours sends ends it: its sender knows no workers either.
            with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
                while line := await self._reader.readline():
                    self._receive(json.loads(line))
        finally:
            self.gone.set()
            self.warm.set()
            self._writer.close()
            self.process.kill_now()
            for worker in self.workers.values():
                worker.ended("the parent of all workers has ended")
            self.workers.clear()

    def _receive(self, word: dict[str, Any]) -> None:
        match word:
            case {"warm": _}:
                self.warm.set()
            case {"forked": name, "pid": pid}:
                self.workers[name].pid = pid
            case {"ready": name}:
                _settle(self.workers[name].ready)
            case {"failed": name, "why": why}:
                self.workers[name].failed(why)
            case {"ended": name, "code": code}:
                self.workers.pop(name).ended(f"it ended with exit code {code}")
            case {"refused": why}:
                why = str(why)[:LONGEST_WHY]
                name = word.get("fork", "")
                self._report("parent_refused", worker=name, why=why)
                if worker := self.workers.pop(name, None):
                    worker.ended(f"the parent of all workers refused to start it: {why}")


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Builtin:
    """The kind of our own server."""

    def __init__(
        self,
        *,
        argv: Sequence[str],
        folder: Path,
        cwd: Path,
        env: Mapping[str, str],
        stderr: int,
        spawn: Spawn,
        settings: Mapping[str, Any],
        template: Callable[[], Template],
    ) -> None:
        """Take `argv`, which starts a parent once the path of the hub's socket is added; `folder`,
        for sockets and nobody else's; and the hub's own `settings`, as JSON holds them."""
        if len(bytes(folder)) + 20 > LONGEST_PATH:
            raise ValueError(f"{folder} is too long a path for the sockets of workers")
        self._argv = argv
        self._folder = folder
        self._cwd = cwd
        self._env = env
        self._stderr = stderr
        self._spawn = spawn
        self._settings = settings
        self._template = template
        self.report: Callable[..., None] = lambda event, **details: None
        """Callback for what happens."""
        self._parent: ZygoteClient | None = None
        self._processes: list[Process] = []
        """Parents that may still run."""
        self._preparing = asyncio.Lock()
        self._numbers = count(1)
        self._closed = False
        self._trouble = ""
        """Why the last parent did not start."""
        self._trying: asyncio.Task[None] | None = None
        self._breaker = Breaker(time.monotonic)

    @property
    def parent_pid(self) -> int | None:
        alive = self._parent is not None and not self._parent.gone.is_set()
        return self._parent.process.pid if self._parent and alive else None

    async def prepare(self) -> None:
        async with self._preparing:
            if self._closed:
                raise StartFailed("the hub is about to end")
            if self.parent_pid is None:
                self._parent = await self._try_parent()

    def trouble(self) -> str:
        is_trying = self._trying is not None and not self._trying.done()
        if self._trouble and not is_trying and not self._breaker.wait(_PARENT):
            self._trying = asyncio.create_task(self._try_again())
        return self._trouble

    async def _try_again(self) -> None:
        with suppress(StartFailed):
            await self.prepare()

    async def _try_parent(self) -> ZygoteClient:
        try:
            parent = await self._start_parent()
        except StartFailed as failed:
            self._trouble = str(failed)
            self._breaker.failed(_PARENT)
            raise
        self._trouble = ""
        self._breaker.went_well(_PARENT)
        return parent

    async def _start_parent(self) -> ZygoteClient:
        path = self._folder / f"p{next(self._numbers)}"
        came: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        came = asyncio.get_running_loop().create_future()
        server = await asyncio.start_unix_server(
            lambda *link: came.set_result(link) if not came.done() else link[1].close(),
            path,
            limit=_LINE_LIMIT,
        )
        process = None
        try:
            path.chmod(0o600)
            process = await self._spawn(
                [*self._argv, str(path)],
                cwd=self._cwd,
                env=self._env,
                stdout=self._stderr,
                stderr=self._stderr,
            )
            self._processes = [one for one in self._processes if not one.gone] + [process]
            async with asyncio.timeout(WARM_S):
                link = await _before_its_end(process, came)
                parent = ZygoteClient(process, link, self.report)
                await parent.warm.wait()
            if parent.gone.is_set():
                raise StartFailed("the parent of all workers ended while it warmed up")
        except BaseException as error:
            if process is not None:
                process.kill_now()
            if isinstance(error, OSError | TimeoutError):
                why = f"the parent of all workers did not start: {error!r}"
                raise StartFailed(why) from None
            raise
        finally:
            server.close()
            path.unlink(missing_ok=True)
        return parent

    async def start(self, key: Key, record: SessionRecord, within: float) -> ForkedWorker:
        await self.prepare()
        parent = self._parent
        assert parent is not None
        name = f"w{next(self._numbers)}"
        worker = ForkedWorker(name, self._folder / name, parent.tell)
        parent.workers[name] = worker
        parent.tell(
            fork=name,
            socket=worker.address.path,
            cwd=record.cwd or str(self._cwd),
            # A relay's settings are its user's, all of them; other clients have the hub's.
            settings=record.settings if key.kind == "relay" else self._settings,
            session=key.name,
            services=str(self._folder / SERVICES),
            temp=worker.make_temp(),
        )
        try:
            async with asyncio.timeout(within):
                await worker.ready
        except TimeoutError:
            parent.tell(signal=name, number=signal.SIGKILL)
            raise StartFailed(f"it did not answer within {within:g} s") from None
        except BaseException:
            parent.tell(signal=name, number=signal.SIGKILL)
            raise
        return worker

    async def template(self) -> Template:
        return self._template()

    async def close(self) -> None:
        self._closed = True
        async with self._preparing:
            await asyncio.gather(*(process.stop(LEAVE_S) for process in self._processes))
        if self._parent is not None:
            await self._parent.gone.wait()


async def _before_its_end[T](process: Process, wanted: asyncio.Future[T]) -> T:
    """Return what was waited for. Raises StartFailed when the process ends instead."""
    end = asyncio.ensure_future(process.wait())
    first: list[asyncio.Future[Any]] = [end, wanted]
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise StartFailed(f"the parent of all workers ended with exit code {end.result()}")
        return wanted.result()
    finally:
        end.cancel()
