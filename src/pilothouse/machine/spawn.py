"""Commands that run beside us, as those see them who have them started.

How they are started, so that nothing of them outlives us, is handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class OutputReader(Protocol):
    """What a command writes."""

    async def read(self, n: int = -1, /) -> bytes: ...

    async def readline(self) -> bytes: ...


class InputWriter(Protocol):
    """What a command reads."""

    def write(self, data: bytes, /) -> None: ...

    def is_closing(self) -> bool: ...


class Process(Protocol):
    """A command that runs, with everything that it started."""

    pid: int

    @property
    def stdin(self) -> InputWriter | None:
        """Where a pipe was asked for; so with the others."""

    @property
    def stdout(self) -> OutputReader | None: ...

    @property
    def stderr(self) -> OutputReader | None: ...

    @property
    def exit_code(self) -> int | None:
        """Of the command itself, None while it runs; below zero is the signal that ended it."""

    @property
    def gone(self) -> bool:
        """Neither it nor anything that it started lives."""

    async def wait(self) -> int:
        """The command's exit code. All that it wrote is in the readers by then."""

    async def wait_gone(self) -> None: ...

    async def stop(self, grace: float = 5.0) -> bool:
        """Whether it went by itself; afterwards nothing that it started lives."""

    def kill_now(self) -> None:
        """Ends everything without a grace, and does not wait for it."""


class Spawn(Protocol):
    """Starts a command, without a shell, that never outlives us."""

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
        """Raises FileNotFoundError, PermissionError, OSError."""
