"""The tools that start, end, restart and check e2e sessions; with all browser tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.tool import Example, Progress, tool
from pilothouse.core.timeline.clock import iso
from pilothouse.e2e.model import (
    BrowserLaunchFailed,
    CommandNotAllowed,
    LogPaths,
    ServerStartFailed,
    ServiceSpec,
    ShutdownFailed,
    UrlNotAllowed,
)
from pilothouse.e2e.ports import Sessions
from pilothouse.e2e.tools import act, export, look, network_and_logins, wait
from pilothouse.e2e.tools import logs as log_tools
from pilothouse.e2e.tools import tabs as tab_tools
from pilothouse.e2e.tools.shared import E2E, FOUND, InSession

if TYPE_CHECKING:
    from typing import Self

    from pilothouse.e2e.session import E2eSession


class _Runnable(Args):
    command_path: str | None = Field(default=None, description="Command with --start, --status …")
    args: list[str] = Field(default_factory=list, description="For commandPath")
    command: list[str] | None = Field(default=None, description="Such as [npm, run, dev]")
    cwd: str | None = Field(default=None, description="Folder of the app")
    env: dict[str, str] = Field(default_factory=dict, description="Further variables")
    port: int | None = Field(default=None, ge=1, le=65535, description="Default: free")
    timeout: int = Field(default=30_000, ge=1_000, le=600_000, description="Start, ms")

    def spec(self, name: str) -> ServiceSpec:
        return ServiceSpec(
            name=name,
            command_path=self.command_path or "",
            args=tuple(self.args),
            command=tuple(self.command or ()),
            cwd=self.cwd or "",
            env=self.env,
            port=self.port or 0,
            timeout_ms=self.timeout,
        )


class ServiceArgs(Args):
    name: str = Field(min_length=1, max_length=40, description="Such as api")
    command: list[str] | None = Field(default=None, description="As above")
    cwd: str | None = Field(default=None, description="Folder")
    env: dict[str, str] = Field(default_factory=dict, description="Variables")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port")

    def spec(self, limit: int) -> ServiceSpec:
        return ServiceSpec(
            name=self.name,
            command=tuple(self.command or ()),
            cwd=self.cwd or "",
            env=self.env,
            port=self.port or 0,
            timeout_ms=limit,
        )


class LogPathArgs(Args):
    stdout: str = Field(default="", description="Path")
    stderr: str = Field(default="", description="Path")
    combined: str = Field(default="", description="Path")


class StartSession(_Runnable):
    url: str | None = Field(default=None, description="App that runs already")
    logs: LogPathArgs | None = Field(default=None, description="Logs of that app")
    services: list[ServiceArgs] | None = Field(
        default=None, max_length=8, description="Several; the first is the app"
    )
    cdp: str | None = Field(default=None, description="host:port of your own Chrome")
    browser: Literal["chromium", "firefox", "webkit"] = Field(
        default="chromium", description="Browser"
    )
    headless: bool = Field(default=True, description="Without a window")
    width: int = Field(default=1280, ge=100, le=10_000, description="Of the viewport")
    height: int = Field(default=720, ge=100, le=10_000, description="Of the viewport")
    state: str | None = Field(default=None, description="Saved logins, by name")
    record: list[Literal["trace", "video"]] = Field(
        default_factory=list, description="Kept for an export"
    )
    intercept: bool = Field(default=False, description="Record packets")
    debug_port: bool = Field(default=False, description="Open one")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [
            name
            for name in ("command_path", "command", "services")
            if getattr(self, name) is not None
        ]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} cannot be used together")
        if self.intercept and self.cdp:
            raise ValueError("intercept needs a browser of the session's own, without cdp")
        if self.debug_port and (self.cdp or self.browser != "chromium"):
            raise ValueError("debugPort is for a Chromium of the session's own")
        if self.args and not self.command_path:
            raise ValueError("args are for commandPath; command has its own, as one list")
        if self.url and not ways and (self.env or self.port):
            raise ValueError("env and port are for a server that is started, not for url")
        names = [service.name for service in self.services or ()]
        if len(set(names)) < len(names):
            raise ValueError("each of the services needs a name of its own")
        return self


class SessionStart(Result):
    session_id: str = Field(description="Pass it to the other tools")
    url: str = Field(description="The app")
    port: int = Field(description="Its port")
    pid: int = Field(description="Process of its server, 0 if not ours")
    logs: dict[str, str] = Field(description="Paths of its logs")
    target_id: str = Field(description="The tab, for cdp_ tools")
    cdp_port: int | None = Field(default=None, description="If one is open")
    tab_id: str = Field(description="The tab, for browser tools")
    services: list[dict[str, Any]] = Field(default_factory=list, description="All servers")
    message: str = Field(default="", description="What the server said")


@tool(
    E2E,
    effect="write",
    open_world=True,
    profile="default",
    raises=(ServerStartFailed, CommandNotAllowed, UrlNotAllowed, BrowserLaunchFailed),
    examples=(
        Example(title="Start the app of a folder", args={"cwd": "shop"}),
        Example(title="Start a dev server", args={"command": ["npm", "run", "dev"]}),
        Example(title="Use an app that runs", args={"url": "http://localhost:3000"}),
    ),
)
async def start_session(args: StartSession, sessions: Sessions, progress: Progress) -> SessionStart:
    """Start the app and a browser for it. Without a command, the folder says how to start it."""
    from pilothouse.e2e.app_server.start import StartRequest

    services = tuple(service.spec(args.timeout) for service in args.services or ())
    # Your own Chrome comes without an app, unless a folder or a command says which.
    wanted = args.command_path or args.command or (args.cdp is None or args.cwd)
    if not services and wanted and (args.url is None or args.command_path or args.command):
        services = (args.spec("app"),)
    if args.state and args.cdp:
        raise InvalidInput(
            "state: your own Chrome keeps its own logins", hint="leave out state, or cdp"
        )
    state = network_and_logins.saved_state(sessions.state_folder, args.state) if args.state else ""
    logs = args.logs
    request = StartRequest(
        services=services,
        url=args.url or "",
        logs=LogPaths(logs.stdout, logs.stderr, logs.combined) if logs else None,
        cdp=_endpoint(args.cdp),
        browser=args.browser,
        headless=args.headless,
        width=args.width,
        height=args.height,
        storage_state=str(state),
        records=frozenset(args.record),
        intercept=args.intercept,
        debug_port=args.debug_port,
    )
    said: list[str] = []
    await progress(0, 3, "starting the app and the browser")
    session = await sessions.start(request, said.append)
    if args.debug_port:
        said.append("Every user of this machine can drive the browser by its cdpPort.")
    if args.state:
        session.record("loadState", name=args.state)
    await progress(3, 3, "ready")
    return _started(session, said)


def _endpoint(cdp: str | None) -> str:
    if not cdp:
        return ""
    from pilothouse.core.net.url_policy import UrlError, target_of

    host, _, port = cdp.removeprefix("http://").rpartition(":")
    try:
        target_of(f"http://{host}:{port}")
    except UrlError:
        host = ""
    if not host or not port.isdigit():
        raise InvalidInput(
            f"cdp: {cdp!r} is no host:port",
            hint="use 127.0.0.1:9222",
            field="cdp",
            expected="host:port",
            received=cdp,
        )
    return f"http://{host}:{port}"


def _started(session: E2eSession, said: list[str]) -> SessionStart:
    main = session.servers[0].info if session.servers else None
    tab = session.tab(None)
    assert session.browser is not None
    return SessionStart(
        session_id=session.id,
        url=session.url,
        port=main.port if main else 0,
        pid=main.pid if main else 0,
        logs=_paths(main.logs if main else LogPaths()),
        target_id=tab.target_id,
        cdp_port=session.browser.debug_port or None,
        tab_id=tab.id,
        services=[
            {
                "name": name,
                "url": s.info.url,
                "port": s.info.port,
                "pid": s.info.pid,
                "status": s.info.status,
            }
            for name, s in list(zip(session.server_names, session.servers, strict=True))[1:]
        ],
        message=" ".join([*said, main.message if main else ""]).strip(),
    )


def _paths(logs: LogPaths) -> dict[str, str]:
    return {"stdout": logs.stdout, "stderr": logs.stderr, "combined": logs.combined}


class EndSession(InSession):
    stop_server: bool = Field(default=False, description="Also one that ran before the session")
    remove_logs: bool = Field(default=False, description="Also logs, screenshots, dossiers")


class SessionEnd(Result):
    success: bool = Field(description="Always true")
    session_id: str = Field(description="The session")
    left: list[str] = Field(default_factory=list, description="What was left running, and why")
    forced: list[str] = Field(default_factory=list, description="What had to be ended by force")


@tool(
    E2E,
    effect="destroy",
    profile="default",
    raises=(*FOUND, ShutdownFailed),
    examples=(Example(title="End it", args={}),),
)
async def end_session(args: EndSession, sessions: Sessions) -> SessionEnd:
    """End a session: its browser and its server stop."""
    session = sessions.find(args.session_id)
    report = await sessions.end(
        session.id, stop_server=args.stop_server, remove_logs=args.remove_logs
    )
    if report.get("failures"):
        raise ShutdownFailed(
            f"the session is over, but its server would not stop: {report['failures'][0]}",
            hint="stop it yourself",
            reason=report["failures"][0],
            sessionId=session.id,
        )
    told = {name: report.get(name, []) for name in ("left", "forced")}
    return SessionEnd(success=True, session_id=session.id, **told)


class SessionStatus(Result):
    status: Literal["running", "stopped", "unhealthy"] = Field(description="Of the app")
    session_id: str = Field(description="The session")
    state: str = Field(description="CREATED, ACTIVE, IDLE or TERMINATED")
    url: str = Field(default="", description="The app")
    uptime: float = Field(description="Of the session, in seconds")
    healthy: bool = Field(description="Whether the server answers and no tab has crashed")
    tabs: int = Field(description="Open tabs")
    crashed: list[str] = Field(default_factory=list, description="Tabs that navigate revives")
    steps: int = Field(description="Steps taken")
    ends_at: str = Field(description="Idle until then, it is ended")
    services: list[dict[str, Any]] = Field(default_factory=list, description="Each server")
    downloads: list[dict[str, Any]] = Field(default_factory=list, description="Saved files")
    notices: list[dict[str, Any]] = Field(default_factory=list, description="Such as server_exited")


@tool(
    E2E,
    effect="read",
    profile="default",
    raises=FOUND,
    examples=(Example(title="How is it?", args={}),),
)
async def get_session_status(args: InSession, sessions: Sessions) -> SessionStatus:
    """How a session and its server are."""
    state = sessions.find(args.session_id).state  # before this call makes it ACTIVE itself
    async with sessions.using(args.session_id) as session:
        healths = [await server.health() for server in session.servers]
        crashed = [tab.id for tab in session.tabs.values() if tab.crashed]
        worst = "unhealthy" if crashed else "running"
        for health in healths:
            if health.status != "running":
                worst = "stopped" if "stopped" in (health.status, worst) else "unhealthy"
        return SessionStatus(
            status=worst,  # type: ignore[arg-type]
            session_id=session.id,
            state=state,
            url=session.url,
            uptime=round((session.clock() - session.started_at) / 1000, 3),
            healthy=worst == "running",
            tabs=len(session.tabs),
            crashed=crashed,
            steps=len(session.steps),
            ends_at=iso(session.clock() + session.idle_sec * 1000),
            services=[
                {
                    "name": name,
                    "url": server.info.url,
                    "status": health.status,
                    **({"exitCode": health.exit_code} if health.exit_code is not None else {}),
                    **({"message": health.message} if health.message else {}),
                }
                for name, server, health in zip(
                    session.server_names, session.servers, healths, strict=True
                )
            ],
            downloads=session.downloads[-20:],
            notices=session.take_notices(),
        )


class RestartServer(InSession):
    service: str | None = Field(default=None, description="Only this: name, number or URL")


class Restarted(Result):
    success: bool = Field(description="Always true")
    url: str = Field(description="The app")
    port: int = Field(description="Its port")
    pid: int = Field(description="Its new process")


@tool(
    E2E,
    effect="write",
    profile="default",
    raises=(*FOUND, ServerStartFailed, CommandNotAllowed, UrlNotAllowed),
    examples=(Example(title="Start over", args={}),),
)
async def restart_server(args: RestartServer, sessions: Sessions) -> Restarted:
    """Restart the app's server, and others that have ended; the browser and its tabs stay."""
    async with sessions.using(args.session_id) as session:
        if not session.servers:
            raise InvalidInput(
                "this session has no server of its own", hint="start one with startSession"
            )
        first, *others = session.servers
        wanted = [first, *(server for server in others if server.exit_code is not None)]
        if args.service is not None:
            wanted = [log_tools.server_of(session, args.service)]
        session.notices.clear()
        infos = [await server.restart() for server in wanted]
        assert session.claim is not None
        for info in infos:
            await session.claim(info.url)
        info = infos[0]
        return Restarted(success=True, url=info.url, port=info.port, pid=info.pid)


TOOLS = (
    start_session,
    end_session,
    get_session_status,
    restart_server,
    *log_tools.TOOLS,
    *act.TOOLS,
    *look.TOOLS,
    *wait.TOOLS,
    *tab_tools.TOOLS,
    *network_and_logins.TOOLS,
    *export.TOOLS,
)
RESOURCES = log_tools.RESOURCES
