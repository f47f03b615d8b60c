"""Starts what a session is to serve: contract commands, plain dev servers, running apps."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.core.net.url_policy import UrlError, origin_of, target_of
from pilothouse.e2e.app_server.contract_command import ContractCommand
from pilothouse.e2e.app_server.contract_server import start_contract
from pilothouse.e2e.app_server.detect import detect, local_program, why_none
from pilothouse.e2e.app_server.logs.output import open_output
from pilothouse.e2e.app_server.plain import RunningApp, start_plain
from pilothouse.e2e.command_policy.own_code import CommandPlace
from pilothouse.e2e.command_policy.policy import check_command, check_cwd, child_env
from pilothouse.e2e.model import LogPaths, ServerStartFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pilothouse.core.net.url_policy import Address, Origin
    from pilothouse.core.settings import Settings
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.e2e.app_server.plain import Find
    from pilothouse.e2e.model import ServiceSpec
    from pilothouse.e2e.ports import AppServer
    from pilothouse.machine.spawn import Spawn

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """The arguments of one `startSession`."""

    services: tuple[ServiceSpec, ...] = ()
    url: str = ""
    logs: LogPaths | None = None
    cdp: str = ""
    browser: str = "chromium"
    headless: bool = True
    width: int = 1280
    height: int = 720
    storage_state: str = ""
    records: frozenset[str] = field(default_factory=frozenset)
    intercept: bool = False
    debug_port: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Starts servers under the rules of the settings."""

    settings: Settings
    environ: Mapping[str, str]
    spawn: Spawn
    clock: Clock
    roots: tuple[Path, ...]
    """Folders in which commands may run; the first is the default."""

    async def start(
        self,
        spec: ServiceSpec,
        folder: Path,
        on_line: Callable[[str, str, str], None],
        on_exit: Callable[[str, int], None],
        report: Callable[[str], None],
    ) -> AppServer:
        """Start the server of a service. Raises ServerStartFailed, CommandNotAllowed."""
        cwd = check_cwd(spec.cwd, self.roots)
        if spec.command_path:
            path = self._allowed(spec.command_path, ("--start", *spec.args), cwd, absolute=True)
            command = ContractCommand(
                path,
                spec.args,
                cwd=cwd,
                env=self._env(spec, cwd),
                spawn=self.spawn,
                log_folders=self.log_folders(folder, cwd),
                start_s=spec.timeout_ms / 1000,
                check=self._if_listed(lambda: self.check(spec)),
            )
            output = open_output(folder, spec.name)
            ended = partial(on_exit, spec.name)
            return await start_contract(command, output, self.clock, ended)
        argv = list(spec.command)
        if not argv:
            plan = await asyncio.to_thread(detect, cwd)
            if plan is None:
                reason, places = await asyncio.to_thread(why_none, cwd)
                hint = "give command, such as ['npm', 'run', 'dev'], or url of an app that runs"
                if places:
                    hint = f"pass the app's own folder as cwd ({', '.join(places)}), or {hint}"
                raise ServerStartFailed(
                    f"nothing in {cwd} says how to start the app: {reason}",
                    hint=hint,
                    reason=reason,
                )
            report(plan.why)
            argv = list(plan.argv)
            if plan.missing:
                report(plan.missing)
        # A program of the app's own virtual environment comes before one of the same name on PATH.
        argv = local_program(argv, cwd)
        argv[0] = str(self._allowed(argv[0], tuple(argv[1:]), cwd))
        return await start_plain(
            replace(spec, cwd=str(cwd)),
            argv,
            spawn=self.spawn,
            folder=folder,
            env=self._env(spec, cwd),
            clock=self.clock,
            on_line=lambda stream, line: on_line(spec.name, stream, line),
            on_exit=lambda code: on_exit(spec.name, code),
            report=report,
            check=self._if_listed(lambda: self._allowed(argv[0], tuple(argv[1:]), cwd)),
            most_log_bytes=self.settings.log_mb << 20,
        )

    def check(self, spec: ServiceSpec) -> Path:
        """Judge a service before it starts; return the folder in which it may run.

        Raises:
            CommandNotAllowed, ServerStartFailed, InvalidInput
        """
        cwd = check_cwd(spec.cwd, self.roots)
        if spec.command_path:
            self._allowed(spec.command_path, ("--start", *spec.args), cwd, absolute=True)
        elif spec.command:
            program, *rest = local_program(spec.command, cwd)
            self._allowed(program, tuple(rest), cwd)
        self._env(spec, cwd)
        return cwd

    def join(self, url: str, find: Find, logs: LogPaths | None) -> AppServer:
        """Join an app that runs already, at the addresses of `find`; it is left as it is."""
        return RunningApp(url, self.clock, find, logs or LogPaths())

    def log_folders(self, folder: Path, cwd: Path) -> tuple[Path, ...]:
        """Return the folders in which log files may lie."""
        return tuple(path.resolve() for path in (folder, cwd, Path(tempfile.gettempdir())))

    def _allowed(
        self, command: str, args: tuple[str, ...], cwd: Path, *, absolute: bool = False
    ) -> Path:
        return check_command(
            command,
            args,
            place=self._place(cwd),
            allowed=self.settings.server_command_path,
            production=self.settings.production,
            absolute=absolute,
        )

    def _env(self, spec: ServiceSpec, cwd: Path) -> dict[str, str]:
        restricted = self.settings.production or self.settings.server_command_path is not None
        place = self._place(cwd) if restricted else None
        return child_env(self.environ, spec.env, restricted_to=place)

    def _if_listed(self, check: Callable[[], object]) -> Callable[[], object]:
        """Return what judges a command before it runs again, where a list says what may run."""
        return (lambda: None) if self.settings.server_command_path is None else check

    def _place(self, cwd: Path) -> CommandPlace:
        return CommandPlace(cwd, self.roots, self.environ.get("PATH", ""))


def own_origins(urls: Iterable[str]) -> frozenset[Origin]:
    """Return the origins of a session's own servers; a loopback address goes by all its names."""
    found: set[Origin] = set()
    for url in urls:
        try:
            target, (scheme, host, port) = target_of(url), origin_of(url)
        except UrlError:
            continue
        names = LOOPBACK_NAMES if target.host.is_localhost or _is_loopback(host) else (host,)
        found |= {(scheme, name, port) for name in names}
    return frozenset(found)


def own_addresses(origins: Mapping[str, tuple[Address, ...]]) -> dict[str, tuple[Address, ...]]:
    """Return the hosts of a session's own servers, and where each led when it was judged."""
    # A URL that led nowhere then is judged like any other, each time.
    return {target_of(url).host.name: led for url, led in origins.items() if led}


def _is_loopback(host: str) -> bool:
    return host in ("127.0.0.1", "[::1]", "::1")
