"""The workers of a hub, as its settings ask for them. Beside `wiring/standalone.py`, for the hub
alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.core.child_env import check_named, own_environment, worker_environment
from pilothouse.core.settings import packed
from pilothouse.hub.workers.builtin import Builtin
from pilothouse.hub.workers.capacity import WorkerLimits
from pilothouse.hub.workers.choice import parse_choice
from pilothouse.hub.workers.command import CommandKind, HttpCommand, StdioCommand
from pilothouse.hub.workers.leftovers import Leftovers, sweep
from pilothouse.hub.workers.playwright import PlaywrightMcp
from pilothouse.hub.workers.pool import Pool
from pilothouse.hub.workers.spawned import CommandLaunch
from pilothouse.machine import processes
from pilothouse.machine.child import start_child
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from pilothouse.machine.folders import private_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from pilothouse.core.settings import Settings
    from pilothouse.hub.mcp.template import Template
    from pilothouse.hub.model import SessionRecord
    from pilothouse.hub.workers import Kind
    from pilothouse.machine.spawn import Spawn

SHARE_OF_MEMORY = 0.75
"""Share of the machine's memory that workers may use unless a limit is set."""


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for sockets, which is removed when the block ends."""
    # Not in the state folder: the path of a socket may have a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="pilothouse-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def open_pool(
    settings: Settings,
    run_folder: Path,
    template: Callable[[], Template],
    report: Callable[..., None],
) -> AsyncIterator[tuple[Pool, Kind]]:
    """Open the pool for the block, and its kind, which has the template.

    Args:
        settings: The hub's own; also those of sessions that bring none.
        run_folder: For sockets; what a crash leaves in it is removed by the next hub.
        template: Of our own server.
        report: Is told what happens, by name and details.

    Raises:
        BadSetting: `--worker` asks for what there is not, or `--worker-env` for what none gets.
    """
    check_named(settings.worker_env)
    choice = parse_choice(settings.worker)
    journals = private_folder(settings.home, os.environ, "state", "journals")
    for pid in sweep(journals, processes):
        report("leftover_ended", pid=pid)
    journal = Leftovers(journals, processes, run_folder)
    spawn = journal.keeping(start_child)
    kind: Kind
    if choice.kind == "builtin":
        # In the session of the hub: see `start_hub`.
        beside_us = journal.keeping(partial(start_child, own_session=False))
        kind = _builtin(settings, beside_us, run_folder, template)
    elif choice.kind == "playwright-mcp":
        kind = _playwright(settings, spawn, choice.folder, run_folder)
    elif choice.kind == "http":
        kind = HttpCommand(spawn, partial(_launch, settings, choice.argv))
    else:
        kind = StdioCommand(spawn, partial(_launch, settings, choice.argv), run_folder)
    if isinstance(kind, CommandKind | Builtin):
        kind.report = report
    if isinstance(kind, HttpCommand):
        why = "every user of this machine can connect to such a worker"
        report("worker_ports_open", worker=settings.worker, why=why)
    pool = Pool(
        kind,
        limits_of(settings),
        time.monotonic,
        processes.memory,
        on_start=journal.add,
        on_end=journal.remove,
        report=report,
    )
    running = asyncio.create_task(pool.run())
    try:
        yield pool, kind
    finally:
        running.cancel()
        await pool.close()
        journal.close()


def limits_of(settings: Settings) -> WorkerLimits:
    whole = processes.machine_memory()
    return WorkerLimits(
        workers=settings.max_workers,
        memory=settings.max_memory << 20 or int(whole * SHARE_OF_MEMORY),
        idle_s=settings.worker_idle,
    )


def _builtin(
    settings: Settings, spawn: Spawn, run_folder: Path, template: Callable[[], Template]
) -> Builtin:
    return Builtin(
        # -P: a folder in which the hub happens to run has no part in what is imported.
        argv=[sys.executable, "-P", "-m", "pilothouse.hub.workers.worker"],
        folder=run_folder,
        cwd=Path.cwd(),
        env=own_environment(os.environ, settings.worker_env),
        stderr=2,
        spawn=spawn,
        # How often somebody may call is counted where all calls pass: here. Where the sessions are
        # kept is no business of a worker's.
        settings=packed(
            replace(settings, rate_calls_per_min=0, rate_sessions_per_min=0, registry="")
        ),
        template=template,
    )


def _playwright(settings: Settings, spawn: Spawn, folder: str, run_folder: Path) -> PlaywrightMcp:
    def browser() -> str:
        found = find_browser(os.environ, settings.browser)
        return str(found.path) if found else ""

    flags = ("--no-sandbox",) if needs_no_sandbox() else ()
    env = worker_environment(os.environ, settings.worker_env)
    return PlaywrightMcp(spawn, env, run_folder, folder=folder, flags=flags, browser=browser)


def _launch(settings: Settings, argv: tuple[str, ...], record: SessionRecord) -> CommandLaunch:
    env = worker_environment(os.environ, settings.worker_env)
    return CommandLaunch(argv, Path(record.cwd) if record.cwd else Path.cwd(), env)
