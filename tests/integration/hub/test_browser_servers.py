"""Other people's browser servers behind the hub: clients of the SDK, each with its own browser.

Among them the first two scenarios of the gateway's test plan: two conversations at once, and one
of two that leaves.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
from mcp.client import Client

from pilothouse.hub.notices import RESET
from pilothouse.hub.workers.capacity import WorkerLimits
from tests.support.hub_rig import hub
from tests.support.listener_rig import call
from tests.support.living import living
from tests.support.peers import devtools, installed, playwright
from tests.support.rounds import IS_SOAK
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pilothouse.hub.workers.command import CommandKind
    from pilothouse.hub.workers.pool import Pool
    from tests.support.listener_rig import Rig

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.browser,
    pytest.mark.usefixtures("unhurried"),
    installed,
]

IDLE_S = 60.0
GUARD_S = 110.0
LOOKS = 5
"""How often each client looks at its page while the other does the same."""
NAVIGATE = {"playwright": "browser_navigate", "devtools": "navigate_page"}
SNAPSHOT = {"playwright": "browser_snapshot", "devtools": "take_snapshot"}
WHERE: dict[str, dict[str, Any]] = {"playwright": {}, "devtools": {"pageId": 1}}
"""The page of a browser that has just one; its number is the same for everybody."""


BOTH = pytest.mark.parametrize("peer", ["playwright", "devtools"])


@pytest.fixture
def kind(peer: str, mark: str, sockets: Path, tmp_path: Path) -> CommandKind:
    if peer == "playwright":
        return playwright(mark, tmp_path)
    return devtools(mark, sockets, tmp_path)


@asynccontextmanager
async def client_of(rig: Rig[Pool], era: str = "legacy") -> AsyncIterator[Client]:
    with anyio.fail_after(GUARD_S):
        async with Client(f"{rig.url}/mcp", mode=era) as client:
            yield client


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    text = "\n".join(getattr(block, "text", "") for block in result.content)
    assert not result.is_error, text
    return text


def page(name: str) -> str:
    return f"data:text/html,<title>{name}</title><h1>{name}</h1>"


@BOTH
async def test_two_at_once_have_a_process_each_and_never_see_the_other_s_page(
    peer: str, kind: CommandKind, mark: str
) -> None:
    async def browse(client: Client, name: str) -> list[str]:
        await text_of(client, NAVIGATE[peer], url=page(name), **WHERE[peer])
        return [await text_of(client, SNAPSHOT[peer], **WHERE[peer]) for _ in range(LOOKS)]

    async with hub(kind, WorkerLimits(start_s=GUARD_S)) as rig, client_of(rig) as one:
        async with client_of(rig, "auto") as other:
            for client in (one, other):
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert {NAVIGATE[peer], SNAPSHOT[peer]} <= names
            assert list(rig.crew.entries()) == [], "lists need no process"
            seen = await asyncio.gather(browse(one, "starboard"), browse(other, "larboard"))
            for name, stranger, looks in (
                ("starboard", "larboard", seen[0]),
                ("larboard", "starboard", seen[1]),
            ):
                assert all(name in look for look in looks)
                assert not any(stranger in look for look in looks)
            pids = pids_of(rig)
            assert len(pids) == 2
            if peer == "playwright":
                assert len({port_of(pid) for pid in pids}) == 2
        # Who leaves takes all its processes along, and nobody else's.
        await until(lambda: len(pids_of(rig)) == 1)
        (staying,) = pids_of(rig)
        # Its reaper has also those that left their parents.
        reaper = psutil.Process(staying).parent()
        assert reaper is not None
        # Those that stay may have started another meanwhile, those that left may be dying.
        await until(lambda: {*living(mark)} <= {*reaper.children(recursive=True)})
        assert "starboard" in await text_of(one, SNAPSHOT[peer], **WHERE[peer])


def pids_of(rig: Rig[Pool]) -> set[int]:
    return {entry.worker.pid for entry in rig.crew.entries() if entry.worker}


def port_of(pid: int) -> int:
    listening: list[int] = [
        connection.laddr.port
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 1
    return listening[0]


@pytest.mark.parametrize("peer", ["playwright", *(["devtools"] if IS_SOAK else [])])
async def test_who_falls_silent_loses_its_processes_but_not_its_session(
    peer: str, kind: CommandKind, mark: str
) -> None:
    away_s = 0.0
    clock = time.monotonic if IS_SOAK else lambda: time.monotonic() + away_s
    limits = WorkerLimits(idle_s=IDLE_S, start_s=GUARD_S)
    async with hub(kind, limits, clock=clock) as rig:
        client = await rig.connect()
        ours = f"Mcp-Session-Id: {await client.initialize()}"
        navigate = call(NAVIGATE[peer], url=page("silent"), **WHERE[peer])

        async def ask() -> str:
            async with asyncio.timeout(GUARD_S):
                client.post(navigate, ours)
                got = await client.answer()
            assert got.status == 200, got
            return str(got.json["result"]["content"])

        assert RESET not in await ask()
        assert len(living(mark)) > 2
        away_s = IDLE_S
        await until(lambda: living(mark) == [], IDLE_S + GUARD_S)
        assert RESET in await ask()
        assert RESET not in await ask()
