"""A process that is killed while it changes bookmarks leaves all of a change or nothing."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING

import anyio
import orjson
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from pilothouse.bookmarks.changes.apply import recover
from pilothouse.bookmarks.changes.journal import open_journal
from tests.support.bookmark_child import FOLDERS, is_whole
from tests.support.chrome_bookmarks import ChromeBookmarks
from tests.support.memory_profile import MemoryProfile
from tests.support.rounds import ROUNDS

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import SocketStream

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

GUARD_S = 60


async def test_a_process_killed_anywhere_leaves_all_or_nothing(tmp_path: Path) -> None:
    chrome = ChromeBookmarks(FOLDERS)
    chances = random.Random(20)
    for number in range(ROUNDS):
        seed = chances.randrange(1 << 30)
        with anyio.fail_after(GUARD_S):
            writes = await _run_and_kill(chrome, tmp_path, random.Random(seed))
        assert writes, "the process did nothing before it was killed"
        await _check_a_copy(chrome, tmp_path, f"round {number}, seed {seed}")


async def _run_and_kill(chrome: ChromeBookmarks, folder: Path, chances: random.Random) -> int:
    """Serve a process that changes the bookmarks, and kill it at some call; its writes."""
    last, moment = chances.randint(8, 120), chances.choice(["before", "after", "answered"])
    count, written = 0, len(chrome.writes())
    killed = anyio.Event()

    async def serve(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.IncompleteRead, anyio.BrokenResourceError):
                await answer_all(stream)

    async def answer_all(stream: SocketStream) -> None:
        nonlocal count
        buffered = BufferedByteReceiveStream(stream)
        while not killed.is_set():
            line = await buffered.receive_until(b"\n", 1 << 20)
            count += 1
            if count == last and moment == "before":
                kill()
                return
            answer = await _answered(chrome, line)
            if count == last and moment == "after":
                kill()
                return
            await stream.send(answer)
            if count == last:
                await anyio.sleep(chances.random() / 500)
                kill()

    def kill() -> None:
        os.kill(process.pid, signal.SIGKILL)
        killed.set()

    path = folder / "socket"
    path.unlink(missing_ok=True)
    listener = await anyio.create_unix_listener(path)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        command = [
            sys.executable,
            "-m",
            "tests.support.bookmark_child",
            str(path),
            f"{folder}/journals",
        ]
        async with await anyio.open_process(command, stdout=None, stderr=None) as process:
            await process.wait()
            assert killed.is_set(), "it ended by itself"
        tasks.cancel_scope.cancel()
    return len(chrome.writes()) - written


async def _answered(chrome: ChromeBookmarks, line: bytes) -> bytes:
    method, params = orjson.loads(line)
    return orjson.dumps(await chrome.ask(method, params)) + b"\n"


async def _check_a_copy(chrome: ChromeBookmarks, folder: Path, where: str) -> None:
    """Recover on copies, so that the next process has to do it, too."""
    copy, other = deepcopy(chrome), folder / where
    shutil.copytree(folder / "journals", other)
    journal = open_journal(other, "profile-1")
    await recover(MemoryProfile(copy, journal))
    assert not journal.open_entries, where
    assert is_whole(copy.get_tree({})), f"{where}: {copy.shape()}"
    journal.close()
