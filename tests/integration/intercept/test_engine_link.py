"""The engine's process: lazily started, started again, gone with its owner."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.intercept.engine_process import SHORT_LIVES, open_engine
from pilothouse.intercept.model import EngineUnreachable
from pilothouse.machine.child import start_child
from tests.support.engine_rig import GUARD_S, configuration, running_engine
from tests.support.ports import free_port, listens
from tests.support.until import until
from tests.support.upstreams import http_upstream

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.intercept.engine_process import Ask

pytestmark = pytest.mark.anyio

OWNER = """
import asyncio, sys
from pathlib import Path
from pilothouse.machine.child import start_child
from pilothouse.intercept.engine_process import open_engine

async def own():
    async with open_engine(Path(sys.argv[1]), start_child, lambda event: None) as engine:
        await engine.ask("ping", within=60)
        print(engine.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(own())
"""


RESTART_S = 30.0
"""Five times what it may take."""


async def gone(pid: int) -> None:
    """Returns when there is no such process any more."""
    with suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(psutil.Process(pid).wait, GUARD_S)


async def test_nothing_runs_until_something_is_asked(tmp_path: Path) -> None:
    async with open_engine(tmp_path, start_child, lambda _: None) as engine:
        assert not engine.is_running
        assert await engine.ask("ping", within=GUARD_S) == "pong"
        pid = engine.pid
        assert engine.is_running
    assert pid is not None
    await gone(pid)


async def test_folder_of_the_authority_is_private(tmp_path: Path) -> None:
    async with running_engine(tmp_path):
        ca = tmp_path / "ca"
        assert ca.stat().st_mode & 0o777 == 0o700
        assert (ca / "mitmproxy-ca.pem").stat().st_mode & 0o077 == 0


async def test_killed_engine_is_started_again_with_its_listeners(tmp_path: Path) -> None:
    port = free_port()

    async def apply(ask: Ask) -> None:
        await ask("configure", within=GUARD_S, config=configuration(listen=[{"port": port}]))

    async with running_engine(tmp_path, on_start=apply) as rig, http_upstream() as server:
        async with rig.client(port) as client:
            await client.get(f"http://{server.address}/before")
        before = await rig.packets()
        pid = rig.engine.pid
        assert pid
        start = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        await until(partial(listens, port))  # nobody asks it for anything meanwhile
        assert time.monotonic() - start < RESTART_S
        state = await rig.ask("state")
        assert state["listeners"][0]["running"] is True
        assert rig.engine.pid != pid
        async with rig.client(port) as client:
            await client.get(f"http://{server.address}/after")
        after = await rig.packets()
    assert [row["url"] for row in after] == ["/before", "/before", "/after", "/after"]
    assert before == after[:2]
    assert any("has ended" in event.get("message", "") for event in rig.events)


async def test_engine_that_dies_again_and_again_is_left_until_it_is_asked(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as rig:
        pids: list[int | None] = [None]

        def is_told() -> bool:
            told = sum("has ended" in event.get("message", "") for event in rig.events)
            return told == 1 + SHORT_LIVES

        for _ in range(1 + SHORT_LIVES):
            await until(lambda: rig.engine.pid not in pids)
            pid = rig.engine.pid
            assert pid
            pids.append(pid)
            os.kill(pid, signal.SIGKILL)
            await gone(pid)
        await until(is_told)
        assert not rig.engine.is_running
        assert await rig.ask("ping") == "pong"


async def test_question_that_the_engine_dies_over_says_so(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as rig:
        pid = rig.engine.pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        asking = asyncio.create_task(rig.ask("state"))
        await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineUnreachable, match="has ended"):
            await asking
        assert await rig.ask("ping") == "pong"


async def test_engine_that_hangs_is_given_up_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.intercept.engine_process.PING_S", 0.2)
    async with running_engine(tmp_path) as rig:
        pid = rig.engine.pid
        assert pid
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(EngineUnreachable, match="did not answer"):
            await rig.engine.ask("state", within=0.2)
        await gone(pid)
        assert await rig.ask("ping") == "pong"


async def test_engine_that_cannot_start_shows_its_last_words(tmp_path: Path) -> None:
    async with open_engine(
        tmp_path, start_child, lambda _: None, options=["--no-such-option"]
    ) as engine:
        with pytest.raises(EngineUnreachable, match="no-such-option") as caught:
            await engine.ask("ping", within=GUARD_S)
    assert caught.value.details["log"]


async def test_engine_dies_with_its_owner(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout
    pid = int(await asyncio.wait_for(owner.stdout.readline(), 60))
    assert psutil.pid_exists(pid)
    owner.kill()
    await owner.wait()
    await gone(pid)


async def test_unknown_command_is_answered_not_fatal(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as rig:
        for name in ("nonsense", "_jobs", "do"):
            with pytest.raises(InvalidInput, match="no command"):
                await rig.ask(name)
        assert await rig.ask("ping") == "pong"


async def test_state_tells_of_history_and_memory(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as rig:
        state: dict[str, Any] = await rig.ask("state")
    assert state["history"]["ok"] is True
    assert state["memory"] > 10_000_000


ODD_REQUESTS = (
    *(b"{", b"[]", b"null", b"\xff", b"{}", b'{"id": 1}', b'{"id": 1, "do": "ping"}'),
    *(b'{"id": {}, "do": "ping", "args": {}}', b'{"id": 1, "do": [], "args": {}}'),
    b'{"id": 1, "do": "ping", "args": []}',
)


async def test_odd_requests_do_not_end_the_engine(tmp_path: Path) -> None:
    async with running_engine(tmp_path) as rig:
        pid, process = rig.engine.pid, rig.engine._running
        assert process is not None
        for request in ODD_REQUESTS:
            process._writer.write(request + b"\n")
        assert await rig.ask("ping") == "pong"
        assert rig.engine.pid == pid


ODD_ENGINE = """
import socket, sys
link = socket.socket(fileno=1)
link.sendall(b'{"event": "ready"}\\n')
link.recv(1000)
link.sendall(sys.argv[1].encode() + b"\\n")
link.recv(1000)
"""


@pytest.mark.parametrize("word", ["[]", "{}", "null", "{", '{"id": 1, "error": "x"}'])
async def test_an_engine_that_makes_no_sense_is_given_up(tmp_path: Path, word: str) -> None:
    def odd(argv: Any, **how: Any) -> Any:
        return start_child([sys.executable, "-c", ODD_ENGINE, word], **how)

    async with asyncio.timeout(GUARD_S), open_engine(tmp_path, odd, lambda _: None) as engine:
        for _ in range(2):  # the second one waits until the first has been buried
            with pytest.raises(EngineUnreachable, match="has ended"):
                await engine.ask("ping", within=2 * GUARD_S)
