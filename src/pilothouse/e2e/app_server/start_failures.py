"""Why a plain dev server did not come up: the fault, with the end of its log and what to do."""

from __future__ import annotations

import shlex
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.e2e.app_server.logs.reader import tail
from pilothouse.e2e.app_server.missing_dependencies import install_hint
from pilothouse.e2e.model import LogFileNotFound, LogReadFailed, ServerStartFailed
from pilothouse.machine.net.local_ports import is_taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.e2e.app_server.logs.output import Output
    from pilothouse.e2e.app_server.run import Run
    from pilothouse.e2e.model import ServiceSpec, Stream

TAIL_LINES = 40
MEND = "Mend what its log says, then start it again."


class PortClash(ServerStartFailed):
    """The command ended because somebody else had taken its port."""


class StartFailures:
    """Makes the faults of one server's starts."""

    def __init__(self, spec: ServiceSpec, argv: Sequence[str], output: Output) -> None:
        self._spec = spec
        self._command = shlex.join(argv)
        self._output = output

    def timed_out(self, run: Run) -> ServerStartFailed:
        """Make the fault of a server that did not answer in time."""
        seconds = self._spec.timeout_ms / 1000
        foreign = next(filter(is_taken, run.not_ours), 0)
        reason = f"{self._command} did not answer on port {run.port} within {seconds:g} s"
        if foreign:
            reason += f"; port {foreign}, which it names, belongs to another process"
        hint = (
            f"If the app on port {foreign} is the right one, startSession(url:"
            f" 'http://localhost:{foreign}') uses it as it runs."
            if foreign
            else "Its log says how far it came; it may need a longer timeout, or {port} in the"
            " command where the port belongs."
        )
        cause = {"type": "timeout", "command": self._command, "timeout": self._spec.timeout_ms}
        return self._fault(reason, hint, cause)

    def crashed(self, error: str) -> ServerStartFailed:
        """Make the fault of a server that crashed below a reloader, which waits for an edit."""
        reason = f"{self._command} crashed before it answered: {error.rstrip('.')}"
        return self._fault(reason, MEND, {"type": "crashed", "error": error})

    def ended(self, code: int, *, clash: bool) -> ServerStartFailed:
        """Make the fault of a command that ended; with `clash`, because its port was taken."""
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        hint = (
            "A command that leaves its server in the background is used by"
            " startSession(url) once it runs, or as a commandPath of the JSON contract."
            if code == 0
            else MEND
        )
        reason = f"{self._command} {how} before it answered"
        cause = {"type": "non_zero_exit", "exitCode": code}
        kind = PortClash if clash else ServerStartFailed
        return self._fault(reason, hint, cause, code, kind)

    def not_started(self, program: str, error: OSError) -> ServerStartFailed:
        """Make the fault of a command that could not be run at all."""
        kinds = {FileNotFoundError: "command_not_found", PermissionError: "permission_denied"}
        cwd = Path(self._spec.cwd)
        if not cwd.is_dir():
            reason = f"the folder {cwd} is not there"
        elif isinstance(error, FileNotFoundError):
            reason = f"{program} was not found"
        else:
            reason = f"{program} cannot be run ({error.strerror or error})"
        return ServerStartFailed(
            f"The server was not started: {reason}.",
            hint="Name a command that runs in a terminal in this folder, as a list of words.",
            reason=reason,
            cause={"type": kinds.get(type(error), "command_failed"), "path": program},
            logs=asdict(self._output.paths),
        )

    def _fault(
        self,
        reason: str,
        hint: str,
        cause: dict[str, object],
        code: int | None = None,
        kind: type[ServerStartFailed] = ServerStartFailed,
    ) -> ServerStartFailed:
        stderr = self._read("stderr")
        return kind(
            f"The server {self._spec.name} did not start: {reason}.",
            hint=install_hint(self._read("combined"), Path(self._spec.cwd)) or hint,
            reason=reason,
            service=self._spec.name,
            cause=cause,
            exitCode=code,
            stderr=stderr,
            # Some write their errors where others write their greetings.
            stdout=None if stderr else self._read("stdout"),
            logs=asdict(self._output.paths),
        )

    def _read(self, stream: Stream) -> str:
        path = Path(getattr(self._output.paths, stream))
        try:
            return tail(path, TAIL_LINES, within=(self._output.folder,)).text
        except (LogFileNotFound, LogReadFailed):
            return ""  # the failure itself is what has to be reported


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
