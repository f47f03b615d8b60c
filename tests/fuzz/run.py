"""One run: all servers, all agents, all sockets, for so many seconds."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from tests.fuzz import frames
from tests.fuzz.arguments import declared_tools
from tests.fuzz.browser import run_hostile_browser
from tests.fuzz.clients import LEGACY, MODERN, HttpClient
from tests.fuzz.corpus import Keeper
from tests.fuzz.judge import Figures, log_incidents
from tests.fuzz.lanes import AgentLane, FrameLane, together
from tests.fuzz.pipe import PipePlace
from tests.fuzz.places import ExtensionPlace, HttpPlace, Place, UnixPlace
from tests.fuzz.processes import own_engine, own_zygote
from tests.fuzz.servers import Setting, connected_chrome, resident_mb, running_hub, standalone
from tests.support import forkserver
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.fuzz.arguments import FuzzedTool
    from tests.fuzz.clients import FuzzClient, Reply
    from tests.fuzz.judge import Verdict
    from tests.support.servers import Server

LEAST_SESSIONS = 3
GROWTH_MB = 64.0
"""What a worker may have come to take between the end of its second session and of its last one:
rings, caches and compiled patterns fill until they are full."""


class RunningProcess(Protocol):
    """What is asked of a process that runs."""

    def poll(self) -> int | None: ...


def run(seconds: float, random: Random, *, keep: bool = False) -> Figures:
    """Fuzz for a while and return what came of it."""
    with ExitStack() as stack:
        running = Running(stack, random)
        running.open_hub()
        for era in (LEGACY, MODERN):
            running.open_standalone(era)
        running.open_frames()
        figures = running.run(seconds)
    forkserver.close()
    if keep:
        running.keeper.write()
    return figures


class Running:
    """Everything that takes part in a run, open for as long as the stack."""

    def __init__(self, stack: ExitStack, random: Random) -> None:
        self.keeper = Keeper()
        self._stack = stack
        self._random = random
        self._figures = Figures()
        self._tools = declared_tools()
        self._hostile = stack.enter_context(run_hostile_browser(_of(random)))
        self._lanes: list[AgentLane] = []
        self._works: list[Callable[[float], None]] = []
        self._logs: dict[str, Callable[[], Sequence[str]]] = {}
        """Of each process, by its name."""
        self._processes: dict[str, RunningProcess] = {}
        """Those that have to go on until they are told to end."""

    def open_hub(self) -> None:
        """Serve a hub with an agent of either era, and one for the hostile browser."""
        self._setting = self._stack.enter_context(Setting.made())
        self._hub = self._stack.enter_context(running_hub(self._setting))
        self._stack.enter_context(connected_chrome(self._setting))
        self._logs["the hub"] = lambda: self._hub.lines
        self._processes["the hub"] = self._hub.process
        for era in (LEGACY, MODERN):
            lane = self._lane(f"hub {era}", self._client(era), self._setting, self._tools)
            self._drives(lane, partial(workers_mb, self._setting))
        watching = [tool for tool in self._tools if tool.group == "observe"]
        watcher = self._lane("the hostile browser's", self._client(LEGACY), self._setting, watching)
        self._works.append(watcher.watch)

    def open_standalone(self, era: str) -> None:
        """Serve on stdio in a home of its own."""
        setting = self._stack.enter_context(Setting.made())
        client = self._stack.enter_context(standalone(setting, era))
        self._stack.enter_context(connected_chrome(setting))
        self._logs[f"standalone {era}"] = lambda: client.log().splitlines()
        self._processes[f"standalone {era}"] = client.process
        lane = self._lane(f"standalone {era}", client, setting, self._tools)
        self._drives(lane, partial(resident_mb, client.process.pid))

    def open_frames(self) -> None:
        """Have all sockets open, those of processes that know their owner alone included."""
        engine = self._stack.enter_context(own_engine(self._setting.home / "engine"))
        zygote = self._stack.enter_context(own_zygote(self._setting.home / "zygote"))
        self._logs |= {"the engine": lambda: engine.log, "the zygote": lambda: zygote.log}
        self._lanes[0].open_services()
        places = [*hub_places(self._hub, self._setting), engine, zygote, PipePlace()]
        sender = FrameLane(places, _of(self._random), self._figures)
        sender.on_frames = self._keep_frames
        self._works.append(sender.run)

    def run(self, seconds: float) -> Figures:
        until = time.monotonic() + seconds
        together([partial(work, until) for work in self._works])
        for name, log in self._logs.items():
            self._figures.report(f"log of {name}: {line}" for line in log_incidents(log()))
        self._figures.report(ended(self._processes))
        return self._figures

    def _client(self, era: str) -> HttpClient:
        client = HttpClient(self._hub.url, era)
        self._stack.callback(client.close)
        return client

    def _lane(
        self, name: str, client: FuzzClient, setting: Setting, tools: Sequence[FuzzedTool]
    ) -> AgentLane:
        lane = AgentLane(name, client, setting, _of(self._random), self._figures, tools)
        lane.known.set("hostile", self._hostile.port)
        for _ in range(2):
            lane.known.add("free", free_port())
        lane.on_call = self._keep
        self._lanes.append(lane)
        return lane

    def _drives(self, lane: AgentLane, memory: Callable[[], float]) -> None:
        """Have an agent make calls, and compare what its worker takes after each session."""
        lane.memory = memory
        self._figures.memory[lane.name] = []
        self._works.append(lane.run)

    def _keep(
        self, tool: str, arguments: Mapping[str, Any], reply: Reply, verdict: Verdict
    ) -> None:
        broke = bool(verdict.incidents)
        self.keeper.add_call(tool, arguments, verdict.code, reply.took, broke=broke)

    def _keep_frames(self, place: str, sent: list[bytes], took: float, incident: str) -> None:
        self.keeper.add_frames(place, sent, took, broke=bool(incident))


def _of(random: Random) -> Random:
    """Return a source of its own for each thread, so that one seed is enough."""
    return Random(random.getrandbits(64))


def workers_mb(setting: Setting) -> float:
    """Return what the hub's workers take, without their browsers."""
    from pilothouse.hub.control.protocol import ask
    from pilothouse.hub.files import hub_files

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


def ended(processes: Mapping[str, RunningProcess]) -> Iterator[str]:
    """Say which processes have ended by themselves."""
    for name, process in processes.items():
        if (code := process.poll()) is not None:
            yield f"{name} has ended with {code}"


def grown(memory: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Say whose memory has not come to rest, or was not looked at often enough to tell."""
    for lane, sizes in memory.items():
        if len(sizes) < LEAST_SESSIONS:
            yield f"{lane} has ended too few sessions to compare its memory: {len(sizes)}"
        elif sizes[-1] - sizes[1] > GROWTH_MB:
            yield f"the memory of {lane} has grown from {sizes[1]:.0f} to {sizes[-1]:.0f} MB"
