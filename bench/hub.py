"""The hub of a home: asked and ended over its control socket."""

import os
import time
from pathlib import Path
from typing import Any

from pilothouse.hub.control import protocol
from pilothouse.hub.files import hub_files

GUARD_S = 60.0


def hub_status(home: Path) -> dict[str, Any] | None:
    """What `pilothouse status` shows; None: no hub runs."""
    answer = protocol.ask(str(hub_files(str(home), {}).socket), {"status": True})
    return None if answer is None else answer["status"]


def hub_pid(home: Path) -> int:
    """Of the hub that a client has started, once it listens."""
    until = time.monotonic() + GUARD_S
    while (status := hub_status(home)) is None:
        if time.monotonic() > until:
            raise TimeoutError("the hub does not answer")
        time.sleep(0.01)
    pid: int = status["pid"]
    return pid


def stop_hub(home: Path) -> None:
    """End it, if one runs, and wait until it has."""
    if not home.exists():
        return
    files = hub_files(str(home), {})
    protocol.ask(str(files.socket), {"stop": True})
    until = time.monotonic() + GUARD_S
    while (held := files.hold()) is None:
        if time.monotonic() > until:
            raise TimeoutError("the hub does not end")
        time.sleep(0.01)
    os.close(held)
