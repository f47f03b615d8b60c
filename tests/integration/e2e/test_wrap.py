"""`pilothouse wrap`: any plain dev server behind the JSON contract of server commands."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.cli.wrap.command import WrapMisuse, entered, parse
from pilothouse.cli.wrap.supervisor import CommandOrder
from pilothouse.core.settings import Settings
from pilothouse.e2e.app_server.contract import (
    Response,
    ServerRestartResponse,
    ServerShutdownResponse,
    ServerStartResponse,
    ServerStatusResponse,
)
from pilothouse.e2e.app_server.contract_command import CommandFailed, ContractCommand
from pilothouse.machine.child import start_child
from pilothouse.machine.held_folders import is_locked
from pilothouse.machine.net.local_ports import free_port, is_taken
from pilothouse.wiring.state_sweep import sweep
from tests.support import forkserver
from tests.support.apps import app_folder
from tests.support.servers import environment
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 60
COMMAND = ("node", "server.js")
MODELS: dict[str, type[Response]] = {
    "--start": ServerStartResponse,
    "--restart": ServerRestartResponse,
    "--status": ServerStatusResponse,
    "--shutdown": ServerShutdownResponse,
}
WRAP = (
    "import os, sys; from pilothouse.cli.wrap import command as wrap; "
    "from pilothouse.core.settings import resolve; "
    "sys.exit(wrap.main(resolve({}, os.environ), sys.argv[1:]))"
)


@dataclass
class Ran:
    """What a call printed."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        (line,) = self.out.splitlines()
        answer: dict[str, Any] = json.loads(line)
        return answer


class Wrapped:
    """The command in one folder, with a home of its own."""

    def __init__(self, folder: Path, base: Path) -> None:
        self.folder = folder
        self.temp = base / "temp"
        self.temp.mkdir(exist_ok=True)
        own = {"PILOTHOUSE_HOME": str(base / "home"), "TMPDIR": str(self.temp)}
        self.env = environment(own)
        self.has_run = False

    def run(self, *words: str, **env: str) -> Ran:
        process = forkserver.start(
            "pilothouse",
            "wrap",
            *words,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**self.env, **env},
            cwd=self.folder,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout as out, process.stderr as err:
            # Of one line each: neither fills its pipe while the other is read.
            ran = Ran(process.wait(GUARD_S), out.read(), err.read())
        self.has_run = True
        return ran

    def __call__(self, verb: str, command: tuple[str, ...] = COMMAND, **env: str) -> dict[str, Any]:
        ran = self.run("--", *command, verb, **env)
        assert (ran.code, ran.err) == (0, "")
        MODELS[verb].model_validate(ran.answer)
        return ran.answer


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[Wrapped]:
    with app_folder("node") as folder:
        wrapped = Wrapped(folder, tmp_path)
        yield wrapped
        if wrapped.has_run:
            wrapped.run("--", *COMMAND, "--shutdown")


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=GUARD_S) as response:
        text: str = response.read().decode()
        return text


def test_a_sweep_leaves_a_server_that_runs_and_takes_one_that_has_ended(
    wrapped: Wrapped, tmp_path: Path
) -> None:
    def swept() -> None:
        for path in (*folder.iterdir(), folder):
            os.utime(path, (0, 0))
        sweep(Settings(home=str(tmp_path / "home")), os.environ, time.time)

    wrapped("--start")
    (folder,) = (tmp_path / "home" / "wrap").iterdir()
    assert is_locked(folder)
    swept()
    assert wrapped("--status")["status"] == "running"
    wrapped("--shutdown")
    wait_until(lambda: not is_locked(folder))
    swept()
    assert not folder.exists()


def test_the_logs_of_a_supervisor_that_was_killed_are_known_and_go_with_the_next_sweep(
    wrapped: Wrapped, tmp_path: Path
) -> None:
    started = wrapped("--start")
    supervisor = supervisor_of(started["pid"])
    logs = Path(started["logs"]["combined"])
    os.kill(supervisor.pid, signal.SIGKILL)
    until_gone(started["pid"])
    until_gone(supervisor.pid)
    status = wrapped("--status")
    assert (status["status"], status["logs"]) == ("stopped", started["logs"])
    (folder,) = (tmp_path / "home" / "wrap").iterdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(wrapped.temp))
        for path in (*folder.iterdir(), folder, *logs.parent.iterdir(), logs.parent):
            os.utime(path, (0, 0))
        sweep(Settings(home=str(tmp_path / "home")), os.environ, time.time)
    assert not folder.exists()
    assert not logs.parent.exists()


def test_a_call_holds_its_folder_until_a_supervisor_does(tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path / "home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with entered(settings, CommandOrder("--start", ("a",), "/app")) as folder:
            assert is_locked(folder)
            assert Path.cwd() == folder
    assert not is_locked(folder)


def until_gone(pid: int) -> None:
    wait_until(lambda: not psutil.pid_exists(pid), f"the end of process {pid}")


def supervisor_of(pid: int) -> psutil.Process:
    """The process that stays with a server: the reaper stands between the two."""
    supervisor = psutil.Process(pid).parents()[1]
    assert "pilothouse.cli.wrap.supervisor" in supervisor.cmdline()
    return supervisor


def test_a_server_lives_from_start_to_shutdown(wrapped: Wrapped) -> None:
    assert wrapped("--status")["status"] == "stopped"
    started = wrapped("--start")
    assert started["status"] == "ready"
    assert "Hello from Node" in page(started["url"])

    again = wrapped("--start")
    assert (again["status"], again["pid"]) == ("already_running", started["pid"])
    status = wrapped("--status")
    assert (status["status"], status["healthy"], status["url"]) == ("running", True, started["url"])

    restarted = wrapped("--restart")
    assert restarted["status"] == "restarted"
    assert (restarted["previousPid"], restarted["port"]) == (started["pid"], started["port"])
    assert restarted["pid"] != started["pid"]
    assert "Hello from Node" in page(restarted["url"])

    stopped = wrapped("--shutdown")
    assert (stopped["status"], stopped["previousPid"]) == ("stopped", restarted["pid"])
    assert not is_taken(started["port"])
    assert wrapped("--shutdown")["status"] == "already_stopped"
    assert wrapped("--status")["status"] == "stopped"


def test_the_server_has_what_the_caller_gave_and_nothing_of_ours(wrapped: Wrapped) -> None:
    started = wrapped(
        "--start", SHOP_KEY="a", PACKET_PROXY_ACCESS_TOKEN="b", PILOTHOUSE_HTTP_TOKEN="c"
    )
    environ = psutil.Process(started["pid"]).environ()
    assert environ["SHOP_KEY"] == "a"
    assert not any("PILOTHOUSE" in name or "PACKET_PROXY" in name for name in environ)


def test_a_restart_of_nothing_starts(wrapped: Wrapped) -> None:
    assert wrapped("--restart")["status"] == "started"


def test_the_logs_go_on_over_a_restart_and_lie_in_the_temp_folder(wrapped: Wrapped) -> None:
    logs = {kind: Path(path) for kind, path in wrapped("--start")["logs"].items()}
    wrapped("--restart")
    assert logs["stdout"].read_text().count("listening on port") == 2
    assert logs["combined"].is_relative_to(wrapped.temp)
    wrapped("--shutdown")
    assert logs["stdout"].is_file()
    wrapped("--start")
    assert not logs["stdout"].parent.exists()


def test_commands_and_folders_have_a_server_each(wrapped: Wrapped, tmp_path: Path) -> None:
    other = Wrapped(tmp_path, tmp_path)
    static = (sys.executable, "-m", "http.server")
    first, second, third = wrapped("--start"), wrapped("--start", static), other("--start", static)
    assert len({answer["port"] for answer in (first, second, third)}) == 3
    wrapped("--shutdown", static)
    assert wrapped("--status")["status"] == "running"
    assert other("--status", static)["status"] == "running"
    other("--shutdown", static)


def test_two_starts_at_once_give_one_server(wrapped: Wrapped) -> None:
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(wrapped, ["--start", "--start"]))
    assert sorted(answer["status"] for answer in answers) == ["already_running", "ready"]
    assert len({answer["pid"] for answer in answers}) == 1


def test_without_a_command_the_folder_says_what_to_start(wrapped: Wrapped) -> None:
    started = wrapped("--start", ())
    try:
        assert "> node server.js" in Path(started["logs"]["stdout"]).read_text()
    finally:
        wrapped("--shutdown", ())


def test_a_script_of_one_line_is_a_command_of_the_contract(wrapped: Wrapped) -> None:
    script = wrapped.folder / "dev"
    line = shlex.join([sys.executable, "-c", WRAP, "--", *COMMAND])
    script.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
    script.chmod(0o755)

    async def through_the_contract() -> None:
        command = ContractCommand(
            script, (), cwd=wrapped.folder, env=wrapped.env, spawn=start_child,
            log_folders=(wrapped.temp,),
        )  # fmt: skip
        started, child = await command.start()
        assert "Hello from Node" in await asyncio.to_thread(page, started.url)
        assert (await command.status()).status == "running"
        restarted, other = await command.restart()
        assert restarted.previous_pid == started.pid
        assert (await command.shutdown()).status == "stopped"
        await child.stop()
        await other.stop()
        broken = replace(command, env={**wrapped.env, "CRASH": "1"})
        with pytest.raises(CommandFailed) as failed:
            await broken.start()
        assert failed.value.cause["type"] == "non_zero_exit"
        assert "ended with exit code 3" in str(failed.value.cause["stderr"])

    asyncio.run(through_the_contract())


def test_a_failed_start_prints_the_error_and_leaves_nothing(wrapped: Wrapped) -> None:
    ran = wrapped.run("--", *COMMAND, "--start", CRASH="1")
    assert ran.code == 1
    error = ran.answer["error"]
    assert error["type"] == "server_start_failed"
    assert error["stderr"] == "Error: cannot find the database"
    assert "ended with exit code 3" in ran.err
    assert len(ran.err.splitlines()) == 1
    status = wrapped("--status")
    assert status["status"] == "stopped"
    assert Path(status["logs"]["stderr"]).read_text() == "Error: cannot find the database\n"


def test_a_server_that_is_not_ready_in_time_is_ended(wrapped: Wrapped) -> None:
    ran = wrapped.run("--timeout-ms", "700", "--", *COMMAND, "--start", NEVER="1")
    assert ran.code == 1
    assert ran.answer["error"]["cause"]["type"] == "timeout"
    assert wrapped("--status")["status"] == "stopped"


def test_a_restart_that_fails_ends_the_supervisor(wrapped: Wrapped) -> None:
    supervisor = supervisor_of(wrapped("--start")["pid"])
    (wrapped.folder / "server.js").write_text("throw new Error('broken by an edit')")
    ran = wrapped.run("--", *COMMAND, "--restart")
    assert ran.code == 1
    assert "broken by an edit" in ran.answer["error"]["stderr"]
    until_gone(supervisor.pid)
    assert wrapped("--status")["status"] == "stopped"


def test_the_death_of_a_server_is_remembered(wrapped: Wrapped) -> None:
    started = wrapped("--start")
    supervisor = supervisor_of(started["pid"])
    with pytest.raises(ConnectionError):
        page(started["url"] + "/die")
    until_gone(supervisor.pid)
    status = wrapped("--status")
    assert status["status"] == "stopped"
    assert status["message"] == "It ended by itself with exit code 7."
    assert wrapped("--start")["status"] == "ready"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_dies_with_its_supervisor_and_can_be_started_again(
    wrapped: Wrapped, number: signal.Signals
) -> None:
    started = wrapped("--start")
    supervisor = supervisor_of(started["pid"])
    os.kill(supervisor.pid, number)
    until_gone(started["pid"])
    until_gone(supervisor.pid)
    assert wrapped("--status")["status"] == "stopped"
    assert wrapped("--start")["status"] == "ready"


def test_pilothouse_s_own_variables_stay_behind(wrapped: Wrapped) -> None:
    (wrapped.folder / "server.js").write_text(
        "require('http').createServer((q, r) => r.end(JSON.stringify(process.env)))"
        ".listen(process.env.PORT)"
    )
    seen = json.loads(page(wrapped("--start", PILOTHOUSE_TOKEN="x", MINE="y")["url"]))
    assert seen["MINE"] == "y"
    assert [name for name in seen if "PILOTHOUSE" in name] == []


def test_a_port_is_taken_from_a_flag_or_from_the_environment(wrapped: Wrapped) -> None:
    first, second = free_port(), free_port()
    assert wrapped("--start", PORT=str(first))["port"] == first
    wrapped("--shutdown")
    assert wrapped.run("--port", str(second), "--", *COMMAND, "--start").answer["port"] == second


def test_a_home_with_a_long_name_works(wrapped: Wrapped, tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30) / ("longer" * 20)
    wrapped.env["PILOTHOUSE_HOME"] = str(home)
    assert wrapped("--start")["status"] == "ready"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("-- npm run dev", "--start, --restart, --status, --shutdown is missing"),
        ("", "is missing"),
        ("--port x -- npm start --start", "--port takes a number, not x"),
        ("--prot 5 -- npm start --start", "unknown flag --prot"),
    ],
)
def test_misuse_is_named(wrapped: Wrapped, words: str, complaint: str) -> None:
    ran = wrapped.run(*words.split())
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err


@pytest.mark.parametrize(
    ("words", "verb", "command", "port"),
    [
        ("-- npm run dev --start", "--start", "npm run dev", 0),
        ("--start -- npm run dev", "--start", "npm run dev", 0),
        ("npm run dev --status", "--status", "npm run dev", 0),
        ("-- npm run dev --start -- --open", "--start", "npm run dev -- --open", 0),
        ("-- tool --start --shutdown", "--shutdown", "tool --start", 0),
        ("--port 8080 -- npm start --start", "--start", "npm start", 8080),
        ("--restart", "--restart", "", 0),
    ],
)
def test_the_verb_may_stand_anywhere(words: str, verb: str, command: str, port: int) -> None:
    order = parse(words.split(), "/app")
    assert (order.verb, " ".join(order.command), order.port) == (verb, command, port)


def test_orders_meet_by_folder_and_command_alone() -> None:
    order = parse(["--port", "1", "--", "a", "b", "--start"], "/app")
    assert order.name == parse(["--", "a", "b", "--status"], "/app").name
    assert order.name != parse(["--", "a b", "--status"], "/app").name
    assert order.name != parse(["--", "a", "b", "--status"], "/other").name
    with pytest.raises(WrapMisuse):
        parse(["--", "a"], "/app")
