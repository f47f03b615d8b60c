"""One run: all servers, all agents, all sockets, for so many seconds."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import psutil

from tests.fuzz import frames
from tests.fuzz.arguments import declared_tools
from tests.fuzz.browser import run_hostile_browser
from tests.fuzz.clients import LEGACY, MODERN, HttpClient
from tests.fuzz.corpus import Keeper
from tests.fuzz.frames import ExtensionPlace, HttpPlace, Place, UnixPlace
from tests.fuzz.judge import Figures, log_incidents
from tests.fuzz.lanes import AgentLane, FrameLane, together
from tests.fuzz.processes import own_engine, own_zygote
from tests.fuzz.servers import Setting, connected_chrome, resident_mb, running_hub, standalone
from tests.support import forkserver
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.fuzz.clients import Reply
    from tests.fuzz.judge import Verdict
    from tests.support.servers import Server

PROGRESS_S = 30.0
GROWTH_MB = 64.0
"""What a worker may have come to take between the end of its second session and of its last one:
rings, caches and compiled patterns fill until they are full."""


def run(seconds: float, random: Random, *, keep: bool = False) -> Figures:
    """Fuzz for a while and return what came of it."""
    figures = Figures()
    tools = declared_tools()
    keeper = Keeper()

    def on_call(tool: str, arguments: Mapping[str, Any], reply: Reply, verdict: Verdict) -> None:
        keeper.add_call(tool, arguments, verdict.code, reply.took)

    with ExitStack() as stack:
        hostile = stack.enter_context(run_hostile_browser(_of(random)))
        setting = stack.enter_context(Setting.made())
        hub = stack.enter_context(running_hub(setting))
        stack.enter_context(connected_chrome(setting))
        ports = [free_port(), free_port()]
        lanes: list[AgentLane] = []
        for era in (LEGACY, MODERN):
            client = HttpClient(hub.url, era)
            stack.callback(client.close)
            lane = AgentLane(
                f"hub {era}",
                client,
                setting,
                _of(random),
                figures,
                tools,
                worker_memory=partial(workers_mb, setting),
                hostile_port=hostile.port,
                free_ports=ports,
            )
            lanes.append(lane)
        watching = HttpClient(hub.url, LEGACY)
        stack.callback(watching.close)
        watcher = AgentLane(
            "the hostile browser's",
            watching,
            setting,
            _of(random),
            figures,
            [tool for tool in tools if tool.group == "observe"],
            hostile_port=hostile.port,
        )
        own: list[tuple[str, list[str]]] = [("the hub", hub.lines)]
        logs = []
        for era in (LEGACY, MODERN):
            alone = stack.enter_context(Setting.made())
            process = stack.enter_context(standalone(alone, era))
            stack.enter_context(connected_chrome(alone))
            lanes.append(
                AgentLane(
                    f"standalone {era}",
                    process,
                    alone,
                    _of(random),
                    figures,
                    tools,
                    worker_memory=partial(resident_mb, process.process.pid),
                    hostile_port=hostile.port,
                    free_ports=[free_port(), free_port()],
                )
            )
            logs.append((f"standalone {era}", process))
        engine = stack.enter_context(own_engine(setting.home / "engine"))
        zygote = stack.enter_context(own_zygote(setting.home / "zygote"))
        own += [("the engine", engine.log), ("the zygote", zygote.log)]
        lanes[0].open_services()
        places = [*hub_places(hub, setting), engine, zygote]
        sender = FrameLane(places, _of(random), figures)
        for lane in lanes:
            lane.on_call = on_call
        sender.on_frames = keeper.add_frames
        until = time.monotonic() + seconds
        works = [*(lane.run for lane in lanes), watcher.watch, sender.run]
        together([partial(work, until) for work in works])
        for name, client_ in logs:
            own.append((name, client_.log().splitlines()))
        for name, lines in own:
            figures.report(f"log of {name}: {line}" for line in log_incidents(lines))
        if hub.process.poll() is not None:
            figures.report([f"the hub has ended with {hub.process.poll()}"])
    forkserver.close()
    if keep:
        keeper.write()
    return figures


def _of(random: Random) -> Random:
    """Return a source of its own for each thread, so that one seed is enough."""
    return Random(random.getrandbits(64))


def workers_mb(setting: Setting) -> float:
    """Return what the hub's workers take, without their browsers."""
    from pilothouse.gateway.control import ask
    from pilothouse.hub_files import hub_files

    told = ask(str(hub_files(str(setting.home), {}).socket), {"status": True}) or {}
    pids = [seat["pid"] for seat in told.get("status", {}).get("seats", []) if seat["pid"]]
    return max(map(resident_mb, pids), default=0.0)


def hub_places(hub: Server, setting: Setting) -> list[Place]:
    """Return the sockets of a hub, its intercept and bookmark services included."""
    http = int(hub.url.rsplit(":", 1)[1])
    code = setting.pairing_code
    return [
        UnixPlace("control", _socket_of(hub, ".sock"), frames.CONTROL),
        UnixPlace("services", _socket_of(hub, "/services")),
        ExtensionPlace(setting.bookmarks, code),
        HttpPlace("rest", setting.rest, frames.REST_PATHS, frames.REST, setting.token),
        HttpPlace("config", setting.config, ("/config", "/", "/x"), frames.REST, setting.token),
        HttpPlace("mcp", http, frames.MCP_PATHS, frames.MCP),
    ]


def _socket_of(hub: Server, ending: str) -> str:
    paths = (str(one.laddr) for one in psutil.Process(hub.process.pid).net_connections("unix"))
    return next(path for path in paths if path.endswith(ending))


def grown(memory: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Say whose memory has not come to rest."""
    for lane, sizes in memory.items():
        if len(sizes) >= 3 and sizes[-1] - sizes[1] > GROWTH_MB:
            yield f"the memory of {lane} has grown from {sizes[1]:.0f} to {sizes[-1]:.0f} MB"
