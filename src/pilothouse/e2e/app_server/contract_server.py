"""A server behind a command of the contract."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.app_server.contract_command import CommandFailed
from pilothouse.e2e.model import (
    LogPaths,
    ServerHealth,
    ServerInfo,
    ServerStartFailed,
    ShutdownFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.e2e.app_server.contract import ServerStartResponse
    from pilothouse.e2e.app_server.contract_command import ContractCommand
    from pilothouse.e2e.app_server.logs.output import Output
    from pilothouse.e2e.model import ServerState
    from pilothouse.machine.spawn import Process


async def start_contract(
    command: ContractCommand, output: Output, clock: Clock, on_exit: Callable[[int], None]
) -> ContractServer:
    """Start the server of a command; `output` keeps what the command writes meanwhile.

    Raises:
        ServerStartFailed: there is no server.
    """
    command = replace(command, output=output)
    try:
        response, child = await command.start()
    except BaseException as error:
        output.close()
        if isinstance(error, CommandFailed):
            raise start_failed(error, output.paths) from None
        raise
    return ContractServer(command, output, response, child, clock=clock, on_exit=on_exit)


class ContractServer:
    """A server that is asked through its command; what the command left running is ours to end."""

    def __init__(
        self,
        command: ContractCommand,
        output: Output,
        response: ServerStartResponse,
        child: Process,
        *,
        clock: Clock,
        on_exit: Callable[[int], None],
    ) -> None:
        self._command = command
        self._output = output
        self._child = child
        self._clock = clock
        self._on_exit = on_exit
        self._earlier: list[Process] = []
        """Children from before a restart: one of them may be the supervisor that did it."""
        logs = response.logs
        self._info = ServerInfo(
            response.url,
            response.port,
            response.pid,
            response.started_at,
            LogPaths(logs.stdout, logs.stderr, logs.combined),
            response.status,
            response.message,
        )
        self._watch = asyncio.ensure_future(self._until_gone(child))
        self.last_seen: ServerState = "running"
        self.not_asked = ""

    @property
    def info(self) -> ServerInfo:
        return self._info

    @property
    def exit_code(self) -> int | None:
        """Exit code once it has gone; it says something only about a server in the foreground."""
        lives = any(not child.gone for child in (self._child, *self._earlier))
        return None if lives or self._info.status != "ready" else self._child.exit_code

    async def health(self) -> ServerHealth:
        try:
            said = await self._command.status()
        except CommandFailed as failed:
            self.last_seen = "unhealthy"
            why = f"--status failed ({failed.reason})"
            return ServerHealth("unhealthy", self._info.url, healthy=False, message=why)
        self.last_seen = said.status
        uptime = said.uptime
        return ServerHealth(said.status, said.url or self._info.url, uptime, said.healthy)

    async def restart(self) -> ServerInfo:
        """Restart it by its command. Raises CommandNotAllowed, ServerStartFailed."""
        self._command.check()
        self._watch.cancel()
        try:
            said, child = await self._command.restart()
        except CommandFailed as failed:
            raise start_failed(failed, self._output.paths, "--restart") from None
        self._earlier.append(self._child)
        self._child = child
        self.last_seen = "running"
        self._info = replace(
            self._info,
            url=said.url,
            port=said.port,
            pid=said.pid,
            started_at=said.started_at or iso(self._clock()),
            message=said.message,
            status="ready",
        )
        self._watch = asyncio.ensure_future(self._until_gone(self._child))
        return self._info

    async def stop(self, grace: float = 5.0) -> bool:
        """Stop it; return whether it went when its command asked it to. Nothing of it lives then.

        Raises:
            ShutdownFailed: a server that is not ours to kill would not go.
        """
        self._watch.cancel()
        self._output.close()
        failed: CommandFailed | None = None
        went = True
        try:
            went = (await self._command.shutdown()).status != "force_stopped"
        except CommandFailed as error:
            failed = error
            self.not_asked = str(error.cause.get("reason", ""))
        for child in (self._child, *self._earlier):
            went = await child.stop(grace) and went
        if failed is not None and self._info.status == "already_running":
            raise ShutdownFailed(
                f"--shutdown failed ({failed.reason})",
                hint=f"stop it yourself: pid {self._info.pid}",
                reason=str(failed.cause["type"]),
                cause=failed.cause,
            )
        return went and failed is None

    async def _until_gone(self, child: Process) -> None:
        """Report the end of a server that is our child; one of before the session is not."""
        await child.wait_gone()
        if any(not earlier.gone for earlier in self._earlier):
            return  # the supervisor still runs, and with it the server
        if self._info.status == "ready":
            self._on_exit(child.exit_code or 0)


def start_failed(
    failed: CommandFailed, paths: LogPaths, flag: str = "--start"
) -> ServerStartFailed:
    """Make the fault of a command that failed; `paths` are where its output was kept."""
    cause = {name: value for name, value in failed.cause.items() if name != "stderr"}
    what = "restart" if flag == "--restart" else "start"
    hint = f"run the command with {flag} by hand and look at what it prints"
    match cause["type"]:
        case "timeout":
            limit = cause["timeout"]
            message = f"Server failed to {what} within {float(str(limit)) / 1000:g} seconds"
        case "non_zero_exit":
            message = f"The {what} command exited with code {cause['exitCode']}"
        case "invalid_json":
            why = cause.get("parseError", "")
            message = f"The {what} command did not print what the contract asks: {why}"
        case "log_path_refused":
            message = f"The {what} command names a log that may not be read: {cause['path']!r}"
            hint = "have it write its logs in the app's folder, the session's or the temp folder"
        case "command_not_found":
            message = f"There is no command {cause['path']}"
        case _:
            message = f"The command {cause.get('path')} may not be executed"
    if failed.logs is not None:
        paths = LogPaths(failed.logs.stdout, failed.logs.stderr, failed.logs.combined)
    return ServerStartFailed(
        message,
        hint=hint,
        reason=str(cause["type"]),
        exitCode=cause.get("exitCode"),
        stderr=failed.cause.get("stderr"),
        cause=cause,
        logs=asdict(paths),
    )
