"""Workers that are commands of their own, and what all of them have in common."""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from pilothouse.hub.workers import SHOWN_LINES, StartFailed, Use

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pilothouse.hub.ports import Upstream
    from pilothouse.machine.spawn import OutputReader, Process, Spawn

    type Keep = Callable[[SpawnedWorker], None]
    """Callback that gets each process as soon as it runs, to see to its end."""

LONGEST_LINE = 64 << 10
"""Bytes of a line; of a longer one the end is kept."""
KEPT_LINES = 40


@dataclass(frozen=True, slots=True)
class CommandLaunch:
    """A command that is to be started."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    clean_up: Callable[[], None] = field(default=lambda: None)
    """Callback for when it and everything below it has gone."""


class CommandOutput:
    """Output of a command: every line is offered to whoever listens, the last ones are kept."""

    def __init__(self, listen: Callable[[str], None] = lambda line: None) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._listen = listen

    def __str__(self) -> str:
        return "\n".join(list(self._lines)[-SHOWN_LINES:])

    def take(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._lines.append(text)
            self._listen(text)

    async def drain(self, reader: OutputReader | None) -> None:
        """Read to the end: a command whose pipe is full stands still."""
        rest = b""
        while reader is not None and (piece := await reader.read(1 << 16)):
            *lines, rest = (rest + piece).split(b"\n")
            rest = rest[-LONGEST_LINE:]
            for line in lines:
                self.take(line)
        self.take(rest)


class SpawnedWorker:
    """A command that serves. `address` must be set before anybody but its kind sees it."""

    address: Upstream

    def __init__(self, process: Process, said: CommandOutput, launch: CommandLaunch) -> None:
        self.pid = process.pid
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.process = process
        self._said = said
        self._launch = launch
        outputs = (process.stdout, process.stderr) if process.stdin is None else (process.stderr,)
        self._drains = [asyncio.create_task(said.drain(output)) for output in outputs]
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def open(
        cls,
        spawn: Spawn,
        launch: CommandLaunch,
        said: CommandOutput,
        keep: Keep,
        *,
        stdio: bool = False,
    ) -> Self:
        """Start it; with `stdio`, its standard input and output are left to the caller.

        Raises:
            StartFailed: there is no such command, or it cannot be run.
        """
        argv = list(launch.argv)
        argv[0] = shutil.which(argv[0], path=launch.env.get("PATH")) or argv[0]
        try:
            process = await spawn(
                argv,
                cwd=launch.cwd,
                env=launch.env,
                stdout="pipe",
                stderr="pipe",
                stdin="pipe" if stdio else None,
            )
        except (OSError, ValueError) as error:
            launch.clean_up()
            raise StartFailed(f"{argv[0]} cannot be run: {error}") from None
        except BaseException:
            launch.clean_up()
            raise
        worker = cls(process, said, launch)
        keep(worker)
        return worker

    @property
    def last_words(self) -> str:
        return str(self._said)

    async def use(self) -> Use:
        """Return none: what a server of somebody else's holds cannot be known."""
        return Use.NONE

    async def stop(self, grace: float) -> None:
        await self.process.stop(grace)
        await asyncio.shield(self.died)

    async def _watch(self) -> None:
        try:
            await self.process.wait()
            # What it left running is of no use to anybody.
            await self.process.stop(0)
            await asyncio.wait(self._drains)
        finally:
            self._launch.clean_up()
            if not self.died.done():
                self.died.set_result(None)

    async def started[T](self, wanted: asyncio.Future[T], what: str, within: float) -> T:
        """Return what the start waits for. The worker is ended unless that comes.

        Raises:
            StartFailed: it ended, or did not do `what` in time.
        """
        waits: list[asyncio.Future[Any]] = [wanted, self.died]
        try:
            await asyncio.wait(waits, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            if wanted.done():
                return wanted.result()
            code = self.process.exit_code
            ended = f"it ended with exit code {code}" if self.died.done() else ""
            why = ended or f"it did not {what} within {within:g} s"
            said = f"; it said: {self._said}" if str(self._said) else "; it said nothing"
            raise StartFailed(why + said)
        finally:
            if not wanted.done():
                self.process.kill_now()
