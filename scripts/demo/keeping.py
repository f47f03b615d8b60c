"""The agent that stays after a demo: where it is noted, and how it is ended."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import psutil

if TYPE_CHECKING:
    from pathlib import Path

NOTE = ".agent"
END_S = 30.0
LOOK_S = 1.0


def note(folder: Path) -> None:
    """Say which process this is; its start tells it from a later one of the same number."""
    started = psutil.Process().create_time()
    (folder / NOTE).write_text(f"{os.getpid()} {started!r}\n")


def forget(folder: Path) -> None:
    (folder / NOTE).unlink(missing_ok=True)


def end_former(folder: Path) -> bool:
    """End the agent of the demo before, if it is still there; whether it was."""
    try:
        number, started = (folder / NOTE).read_text().split()
        process = psutil.Process(int(number))
        if process.create_time() != float(started):
            return False
        process.terminate()
        process.wait(END_S)
    except (OSError, ValueError, psutil.NoSuchProcess):
        return False
    finally:
        forget(folder)
    return True


async def stay(hub_pid: int, seconds: float) -> None:
    """Until the time is over, or the hub has ended, with which the session is gone."""
    with suppress(psutil.NoSuchProcess), anyio.move_on_after(seconds):
        hub = psutil.Process(hub_pid)
        while hub.is_running():  # noqa: ASYNC110  # nobody tells when another's child ends
            await anyio.sleep(LOOK_S)
