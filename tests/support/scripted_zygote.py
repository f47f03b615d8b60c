"""A warm parent that is warm at once, and whose workers do as their settings say.

fail    do not start
hang    never become ready
stay    do not heed SIGTERM
shop    start a dev server that forks twice and heeds nothing either
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.hub.workers import zygote
from pilothouse.machine.child import start_child

if TYPE_CHECKING:
    import socket

SHOP = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 600 & wait' &); sleep 601 & wait"


def serve(order: zygote.WorkerOrder, listener: socket.socket, link: zygote.ZygoteLink) -> int:
    wish = order.settings
    if "fail" in wish:
        raise RuntimeError("the worker has no such option")
    if "hang" in wish:
        time.sleep(600)
    asyncio.run(_serve(order, listener, link))
    return 7


async def _serve(
    order: zygote.WorkerOrder, listener: socket.socket, link: zygote.ZygoteLink
) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(
        signal.SIGTERM, lambda: None if "stay" in order.settings else over.set()
    )
    if "shop" in order.settings:
        nowhere = os.open(os.devnull, os.O_RDWR)
        await start_child(
            ["/bin/sh", "-c", SHOP],
            cwd=Path("/"),
            env={"PATH": os.environ["PATH"], "LC_MARK": os.environ["LC_MARK"]},
            stdout=nowhere,
            stderr=nowhere,
        )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        about = {
            "pid": os.getpid(),
            "group": os.getpgid(0),
            "cwd": os.getcwd(),
            "random": random.random(),
            "files": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in _descriptors()),
        }
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(about).encode())
        writer.close()

    async with await asyncio.start_unix_server(answer, sock=listener):
        link.ready()
        await over.wait()


def _descriptors() -> list[str]:
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]


if __name__ == "__main__":
    zygote.run(sys.argv[1], lambda: random.seed(1), serve)
