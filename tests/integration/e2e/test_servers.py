"""Plain dev servers, with real ones: found, started, waited for, restarted, stopped."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from pilothouse.e2e.app_server import probe
from pilothouse.e2e.app_server.detect import detect
from pilothouse.e2e.app_server.plain import RunningApp
from pilothouse.e2e.model import LogPaths, ServerStartFailed
from pilothouse.machine.net.local_ports import free_port, is_taken
from tests.integration.e2e.server_rig import (
    GUARD_S,
    Bench,
    answering,
    clock,
    content,
    failing,
    here,
    page,
)
from tests.support.apps import app_folder
from tests.support.ports import listens
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


pytestmark = pytest.mark.anyio

NODE = shutil.which("node") or "node"
# A first run installs packages, and that takes as long as the registry does.
INSTALLS = pytest.mark.timeout(900)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "session"
    folder.mkdir(mode=0o700)
    return Bench(folder)


@pytest.fixture
def node_app() -> Iterator[Path]:
    with app_folder("node") as folder:
        yield folder


# Each kind of server, found by itself


@INSTALLS
@pytest.mark.parametrize(
    ("name", "path", "greeting"),
    [
        ("node", "/", "Hello from Node"),
        ("flask", "/", "Hello from Flask"),
        ("django", "/", "Hello from Django"),
        ("uvicorn", "/api/items", '{"items":[]}'),
        ("vite", "/", "<title>Vite app</title>"),
    ],
)
async def test_an_app_is_found_started_restarted_on_its_port_and_stopped(
    bench: Bench, name: str, path: str, greeting: str
) -> None:
    with app_folder(name) as folder:
        plan = detect(folder)
        assert plan is not None
        async with bench.running(plan.argv, folder) as server:
            first = server.info
            assert first.url == f"http://localhost:{first.port}"
            assert first.message == ""
            assert greeting in await page(first.url + path)
            health = await server.health()
            assert (health.status, health.healthy) == ("running", True)

            again = await server.restart()
            assert (again.url, again.logs) == (first.url, first.logs)
            assert again.pid != first.pid
            assert greeting in await page(again.url + path)
        assert not is_taken(first.port)
        assert bench.exits == []


@INSTALLS
async def test_next_is_started_and_answers(bench: Bench) -> None:
    with app_folder("next") as folder:
        plan = detect(folder)
        assert plan is not None
        async with bench.running(plan.argv, folder, timeout_s=120) as server:
            assert "Hello from Next" in await page(server.info.url)


async def test_a_static_folder_is_served(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "index.html").write_text("<h1>Hello</h1>")
    plan = detect(tmp_path)
    assert plan is not None
    async with bench.running(plan.argv, tmp_path) as server:
        assert await page(server.info.url) == "<h1>Hello</h1>"


@INSTALLS
async def test_the_reloader_is_kept(bench: Bench) -> None:
    with app_folder("flask") as folder:
        plan = detect(folder)
        assert plan is not None
        async with bench.running(plan.argv, folder) as server:
            app = folder / "app.py"
            app.write_text(app.read_text().replace("Hello", "Good day"))
            await until(lambda: page_says(server.info.url, "Good day"))


async def page_says(url: str, words: str) -> bool:
    with suppress(httpx.HTTPError):  # between the old process and the new one
        return words in await page(url)
    return False


@INSTALLS
async def test_vite_in_a_script_that_takes_no_flags_is_found_by_what_it_prints(
    bench: Bench,
) -> None:
    with app_folder("vite") as folder:
        package = folder / "package.json"
        package.write_text(package.read_text().replace('"vite"', '"vite --base /shop/; exit 0"', 1))
        async with bench.running(["npm", "run", "dev"], folder) as server:
            assert server.info.url == f"http://localhost:{server.info.port}/shop/"
            assert "chose port" in server.info.message
            assert "<title>Vite app</title>" in await page(server.info.url)


# Where and how a server answers


async def test_a_server_on_the_ipv6_loopback_alone_works(bench: Bench, node_app: Path) -> None:
    async with bench.running([NODE, "server.js"], node_app, {"BIND": "::1"}) as server:
        assert server.info.url == f"http://localhost:{server.info.port}"
        # Not every machine's table of hosts has localhost for ::1, as every browser has.
        assert "Hello from Node" in await page(f"http://[::1]:{server.info.port}")
        assert (await server.health()).status == "running"
        assert (await RunningApp(server.info.url, clock, here).health()).status == "running"


@pytest.mark.parametrize("silent", ["", "1"])
async def test_a_server_that_ignores_the_port_is_found(
    bench: Bench, node_app: Path, silent: str
) -> None:
    port = free_port()
    env = {"FIXED_PORT": str(port), "SILENT": silent}
    async with bench.running([NODE, "server.js"], node_app, env) as server:
        assert server.info.port == port
        assert server.info.message == f"The command chose port {port} by itself."
        await server.restart()
        assert server.info.port == port


async def test_a_server_in_the_background_of_its_command_is_still_its_own(
    bench: Bench, node_app: Path
) -> None:
    port = free_port()
    script = f"(setsid {NODE} server.js &); exec sleep 1000"
    env = {"FIXED_PORT": str(port)}
    async with bench.running(["/bin/sh", "-c", script], node_app, env) as server:
        assert server.info.port == port
    assert not is_taken(port)


async def test_the_port_of_somebody_else_is_not_taken_for_ours(
    bench: Bench, node_app: Path, tmp_path: Path
) -> None:
    other = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with other:
        port = other.sockets[0].getsockname()[1]
        script = f"echo 'listening on http://localhost:{port}'; touch said; exec sleep 1000"
        bench.is_up = lambda _: until((tmp_path / "said").exists)
        fault = await failing(bench, ["/bin/sh", "-c", script], tmp_path, timeout_s=1)
    assert f"port {port}, which it names, belongs to another process" in fault.message
    assert f"http://localhost:{port}" in fault.hint


async def test_nothing_at_the_root_of_an_api_is_still_a_running_server(
    bench: Bench, node_app: Path
) -> None:
    async with bench.running([NODE, "server.js"], node_app, {"STATUS": "404"}) as server:
        assert server.info.message == ""
        assert (await server.health()).status == "running"


@pytest.mark.parametrize("status", ["500", "503"])
async def test_a_server_that_only_fails_is_ready_with_a_warning(
    bench: Bench, node_app: Path, status: str
) -> None:
    env = {"STATUS": status}
    bench.is_up = lambda env: until(lambda: listens(int(env["PORT"])))
    async with bench.running([NODE, "server.js"], node_app, env, timeout_s=4) as server:
        assert server.info.message == f"It answers, but with HTTP {status}: its log says why."
        health = await server.health()
        assert (health.status, health.healthy) == ("unhealthy", False)


async def test_a_server_that_hangs_is_unhealthy(
    bench: Bench, node_app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "TRY_S", 0.5)
    async with bench.running([NODE, "server.js"], node_app) as server:
        os.kill(server.info.pid, signal.SIGSTOP)
        assert (await server.health()).status == "unhealthy"
        os.kill(server.info.pid, signal.SIGCONT)
        monkeypatch.setattr(probe, "TRY_S", GUARD_S)
        assert (await server.health()).status == "running"


# Ports


async def test_a_port_that_was_asked_for_is_used(bench: Bench, node_app: Path) -> None:
    port = free_port()
    async with bench.running([NODE, "server.js"], node_app, port=port) as server:
        assert server.info.port == port


async def test_a_port_in_the_environment_argument_is_used(bench: Bench, node_app: Path) -> None:
    port = free_port()
    async with bench.running([NODE, "server.js"], node_app, {"PORT": str(port)}) as server:
        assert server.info.port == port


async def test_a_port_in_the_command_is_used(bench: Bench, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port)]
    async with bench.running(command, tmp_path) as server:
        assert server.info.port == port


async def test_a_taken_port_is_refused_before_anything_is_started(
    bench: Bench, node_app: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holding:
        port = holding.getsockname()[1]
        fault = await failing(bench, [NODE, "server.js"], node_app, port=port)
    assert f"Port {port} is taken by" in fault.message
    assert f"pid {os.getpid()}" in fault.message
    assert bench.children == []


async def test_a_port_that_is_snatched_away_is_replaced(bench: Bench, node_app: Path) -> None:
    snatched: list[socket.socket] = []

    def snatch(env: Mapping[str, str]) -> None:
        if not snatched:
            snatched.append(socket.create_server(("127.0.0.1", int(env["PORT"]))))

    bench.before = snatch
    async with bench.running([NODE, "server.js"], node_app) as server:
        assert server.info.port != snatched[0].getsockname()[1]
        assert "EADDRINUSE" in server.tail("combined", 100).text
    snatched[0].close()
    assert len(bench.children) == 2


async def test_many_servers_at_once_have_a_port_each(tmp_path: Path, node_app: Path) -> None:
    benches = []
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        benches.append(Bench(tmp_path / str(number)))
    servers = await asyncio.gather(*(one.start([NODE, "server.js"], node_app) for one in benches))
    assert len({server.info.port for server in servers}) == 5
    await asyncio.gather(*(server.stop() for server in servers))


# Servers that do not come up


async def test_an_early_end_fails_at_once_with_the_end_of_the_log(
    bench: Bench, node_app: Path
) -> None:
    started = time.monotonic()
    fault = await failing(bench, [NODE, "server.js"], node_app, {"CRASH": "1"}, timeout_s=600)
    assert time.monotonic() - started < 30
    assert fault.code == "server_start_failed"
    assert "ended with exit code 3 before it answered" in fault.message
    assert fault.details["cause"] == {"type": "non_zero_exit", "exitCode": 3}
    assert fault.details["exitCode"] == 3
    assert fault.details["stderr"] == "Error: cannot find the database"
    paths: Any = fault.details["logs"]
    assert content(paths["stderr"]) == "Error: cannot find the database\n"


async def test_a_server_that_never_answers_fails_at_the_timeout(
    bench: Bench, tmp_path: Path
) -> None:
    script = "echo waiting for something that does not come; touch said; exec sleep 1000\n"
    (tmp_path / "serve").write_text(script)
    bench.is_up = lambda _: until((tmp_path / "said").exists)
    fault = await failing(bench, ["/bin/sh", "serve"], tmp_path, timeout_s=1)
    assert "did not answer on port" in fault.message
    cause = fault.details["cause"]
    assert cause == {"type": "timeout", "command": "/bin/sh serve", "timeout": 1000}
    said: Any = (fault.details["stderr"] or "", fault.details["stdout"] or "")
    assert "waiting for something that does not come" in said


async def test_a_command_that_ends_well_without_serving_is_told_what_to_do(
    bench: Bench, tmp_path: Path
) -> None:
    fault = await failing(bench, ["/bin/true"], tmp_path)
    assert "exit code 0" in fault.message
    assert "startSession(url)" in fault.hint


async def test_a_command_ended_by_a_signal_names_it(bench: Bench, tmp_path: Path) -> None:
    fault = await failing(bench, ["/bin/sh", "-c", "kill -KILL $$"], tmp_path)
    assert "was ended by SIGKILL" in fault.message


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        ("/nowhere/server", "command_not_found", "/nowhere/server was not found"),
        ("{cwd}/data", "permission_denied", "cannot be run"),
        ("{cwd}", "permission_denied", "cannot be run"),
    ],
)
async def test_a_command_that_cannot_be_run_says_why(
    bench: Bench, tmp_path: Path, command: str, kind: str, words: str
) -> None:
    (tmp_path / "data").write_text("no program")
    command = command.format(cwd=tmp_path)
    fault = await failing(bench, [command], tmp_path)
    assert words in fault.message
    assert fault.details["cause"] == {"type": kind, "path": command}


async def test_a_folder_that_is_not_there_is_named(bench: Bench, tmp_path: Path) -> None:
    fault = await failing(bench, [NODE], tmp_path / "gone")
    assert f"the folder {tmp_path}/gone is not there" in fault.message


async def test_a_start_that_is_given_up_leaves_nothing(bench: Bench, node_app: Path) -> None:
    starting = asyncio.create_task(bench.start([NODE, "server.js"], node_app, {"NEVER": "1"}))
    await until(lambda: bench.lines)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    bench.nothing_lives()


# The life of a server


async def test_a_server_that_dies_by_itself_is_reported(bench: Bench, node_app: Path) -> None:
    async with bench.running([NODE, "server.js"], node_app) as server:
        assert server.exit_code is None
        with pytest.raises(httpx.HTTPError):
            await page(server.info.url + "/die")
        async with asyncio.timeout(GUARD_S):
            await bench.exited.wait()
        assert bench.exits == [7]
        assert server.exit_code == 7
        health = await server.health()
        assert (health.status, health.exit_code) == ("stopped", 7)
        assert server.tail("stderr", 1).text == "dying as asked"

        await server.restart()
        assert server.exit_code is None
        assert "Hello from Node" in await page(server.info.url)


async def test_a_server_stopped_by_us_reports_no_death(bench: Bench, node_app: Path) -> None:
    server = await bench.start([NODE, "server.js"], node_app)
    pid = server.info.pid
    assert await server.stop()
    assert await server.stop()
    assert bench.exits == []
    assert (await server.health()).status == "stopped"
    assert not psutil.pid_exists(pid)


async def test_a_restart_that_fails_leaves_a_stopped_server(bench: Bench, node_app: Path) -> None:
    async with bench.running([NODE, "server.js"], node_app) as server:
        (node_app / "server.js").write_text("throw new Error('broken by an edit')")
        with pytest.raises(ServerStartFailed, match="ended with exit code 1") as failed:
            await server.restart()
        assert "broken by an edit" in str(failed.value.details["stderr"])
        assert (await server.health()).status == "stopped"


async def test_output_is_kept_in_private_files_and_heard_line_by_line(
    bench: Bench, node_app: Path
) -> None:
    async with bench.running([NODE, "server.js"], node_app, name="web") as server:
        await page(server.info.url + "/log")
        await until(lambda: ("stderr", "red line") in bench.lines)
        assert ("stdout", "green line") in bench.lines
        await server.restart()
        logs = server.info.logs
        assert f"listening on port {server.info.port}" == server.tail("stdout", 1).text
        combined = server.tail("combined", 100)
        assert combined.text.count("listening on port") == 2
        assert "red line" in combined.text
    for path in (logs.stdout, logs.stderr, logs.combined):
        assert Path(path).parent == bench.folder
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert "\x1b[32mgreen" in content(logs.stdout)
    assert bench.reports[0] == f"starting {NODE} server.js"
    assert bench.reports[1] == f"web answers at {server.info.url}"


# Apps that somebody else runs


async def test_a_running_app_is_neither_started_nor_stopped(bench: Bench, node_app: Path) -> None:
    async with bench.running([NODE, "server.js"], node_app) as real:
        app = RunningApp(real.info.url, clock, here, LogPaths(stdout="/tmp/app.log"))
        assert (app.info.url, app.info.port) == (real.info.url, real.info.port)
        assert (app.info.status, app.info.logs.stdout) == ("already_running", "/tmp/app.log")
        assert (await app.health()).status == "running"
        assert await app.stop()
        assert "Hello from Node" in await page(real.info.url)
        with pytest.raises(ServerStartFailed, match="not restarted from here"):
            await app.restart()
    assert (await app.health()).status == "stopped"


async def test_a_running_app_that_fails_is_unhealthy() -> None:
    async with answering(502) as url:
        app = RunningApp(url, clock, here)
        assert (await app.health()).status == "unhealthy"
