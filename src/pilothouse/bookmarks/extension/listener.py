"""Opens the extension link: a port of this machine, and all that comes in by it.

There is one `ExtensionServer` in a process, whatever the number of agents; each has an
`AgentBookmarks` (bookmarks/agent.py).
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pilothouse.bookmarks.extension.server import ExtensionServer

    type Explain = Callable[[int, OSError], str]
    """Why a port cannot be had."""


@asynccontextmanager
async def open_link(
    link: ExtensionServer, port: int, explain: Explain
) -> AsyncIterator[ExtensionServer]:
    """Let extensions in for as long as the block lasts; 0 is any free port.

    Where the port cannot be had, the link is off until a call that needs it finds the port free.
    """
    try:
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(_serve, link, port)
            except OSError as error:
                await _tell_why(link, port, explain, error)
                tasks.start_soon(_serve_when_wanted, link, port, explain)
            yield link
            tasks.cancel_scope.cancel()
    finally:
        link.close()


async def _serve(
    link: ExtensionServer,
    port: int,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    async with link.serving(port):
        task_status.started()
        await anyio.sleep_forever()


async def _serve_when_wanted(link: ExtensionServer, port: int, explain: Explain) -> None:
    while True:
        await link.until_wanted()
        try:
            await _serve(link, port)
        except OSError as error:
            await _tell_why(link, port, explain, error)


async def _tell_why(link: ExtensionServer, port: int, explain: Explain, error: OSError) -> None:
    # All processes of the machine may have to be looked at.
    link.could_not_open(await anyio.to_thread.run_sync(explain, port, error))
