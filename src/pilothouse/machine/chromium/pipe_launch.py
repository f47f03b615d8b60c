"""Starting a browser for Playwright so that its pipe comes to us (pipe_launcher.py)."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.ipc.local_socket import LONGEST_PATH, listen_at, peer_uid
from pilothouse.machine.chromium.shared_pipe import ENDS, BrowserPipe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LAUNCHER = Path(__file__).with_name("pipe_launcher.py")


class SharedLaunch:
    """A start of a browser whose pipe comes here."""

    def __init__(self, program: Path) -> None:
        self.program = program
        """Program that Playwright is to start instead of the browser."""
        self.came: asyncio.Future[BrowserPipe] = asyncio.get_running_loop().create_future()
        self._is_taken = False

    def take(self) -> BrowserPipe:
        """Return the pipe of the browser that has started; whoever takes it closes it."""
        self._is_taken = True
        return self.came.result()

    def drop(self) -> None:
        """End a browser that nobody has taken."""
        if not self._is_taken and self.came.done():
            self.came.result().close()


@asynccontextmanager
async def share_pipe(browser: str, folder: Path) -> AsyncIterator[SharedLaunch]:
    """Prepare the start of a browser whose pipe will be shared; `folder` must be private.

    Raises:
        OSError: a file or a socket cannot be made.
    """
    with _listening() as listener, _program(browser, folder, listener) as program:
        shared = SharedLaunch(program)
        accepting = asyncio.ensure_future(_accept(listener, shared))
        try:
            yield shared
        finally:
            accepting.cancel()
            shared.drop()


@contextmanager
def _listening() -> Iterator[socket.socket]:
    """Make a socket with a short path that only this user can open."""
    folder = tempfile.mkdtemp(prefix="pilothouse-")
    try:
        if len(os.fsencode(folder)) > LONGEST_PATH - len("/pipe"):
            os.rmdir(folder)
            folder = tempfile.mkdtemp(prefix="pilothouse-", dir="/tmp")
        with listen_at(f"{folder}/pipe") as listener:
            yield listener
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _program(browser: str, folder: Path, listener: socket.socket) -> Iterator[Path]:
    """Write the program that Playwright starts: temporary folders may allow none."""
    program = folder / "browser"
    path = listener.getsockname()
    words = [sys.executable, "-I", "-S", "-B", str(LAUNCHER), path, browser]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o700)
    try:
        yield program
    finally:
        program.unlink(missing_ok=True)


async def _accept(listener: socket.socket, shared: SharedLaunch) -> None:
    loop = asyncio.get_running_loop()
    while not shared.came.done():
        link, _ = await loop.sock_accept(listener)
        with link:
            if peer_uid(link) == os.getuid():
                descriptors = await _descriptors(link)
                if len(descriptors) == ENDS:
                    shared.came.set_result(await BrowserPipe.open(descriptors))


async def _descriptors(link: socket.socket) -> list[int]:
    """Return what a launcher sends with its first byte."""
    link.setblocking(False)
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(link, readable.set)
    try:
        await readable.wait()
        _, descriptors, _, _ = socket.recv_fds(link, 1, ENDS)
    finally:
        loop.remove_reader(link)
    return descriptors
