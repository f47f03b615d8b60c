"""Commands that run beside us, as those see them who have them started.

How they are started, so that nothing of them outlives us, is handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class OutputReader(Protocol):
    """A stream of what a command writes."""

    async def read(self, n: int = -1, /) -> bytes: ...

    async def readline(self) -> bytes: ...


class InputWriter(Protocol):
    """A stream of what a command reads."""

    def write(self, data: bytes, /) -> None: ...

    def is_closing(self) -> bool: ...


class Process(Protocol):
    """A command that runs, with everything that it started."""

    pid: int

    @property
    def stdin(self) -> InputWriter | None:
        """Stream to a pipe, if one was asked for; so with the others."""

    @property
    def stdout(self) -> OutputReader | None: ...

    @property
    def stderr(self) -> OutputReader | None: ...

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command itself, None while it runs; below 0: the signal it died of."""

    @property
    def gone(self) -> bool:
        """Tell whether neither it nor anything that it started lives."""

    async def wait(self) -> int:
        """Wait for the command's exit code. All that it wrote is in the readers by then."""

    async def wait_gone(self) -> None: ...

    async def stop(self, grace: float = 5.0) -> bool:
        """Return whether it went by itself; afterwards nothing that it started lives."""

    def kill_now(self) -> None:
        """End everything without a grace, and do not wait for it."""


class Spawn(Protocol):
    """A function that starts a command, without a shell, that never outlives us."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int | Literal["pipe"],
        stderr: int | Literal["pipe"],
        stdin: Literal["pipe"] | None = None,
    ) -> Process:
        """Start a command. Raises FileNotFoundError, PermissionError, OSError."""
