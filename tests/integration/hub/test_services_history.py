"""The history of the hub's proxy, which each worker reads from its file by itself."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.hub.services.server import WorkerPeer
from pilothouse.intercept import proxy as proxy_module
from pilothouse.intercept.engine_process import EngineProcess
from pilothouse.intercept.hub_client import open_remote_proxy
from pilothouse.intercept.ports import HistoryAsk
from pilothouse.intercept.proxy import Proxy
from pilothouse.machine.folders import private_folder
from tests.support.packets import History, made
from tests.support.services_rig import GUARD_S, both, get, listen, packets, sharing
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.intercepting import App
    from tests.support.services_rig import Agent, Rig

pytestmark = pytest.mark.anyio

WALK = "full_text =~ [0-9]{40}"
"""No index helps, so that everything is read."""
READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_history", {"filter": WALK}),
    ("get_packet_detail", {"packet_id": 1, "include_body": True}),
    ("filter_explain", {"filter": WALK}),
    ("export_har", {"filter": "url == /one"}),
    ("export_curl", {"packet_id": 1}),
    ("diff_packets", {"a": 1, "b": 2}),
)
"""Each tool that reads the history."""


@pytest.fixture
def rig(services: Rig) -> Rig:
    return services


@pytest.fixture
async def proxy(rig: Rig) -> Proxy:
    opened: Proxy = await rig.runtime.shared.port(Proxy)
    return opened


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What workers ask the hub, and the hub the engine."""
    noted: list[str] = []
    of_hub, of_engine = WorkerPeer.call, EngineProcess.ask

    async def ask_hub(peer: WorkerPeer, do: str, given: dict[str, Any]) -> Any:
        noted.append(f"hub: {do}")
        return await of_hub(peer, do, given)

    async def ask_engine(engine: EngineProcess, do: str, **given: Any) -> Any:
        noted.append(f"engine: {do}")
        return await of_engine(engine, do, **given)

    monkeypatch.setattr(WorkerPeer, "call", ask_hub)
    monkeypatch.setattr(EngineProcess, "ask", ask_engine)
    return noted


async def recorded(rig: Rig, agent: Agent, shop: App, *paths: str) -> None:
    """Have these exchanges of no session's listener in the history."""
    port = await listen(rig, agent)
    for path in paths:
        await get(port, f"{shop.url}{path}")
        await both(rig, agent, filter=f"url == {path} && status == 200")


async def warning(rig: Rig, agent: Agent) -> str:
    page = await agent.call("get_history", access_token=rig.token, limit=1)
    return str(page.get("warning", ""))


def opens(agent: Agent) -> set[str]:
    """The files of the history that its worker has open."""
    files = psutil.Process(agent.worker.pid).open_files()
    return {file.path.rpartition("/")[2] for file in files if "history.db" in file.path}


# Who is asked


async def test_a_read_asks_the_hub_to_let_it_in_and_the_engine_nothing(
    rig: Rig, proxy: Proxy, shop: App, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_module, "HEARD_S", math.inf)
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/one")
    await packets(rig, ben)
    for tool, arguments in READS:
        asked.clear()
        await ben.call(tool, access_token=rig.token, **arguments)
        admit = "admit_to_history" if tool == "get_history" else "admit"
        assert asked == [f"hub: intercept.{admit}"], tool


async def test_an_engine_that_was_not_heard_of_late_is_asked_once_for_a_page(
    rig: Rig, proxy: Proxy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_module, "HEARD_S", -1.0)
    ann = await rig.agent()
    await packets(rig, ann)
    await proxy.engine.ask("ping", within=GUARD_S)
    asked.clear()
    await packets(rig, ann)
    assert asked == ["hub: intercept.admit_to_history", "engine: history_state"]


async def test_a_worker_opens_the_file_with_its_first_read_and_not_before(
    rig: Rig, shop: App
) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/opened")
    await ben.call("status")
    await ben.call("get_config", access_token=rig.token)
    assert opens(ben) == set()
    await packets(rig, ben)
    assert "history.db" in opens(ben)


async def test_the_file_is_closed_when_the_worker_lets_go_of_the_proxy(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db")
    history.add(made("GET", "/kept"))
    history.close()

    def is_read() -> bool:
        return any(file.path == str(history.path) for file in psutil.Process().open_files())

    class Hub:
        session = "ann"
        lost = None

        def listen(self, service: str, hear: object) -> Any:
            return lambda: None

        @asynccontextmanager
        async def hold(self, do: str, **given: Any) -> AsyncIterator[str]:
            yield str(history.path)

    hub: Any = Hub()
    async with open_remote_proxy(hub) as remote:
        assert not is_read()
        assert remote.reader.page(HistoryAsk()).total_count == 2
        assert is_read()
    assert not is_read()


# Whose packets


async def test_each_agent_s_own_packets_are_shown_to_nobody_else_unless_all_are_asked_for(
    rig: Rig, shop: App
) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/common")
    row = (await packets(rig, ann, filter="url == /common"))[-1]
    for agent in (ann, ben):
        sent = {"access_token": rig.token, "packet_id": row["id"]}
        await agent.call("resend_packet", **sent)
        # It is answered when its packets are in the file: the next read has them.
        assert len(await packets(rig, agent, filter="resend == true")) == 2
    seen = {}
    for agent in (ann, ben):
        rows = await packets(rig, agent, filter="url == /common")
        assert {one["session"] for one in rows} == {"", agent.name}
        seen[agent.name] = {one["id"] for one in rows}
        har = await agent.call(
            "export_har", access_token=rig.token, filter="url == /common && resend == true"
        )
        assert har["entries"] == 1
        rows = await packets(rig, agent, filter="url == /common", all_sessions=True)
        assert {one["session"] for one in rows} == {"", ann.name, ben.name}
    assert seen[ann.name] & seen[ben.name] == {
        one["id"] for one in await packets(rig, ann, filter="url == /common && resend == false")
    }


@pytest.mark.parametrize("name", ["session", "sessionId", "session_id", "who"])
async def test_no_argument_makes_an_agent_another(rig: Rig, name: str) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    fault = await ben.fault("get_history", access_token=rig.token, **{name: ann.name})
    assert fault["code"] in (-32600, -32602)


async def test_a_cursor_is_good_for_its_own_agent_alone(rig: Rig, shop: App) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/paged")
    page = await ann.call("get_history", access_token=rig.token, limit=1)
    asked = {"access_token": rig.token, "limit": 1, "cursor": page["next_cursor"]}
    assert len((await ann.call("get_history", **asked))["packets"]) == 1
    assert (await ben.fault("get_history", **asked))["code"] == -32602


# Who is let in


async def test_a_wrong_token_reads_nothing_and_is_counted_in_the_hub(rig: Rig, shop: App) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/guarded")
    for tool, arguments in READS:
        fault = await ben.fault(tool, access_token="wrong", **arguments)
        assert fault["code"] == -32005, tool
        fault = await ben.fault(tool, **arguments)
        assert fault["code"] == -32005, tool
    assert opens(ben) == set()
    for _ in range(10 - len(READS)):
        await ben.fault("get_history", access_token="wrong")
    await ben.kill()
    ben = await rig.agent(ben)
    fault = await ben.fault("get_history", access_token=rig.token)
    assert "too many wrong" in fault["message"]
    assert await packets(rig, ann)


async def test_a_read_without_a_hub_says_that_the_engine_cannot_be_reached(
    rig: Rig, shop: App
) -> None:
    ann = await rig.agent()
    await recorded(rig, ann, shop, "/last")
    for peer in list(rig.services._peers):
        peer._line.close("the hub has ended")
    for tool, arguments in READS:
        fault = await ann.fault(tool, access_token=rig.token, **arguments)
        assert (fault["code"], "hub" in fault["message"]) == (-32001, True), tool


# What befalls the engine and its file


async def test_pages_go_on_while_the_engine_is_killed_and_show_what_the_next_one_writes(
    rig: Rig, proxy: Proxy, shop: App
) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/a", "/b")
    asked: dict[str, Any] = {"access_token": rig.token, "limit": 1}
    first = await ben.call("get_history", **asked)
    pid = proxy.engine.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    second = await ben.call("get_history", **asked, cursor=first["next_cursor"])
    assert second["packets"][0]["id"] < first["packets"][0]["id"]
    await until(lambda: proxy.engine.pid not in (None, pid))
    await recorded(rig, ann, shop, "/after")
    assert len(await packets(rig, ben, filter="url == /after")) == 2
    assert await warning(rig, ben) == ""


async def test_an_engine_that_stands_still_is_told_as_busy_until_it_goes_on(
    rig: Rig, proxy: Proxy
) -> None:
    ann = await rig.agent()
    await proxy.engine.ask("ping", within=GUARD_S)
    pid = proxy.engine.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await until(lambda: proxy.engine.silent_s > proxy_module.HEARD_S)
        assert "the engine is busy" in await warning(rig, ann)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    async def is_well() -> bool:
        return await warning(rig, ann) == ""

    await until(is_well)


async def test_every_agent_is_told_why_packets_are_not_written_until_they_are(
    rig: Rig, proxy: Proxy, shop: App
) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    port = await listen(rig, ann)
    assert proxy.engine.pid
    engine = psutil.Process(proxy.engine.pid)
    most = engine.rlimit(psutil.RLIMIT_FSIZE)

    async def are_told() -> bool:
        told = [await warning(rig, agent) for agent in (ann, ben)]
        return all("packets are not being written" in one for one in told)

    engine.rlimit(psutil.RLIMIT_FSIZE, (1024, most[1]))  # no file may grow any more
    try:
        await get(port, f"{shop.url}/unwritten")
        await until(are_told)
        assert rig.runtime.services["packet history"].startswith("off: ")
    finally:
        engine.rlimit(psutil.RLIMIT_FSIZE, most)
    await both(rig, ben, filter="url == /unwritten && status == 200")

    async def are_well() -> bool:
        return [await warning(rig, agent) for agent in (ann, ben)] == ["", ""]

    await until(are_well)
    assert rig.runtime.services["packet history"] == "on"


async def test_what_one_engine_could_not_write_is_not_held_against_the_next(
    rig: Rig, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_module, "HEARD_S", math.inf)  # it is told, not asked
    ann = await rig.agent()
    await proxy.engine.ask("ping", within=GUARD_S)
    proxy.on_event({"event": "history", "reason": "the disk is full"})
    assert "the disk is full" in await warning(rig, ann)
    pid = proxy.engine.pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    await until(lambda: proxy.engine.pid not in (None, pid))
    assert await warning(rig, ann) == ""
    assert rig.runtime.services["packet history"] == "on"


async def test_an_engine_whose_words_were_missed_is_asked_how_it_is(
    rig: Rig, proxy: Proxy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_module, "HEARD_S", math.inf)
    ann = await rig.agent()
    await proxy.engine.ask("ping", within=GUARD_S)
    proxy.on_event({"event": "history", "reason": "the disk is full"})
    proxy.on_event({"event": "missed", "count": 1})
    asked.clear()
    assert await warning(rig, ann) == ""
    assert await warning(rig, ann) == ""
    assert [one for one in asked if one.startswith("engine")] == ["engine: history_state"]


async def test_a_history_that_is_not_there_yet_or_is_begun_anew_is_read_as_it_is(
    shop: App,
) -> None:
    async with sharing() as rig:
        ann, ben = await rig.agent(), await rig.agent()
        file = private_folder(rig.settings.home, {}, "data", "intercept") / "history.db"
        assert await packets(rig, ben) == []
        assert not file.exists()  # and a read does not make it
        await recorded(rig, ann, shop, "/first")
        assert len(await packets(rig, ben)) == 2
        before = {one["id"] for one in await packets(rig, ben)}
        for end in ("-wal", "-shm", ""):
            file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
        assert await packets(rig, ben) == []
        await recorded(rig, ann, shop, "/second")
        after = {one["id"] for one in await packets(rig, ben)}
        assert len(after) == 2
        assert not after & before


async def test_a_history_that_is_none_is_told_as_one_that_cannot_be_read(shop: App) -> None:
    async with sharing() as rig:
        ann = await rig.agent()
        await packets(rig, ann)
        file = private_folder(rig.settings.home, {}, "data", "intercept") / "history.db"
        file.write_bytes(b"no database" * 1000)
        fault = await ann.fault("get_history", access_token=rig.token)
        assert (fault["code"], "cannot be read" in fault["message"]) == (-32001, True)


async def test_an_agent_is_served_while_another_searches(rig: Rig, shop: App) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await recorded(rig, ann, shop, "/found")
    # A worker that stands still is one that is still searching.
    os.kill(ann.worker.pid, signal.SIGSTOP)
    try:
        searching = asyncio.create_task(
            ann.call("get_history", access_token=rig.token, filter=WALK)
        )
        assert len(await packets(rig, ben, filter="url == /found")) == 2
        assert not searching.done()
    finally:
        os.kill(ann.worker.pid, signal.SIGCONT)
    assert (await searching)["packets"] == []
