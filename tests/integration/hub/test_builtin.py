"""Our own server as a worker: forked, warm, and apart from its siblings."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.http.client import get, post
from pilothouse.hub.workers import StartFailed, Use, builtin
from pilothouse.hub.workers.builtin import USE_PATH
from tests.support.forking import PRODUCT, forked, forking
from tests.support.listener_rig import hello
from tests.support.living import living
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.hub.workers.builtin import ForkedWorker

pytestmark = pytest.mark.anyio

HELLO = hello()["params"]
ABOUT = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL_S = 60.0
SHOP = """
import os
from http.server import HTTPServer, SimpleHTTPRequestHandler
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), SimpleHTTPRequestHandler).serve_forever()
"""


class Agent:
    """A 2025-era session with a worker."""

    def __init__(self, worker: ForkedWorker, session: str) -> None:
        self.worker = worker
        self._headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}

    @classmethod
    async def meet(cls, worker: ForkedWorker) -> Agent:
        told = await post(worker.address, "initialize", HELLO)
        agent = cls(worker, told.session)
        await post(worker.address, "notifications/initialized", headers=agent._headers)
        return agent

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        told = await post(self.worker.address, "tools/call", params, self._headers, CALL_S)
        result: dict[str, Any] = told.body["result"]
        assert not result["isError"], result
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def use(self) -> Use:
        return Use((await get(self.worker.address, USE_PATH)).body)


@pytest.mark.usefixtures("real_processes")
async def test_many_workers_at_once_each_answer_in_both_eras(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with forking(sockets, mark, PRODUCT) as kind:
        await kind.prepare()
        assert kind.parent_pid is not None
        # A thread would not be there in a fork, and its locks might be held for ever.
        assert len(os.listdir(f"/proc/{kind.parent_pid}/task")) == 1
        workers = await asyncio.gather(*(forked(kind, home=str(tmp_path)) for _ in range(20)))

        async def use(worker: ForkedWorker) -> str:
            told = await (await Agent.meet(worker)).call("status")
            modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
                      "Mcp-Name": "status"}  # fmt: skip
            params = {"name": "status", "arguments": {}, "_meta": ABOUT}
            also = await post(worker.address, "tools/call", params, modern)
            assert not also.body["result"]["isError"]
            return str(told["sessionId"])

        sessions = await asyncio.gather(*map(use, workers))
        assert len(set(sessions)) == len(workers)
        assert not any(await asyncio.gather(*(worker.use() for worker in workers)))


async def test_a_worker_that_is_too_busy_to_answer_is_in_use_unless_it_never_answers(
    sockets: Path, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtin, "USE_S", 0.1)
    async with forking(sockets, mark, PRODUCT) as kind:
        worker = await forked(kind, home=str(tmp_path))
        process = psutil.Process(worker.pid)
        for _ in range(2):
            process.suspend()
            asked = [await worker.use() for _ in range(builtin.MOST_UNANSWERED - 1)]
            process.resume()
            assert asked == [Use.HOLDING] * len(asked)
            monkeypatch.setattr(builtin, "USE_S", CALL_S)
            assert await worker.use() is Use.NONE
            monkeypatch.setattr(builtin, "USE_S", 0.1)
        process.suspend()
        asked = [await worker.use() for _ in range(builtin.MOST_UNANSWERED)]
        process.resume()
        assert asked[-1] is Use.NONE


async def test_a_folder_that_is_gone_is_told_in_one_line(sockets: Path, mark: str) -> None:
    async with forking(sockets, mark, PRODUCT) as kind:
        with pytest.raises(StartFailed) as failed:
            await forked(kind, cwd="/no/such/folder")
        assert str(failed.value).startswith("the client's folder '/no/such/folder' cannot be ent")
        assert len(str(failed.value).splitlines()) == 1


async def test_a_worker_has_the_settings_and_the_folder_of_its_own_relay(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    async with forking(sockets, mark, PRODUCT) as kind:
        here = await forked(kind, cwd=str(tmp_path), home=str(tmp_path), tools=["observe"])
        there = await forked(kind, cwd="/", home=str(tmp_path), profile="full")
        groups = [
            {one["name"] for one in (await (await Agent.meet(worker)).call("status"))["groups"]}
            for worker in (here, there)
        ]
        assert groups[0] == {"house", "observe"}
        assert groups[1] > groups[0]
        assert [os.readlink(f"/proc/{worker.pid}/cwd") for worker in (here, there)] == [
            str(tmp_path),
            "/",
        ]


def profiles(folder: Path) -> list[Path]:
    """Of browsers that were started below it."""
    return list(folder.glob("*/*profile*"))


@pytest.mark.browser
async def test_a_worker_that_is_asked_to_end_leaves_nothing_of_its_browser_behind(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    everybodys = tmp_path / "tmp"
    everybodys.mkdir()
    async with forking(sockets, mark, PRODUCT, tmp=str(everybodys)) as kind:
        await kind.prepare()
        before = living(mark)
        worker = await forked(kind, cwd=str(tmp_path), home=str(tmp_path / "home"))
        agent = await Agent.meet(worker)
        command = [sys.executable, "shop.py"]
        await agent.call("startSession", command=command, cwd=str(tmp_path), env={"LC_MARK": mark})
        assert profiles(sockets)
        await worker.stop(CALL_S)
        await until(lambda: living(mark) == before)
        assert profiles(sockets) == []
        await until(lambda: os.listdir(sockets) == [])
        assert os.listdir(everybodys) == []


async def test_a_worker_whose_session_has_ended_is_idle_though_it_keeps_what_was_recorded(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    async with forking(sockets, mark, PRODUCT) as kind:
        worker = await forked(kind, cwd=str(tmp_path), home=str(tmp_path / "home"))
        agent = await Agent.meet(worker)
        command = [sys.executable, "shop.py"]
        started = await agent.call("startSession", command=command, cwd=str(tmp_path))
        assert await agent.use() is Use.HOLDING
        await agent.call("endSession")
        assert await agent.use() is Use.NONE
        assert (await agent.call("cdp_read_events", targetId=started["targetId"]))["events"]


async def test_a_worker_with_a_browser_is_in_use_and_takes_it_along_when_it_is_killed(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    async with forking(sockets, mark, PRODUCT) as kind:
        await kind.prepare()
        before = living(mark)
        worker = await forked(kind, cwd=str(tmp_path), home=str(tmp_path / "home"))
        agent = await Agent.meet(worker)
        assert await agent.use() is Use.NONE
        command = [sys.executable, "shop.py"]
        await agent.call("startSession", command=command, cwd=str(tmp_path), env={"LC_MARK": mark})
        assert await agent.use() is Use.HOLDING
        below = psutil.Process(worker.pid).children(recursive=True)
        words = [" ".join(one.cmdline()) for one in below]
        assert any("--type=renderer" in one for one in words)
        assert any("shop.py" in one for one in words)
        assert profiles(sockets)
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: living(mark) == before)
        await until(lambda: os.listdir(sockets) == [])
        # Some of a browser's processes write over the mark.
        await until(lambda: not any(one.is_running() for one in below))
