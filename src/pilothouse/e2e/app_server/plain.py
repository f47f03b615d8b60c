"""Plain dev servers: started on a free port, waited for until they answer, logged, stopped.

    start_plain ── free port ── spawn ──┬── answers: PlainServer
                      ▲                 ├── ended because the port was taken
                      └─────────────────┘      (only of a port that we chose)
                                        ├── ended otherwise: ServerStartFailed at once
                                        ├── crashed below its reloader: ServerStartFailed soon
                                        └── too late: ServerStartFailed

A command that ignores PORT is found by what it prints, or by the one port on which it listens,
and only if that port belongs to its own processes: another app may have been there before.
"""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio

from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.app_server import probe
from pilothouse.e2e.app_server.detect import fixed_port, with_port
from pilothouse.e2e.app_server.logs.output import MOST_BYTES, open_output
from pilothouse.e2e.app_server.logs.reader import tail as tail_of
from pilothouse.e2e.app_server.run import Crashed, Ended, Run
from pilothouse.e2e.app_server.start_failures import PortClash, StartFailures
from pilothouse.e2e.model import (
    LogPaths,
    ServerHealth,
    ServerInfo,
    ServerStartFailed,
    ShutdownFailed,
)
from pilothouse.machine.net.local_ports import free_port, is_taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pilothouse.core.net import url_policy
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.e2e.app_server.logs.output import OnLine, Output
    from pilothouse.e2e.app_server.logs.reader import Tail
    from pilothouse.e2e.app_server.probe import AppAddress
    from pilothouse.e2e.model import ServerState, ServiceSpec, Stream
    from pilothouse.machine.spawn import Process, Spawn

    type Find = Callable[[], Awaitable[Sequence[url_policy.Address]]]
    """Lookup of the addresses at which an app may be asked; none while there are none."""

CLASHES = 3
"""Attempts with another free port, when somebody was quicker to take the one that we found."""
STOP_S = 5.0
CRASHED_STOP_S = 0.5
"""Seconds for what waits for an edit after a crash: the failure shall be reported soon."""
NO_LOGS = LogPaths()


def _nothing(*_: object) -> None:
    pass


async def start_plain(
    spec: ServiceSpec,
    argv: Sequence[str],
    *,
    spawn: Spawn,
    folder: Path,
    env: Mapping[str, str],
    clock: Clock,
    on_line: OnLine = _nothing,
    on_exit: Callable[[int], None] = _nothing,
    report: Callable[[str], None] = _nothing,
    check: Callable[[], object] = _nothing,
    most_log_bytes: int = MOST_BYTES,
) -> PlainServer:
    """Start a command and wait until it answers HTTP.

    `argv[0]` is a path, by which it was judged whether it may be run; `check` judges the command
    anew before a restart. `folder` is a private one, for the logs. `on_exit` is called when the
    server dies by itself.

    Raises:
        ServerStartFailed: it ended, was not ready in time, or could not be started at all.
    """
    wanted = fixed_port(argv) or spec.port or _number(spec.env.get("PORT", ""))
    if wanted and is_taken(wanted):
        holder = await asyncio.to_thread(probe.holder_of, wanted)
        raise ServerStartFailed(
            f"Port {wanted} is taken by {holder}.",
            hint="Leave the port out to get a free one; if that is the app itself,"
            f" startSession(url: 'http://localhost:{wanted}') uses it as it runs.",
            reason=f"port {wanted} is taken by {holder}",
        )
    output = open_output(folder, spec.name, on_line, most_log_bytes)
    server = PlainServer(
        spec,
        argv,
        output,
        spawn=spawn,
        env=env,
        clock=clock,
        on_exit=on_exit,
        report=report,
        check=check,
    )
    try:
        for left in reversed(range(1 if wanted else CLASHES)):
            try:
                await server.open(wanted or free_port())
                break
            except PortClash:
                if not left:
                    raise
    except BaseException:
        output.close()
        raise
    return server


class PlainServer:
    """A dev server that is our child."""

    def __init__(
        self,
        spec: ServiceSpec,
        argv: Sequence[str],
        output: Output,
        *,
        spawn: Spawn,
        env: Mapping[str, str],
        clock: Clock,
        on_exit: Callable[[int], None],
        report: Callable[[str], None],
        check: Callable[[], object],
    ) -> None:
        self._spec = spec
        self._argv = tuple(argv)
        self._output = output
        self._spawn = spawn
        self._env = env
        self._clock = clock
        self._failures = StartFailures(spec, argv, output)
        self._on_exit = on_exit
        self._report = report
        self._check = check
        self._run: Run | None = None
        self._address: AppAddress | None = None
        self._port = 0
        self._info: ServerInfo | None = None
        self._exit_code: int | None = None
        self.last_seen: ServerState = "running"
        self.not_asked = ""
        self._watching: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._started_at = 0.0

    @property
    def info(self) -> ServerInfo:
        assert self._info is not None, "start_plain hands out servers that answer"
        return self._info

    @property
    def exit_code(self) -> int | None:
        """Exit code of a server that has ended by itself, None while it runs."""
        return self._exit_code

    async def open(self, port: int) -> None:
        """Run the command on this port and wait until it answers."""
        self._port = port
        cwd = Path(self._spec.cwd)
        argv, hints = with_port(self._argv, port, cwd)
        # Buffered output would be lost where it is needed most, just before a crash.
        hints["PYTHONUNBUFFERED"] = "1"
        env = {**self._env, **hints, **self._spec.env, "PORT": str(port)}
        self._report(f"starting {shlex.join(argv)}")
        child = await self._child(argv, cwd, env)
        run = Run(child, port, self._output, self._address)
        try:
            address, status = await run.ready(self._spec.timeout_ms / 1000)
        except TimeoutError:
            await run.end(STOP_S)
            raise self._failures.timed_out(run) from None
        except Crashed as crashed:
            await run.end(CRASHED_STOP_S)
            raise self._failures.crashed(str(crashed)) from None
        except Ended as ended:
            await run.end(0.0)
            # Nothing of ours lives any more: if the port is held, that was the reason.
            clash = ended.exit_code != 0 and is_taken(port)
            raise self._failures.ended(ended.exit_code, clash=clash) from None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await run.end(STOP_S)
            raise
        self._run = run
        self._address = address
        self._exit_code = None
        self.last_seen = "running"
        self._started_at = self._clock()
        self._info = ServerInfo(
            url=address.url,
            port=address.port,
            pid=run.child.pid,
            started_at=iso(self._started_at),
            logs=self._output.paths,
            message=_message(status, address, port),
        )
        self._report(f"{self._spec.name} answers at {address.url}")
        self._watching = asyncio.create_task(self._watch(run))

    async def health(self) -> ServerHealth:
        """Return how it is now, by asking it."""
        info = self.info
        if self._run is None or self._address is None or self._exit_code is not None:
            return ServerHealth("stopped", info.url, exit_code=self._exit_code)
        status = await probe.status_of(self._address, probe.TRY_S)
        healthy = status is not None and status < 500
        self.last_seen = "running" if healthy else "unhealthy"
        uptime = round((self._clock() - self._started_at) / 1000, 3)
        return ServerHealth(self.last_seen, info.url, uptime, healthy)

    async def restart(self) -> ServerInfo:
        """Stop it and start it on the same port, with the same log files.

        Raises:
            CommandNotAllowed: what it runs has become another's; it runs on as it is.
            ServerStartFailed: it did not come up again; it is stopped then.
            ShutdownFailed: something of it cannot be killed.
        """
        async with self._changing:
            self._check()
            await self._end(STOP_S)
            await self.open(self._port)
            return self.info

    async def stop(self, grace: float = STOP_S) -> bool:
        """Stop it; return whether it went by itself when asked. Nothing that it started lives then.

        Raises:
            ShutdownFailed: something of it cannot be killed.
        """
        async with self._changing:
            try:
                return await self._end(grace)
            finally:
                self._output.close()

    def tail(self, stream: Stream, lines: int) -> Tail:
        """Return the last lines of its output."""
        path = getattr(self._output.paths, stream)
        return tail_of(Path(path), lines, within=(self._output.folder,))

    async def _child(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Process:
        try:
            return await self._spawn(argv, cwd=cwd, env=env, stdout="pipe", stderr="pipe")
        except OSError as error:
            raise self._failures.not_started(argv[0], error) from None

    async def _watch(self, run: Run) -> None:
        code = await run.child.wait()
        await run.drain()
        self._exit_code = code
        self._on_exit(code)

    async def _end(self, grace: float) -> bool:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        run, self._run = self._run, None
        try:
            return True if run is None else await run.end(grace)
        except TimeoutError:
            reason = f"{shlex.join(self._argv)} (pid {self.info.pid}) cannot be killed"
            raise ShutdownFailed(f"{reason}.", reason=reason) from None


class RunningApp:
    """An app that somebody else runs: nothing is started and nothing stopped."""

    def __init__(self, url: str, clock: Clock, find: Find, logs: LogPaths = NO_LOGS) -> None:
        parts = urlsplit(url)
        self._find = find
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self.info = ServerInfo(url, port, 0, iso(clock()), logs, "already_running")
        self.exit_code: int | None = None
        self.last_seen: ServerState = "running"
        self.not_asked = ""

    async def health(self) -> ServerHealth:
        """Return how it is now; one that does not answer is `stopped`, as far as can be seen."""
        status = await probe.status_of_url(self.info.url, await self._find(), probe.TRY_S)
        healthy = status is not None and status < 500
        self.last_seen = "running" if healthy else "stopped" if status is None else "unhealthy"
        return ServerHealth(self.last_seen, self.info.url, healthy=healthy)

    async def restart(self) -> ServerInfo:
        raise ServerStartFailed(
            f"{self.info.url} was running before this session, so it is not restarted from here.",
            hint="Start the app with startSession(command, cwd) to be able to restart it.",
            reason="not started by this session",
        )

    async def stop(self, grace: float = STOP_S) -> bool:
        return True


def _message(status: int, address: AppAddress, port: int) -> str:
    said = []
    if status >= 500:
        said.append(f"It answers, but with HTTP {status}: its log says why.")
    if address.port != port:
        said.append(f"The command chose port {address.port} by itself.")
    return " ".join(said)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and int(text) < 65_536 else 0
