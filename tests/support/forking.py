"""The builtin kind of worker, started as a hub starts it."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pilothouse.hub.mcp.template import Template
from pilothouse.hub.model import Key, SessionRecord
from pilothouse.hub.workers.builtin import Builtin, ForkedWorker
from pilothouse.machine.child import start_child
from tests.support import forkserver
from tests.support.servers import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SIMPLE = "tests.support.scripted_zygote"
PRODUCT = "pilothouse.hub.workers.worker"
START_S = 30.0


@asynccontextmanager
async def forking(
    sockets: Path, mark: str, module: str = SIMPLE, tmp: str = "", **settings: Any
) -> AsyncIterator[Builtin]:
    """A kind whose parent is the given module; with these settings for all workers.

    The product's own is forked, unless the environment asks for real processes.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    is_real = module != PRODUCT or forkserver.REAL_PROCESSES.items() <= os.environ.items()
    kind = Builtin(
        argv=[sys.executable, "-m", module] if is_real else forkserver.command(module),
        folder=sockets,
        cwd=ROOT,
        env=environment({"LC_MARK": mark, **({"TMPDIR": tmp} if tmp else {})}),
        stderr=nowhere,
        spawn=start_child,
        settings=settings,
        template=lambda: Template({}, {}),
    )
    try:
        yield kind
    finally:
        await kind.close()
        os.close(nowhere)


async def forked(kind: Builtin, cwd: str = "", **settings: Any) -> ForkedWorker:
    """A worker of a relay with these settings."""
    key = Key("relay", os.urandom(8).hex())
    record = SessionRecord("r", key, "2025", 0.0, 0.0, settings=settings, cwd=cwd)
    return await kind.start(key, record, START_S)
