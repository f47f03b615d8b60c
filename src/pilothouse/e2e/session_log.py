"""What e2e sessions log beside their calls: commands, steps, and what crashed.

The components are those of the spec. All of it goes through `logging`, which the server brings into
its own form and masks.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pilothouse.machine.spawn import Process, Spawn

_SESSIONS = logging.getLogger("SessionManager")
_BROWSER = logging.getLogger("PlaywrightOrchestrator")
_COMMANDS = logging.getLogger("ServerCommandExecutor")


def log_crash(session_id: str, event: str, **details: Any) -> None:
    """Log that something of a session ended by itself."""
    _SESSIONS.error(event, extra=_extra(session_id, details))


def log_open_port(session_id: str, port: int) -> None:
    """Log that a session's browser has a debugging port, which asks nobody who connects."""
    why = "every user of this machine can read and drive the browser by it"
    _SESSIONS.warning("debug_port_open", extra=_extra(session_id, {"port": port, "why": why}))


def log_browser(session_id: str, event: str, **details: Any) -> None:
    """Log what Playwright was asked for, for whoever debugs."""
    _BROWSER.debug(event, extra=_extra(session_id, details))


def _extra(session_id: str, details: Mapping[str, Any]) -> dict[str, Any]:
    return {"details": {"sessionId": session_id, **details}}


class LoggedSpawn:
    """Starts commands for one session, and logs each start and exit for whoever debugs."""

    def __init__(self, spawn: Spawn, session_id: str) -> None:
        self._spawn = spawn
        self._session_id = session_id
        self._ends: set[asyncio.Task[None]] = set()

    async def __call__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], **streams: Any
    ) -> Process:
        """Start a command. Raises FileNotFoundError, PermissionError, OSError."""
        child = await self._spawn(argv, cwd=cwd, env=env, **streams)
        if _COMMANDS.isEnabledFor(logging.DEBUG):
            command = shlex.join(argv)
            self._log("command_started", command=command, cwd=str(cwd), pid=child.pid)
            end = asyncio.ensure_future(self._log_end(command, child))
            self._ends.add(end)
            end.add_done_callback(self._ends.discard)
        return child

    async def _log_end(self, command: str, child: Process) -> None:
        code = await child.wait()
        self._log("command_ended", command=command, pid=child.pid, exitCode=code)

    def _log(self, event: str, **details: Any) -> None:
        _COMMANDS.debug(event, extra=_extra(self._session_id, details))
