"""One hub for each home: found, named, stopped, and gone by itself when nobody needs it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pilothouse import __version__
from pilothouse.hub.control.protocol import ask
from pilothouse.hub.files import MOST_LOG_BYTES, hub_files
from tests.support import command_line
from tests.support.http_agent import HttpAgent
from tests.support.living import living
from tests.support.servers import PRODUCT, environment, http_server
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

GUARD_S = 60.0


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return command_line.run(*args, env={"PILOTHOUSE_HOME": str(home)})


@contextmanager
def started_by_relay(home: Path, mark: str, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The hub as a relay starts it."""
    order = json.dumps({"home": str(home), **settings})
    files = hub_files(str(home), os.environ)
    with files.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pilothouse.hub.start", order],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment({"LC_MARK": mark}),
            start_new_session=True,
        )
    with process:
        try:
            yield process
        finally:
            process.kill()


def status_of(home: Path) -> dict[str, Any] | None:
    told = ask(str(hub_files(str(home), os.environ).socket), {"status": True})
    return None if told is None else told["status"]


def test_a_second_serve_names_the_hub_that_runs_and_another_one_is_refused(tmp_path: Path) -> None:
    env = {"PILOTHOUSE_HOME": str(tmp_path)}
    token = ["--packet-proxy-access-token", "correct-horse"]
    with http_server("--profile", "full", *token, module=PRODUCT, env=env) as hub:
        same = ["--port", "0"], ["--port", str(hub.port)], ["--profile", "full"], token
        for flags in ([], *same):
            again = run(tmp_path, "serve", *flags)
            assert (again.returncode, again.stdout) == (0, f"{hub.url}\n"), again.stderr
        other_token = [token[0], "battery-staple"]
        others = ["--port", "1"], ["--profile", "default"], ["--max-workers", "3"], other_token
        for flags in others:
            other = run(tmp_path, "serve", *flags)
            assert other.returncode == 2
            assert "PILOTHOUSE_HOME" in other.stderr
            assert hub.url in other.stderr
            assert flags[0] in other.stderr
            assert "correct-horse" not in other.stderr + run(tmp_path, "status", "--json").stdout
            assert len(other.stderr.splitlines()) == 1
        elsewhere = tmp_path / "elsewhere"
        with http_server(module=PRODUCT, env={"PILOTHOUSE_HOME": str(elsewhere)}) as second:
            assert second.url != hub.url


@pytest.mark.leaves_files  # the folder for the sockets of a home with a long path stays
def test_the_control_socket_is_the_users_alone_also_below_a_long_path(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 20) / ("longer" * 10)
    with http_server(module=PRODUCT, env={"PILOTHOUSE_HOME": str(home)}) as hub:
        files = hub_files(str(home), os.environ)
        assert stat.S_IMODE(files.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(files.socket.parent.stat().st_mode) == 0o700
        found = status_of(home)
        assert found is not None
        assert found["url"] == hub.url
    assert not files.socket.exists()


def test_status_shows_the_hub_and_stop_ends_it(tmp_path: Path, mark: str) -> None:
    assert run(tmp_path, "status").returncode == 1
    assert run(tmp_path, "stop").returncode == 1
    env = {"PILOTHOUSE_HOME": str(tmp_path), "LC_MARK": mark}
    with http_server(module=PRODUCT, env=env) as hub:
        agent = HttpAgent(hub.url).open()
        agent.call("status")
        shown = run(tmp_path, "status").stdout
        assert hub.url in shown
        assert "tester 1" in shown
        assert "1 worker " in shown
        told = json.loads(run(tmp_path, "status", "--json").stdout)
        assert (told["version"], told["pid"]) == (__version__, hub.process.pid)
        assert [seat["state"] for seat in told["seats"]] == ["idle"]
        assert agent.session not in json.dumps(told)
        stopped = run(tmp_path, "stop")
        assert stopped.returncode == 0, stopped.stderr
        assert hub.process.wait(GUARD_S) == 0
        assert living(mark) == []
    assert run(tmp_path, "status").returncode == 1


@pytest.mark.leaves_files  # what was killed cannot tidy up; the next hub does
@pytest.mark.usefixtures("real_processes")
def test_stop_ends_also_a_hub_that_does_not_answer(tmp_path: Path, mark: str) -> None:
    env = {"PILOTHOUSE_HOME": str(tmp_path), "LC_MARK": mark}
    with http_server(module=PRODUCT, env=env) as hub:
        HttpAgent(hub.url).open().call("status")
        hub.process.send_signal(signal.SIGSTOP)
        stopped = run(tmp_path, "stop")
        assert (stopped.returncode, stopped.stdout) == (0, "the hub has ended\n")
        assert f"(pid {hub.process.pid}) does not answer" in stopped.stderr
        assert hub.process.wait(GUARD_S) == -signal.SIGKILL
    assert run(tmp_path, "stop").returncode == 1


def test_stop_waits_for_a_hub_that_is_about_to_end(tmp_path: Path) -> None:
    files = hub_files(str(tmp_path), os.environ)
    ending = files.hold()
    assert ending is not None
    with ThreadPoolExecutor(1) as aside, socket.socket(socket.AF_UNIX) as control:
        control.bind(str(files.socket))
        control.listen()
        control.settimeout(GUARD_S)
        stopping = aside.submit(run, tmp_path, "stop")
        control.accept()[0].close()  # it has asked one that answers nobody any more
        with pytest.raises(TimeoutError):
            stopping.result(0.5)
        os.close(ending)
        stopped = stopping.result(GUARD_S)
    assert (stopped.returncode, stopped.stdout) == (0, "the hub has ended\n")


async def test_of_hubs_that_start_at_once_one_wins(tmp_path: Path, mark: str) -> None:
    """As when an editor opens ten windows; the others find it and leave."""
    orders = [json.dumps({"home": str(tmp_path), "http_port": 0})] * 10
    env = environment({"LC_MARK": mark})

    def start(order: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-P", "-m", "pilothouse.hub.start", order]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=env)

    with ThreadPoolExecutor(10) as pool:
        hubs = list(pool.map(start, orders))
    try:
        await until(lambda: sum(hub.poll() is not None for hub in hubs) == 9, GUARD_S)
        losers = [hub for hub in hubs if hub.returncode is not None]
        assert {hub.returncode for hub in losers} == {0}
        found = status_of(tmp_path)
        (winner,) = (hub for hub in hubs if hub not in losers)
        assert found is not None
        assert found["pid"] == winner.pid
        assert run(tmp_path, "stop").returncode == 0
        assert winner.wait(GUARD_S) == 0
    finally:
        for hub in hubs:
            hub.kill()
            hub.wait()


async def test_a_hub_of_a_relay_takes_the_next_port_logs_to_a_file_and_leaves_by_itself(
    tmp_path: Path, mark: str
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with started_by_relay(tmp_path, mark, http_port=port, worker_idle=1, hub_idle=10) as hub:
            await until(lambda: status_of(tmp_path) is not None, GUARD_S)
            found = status_of(tmp_path)
            assert found is not None
            assert port < found["port"] < port + 50
            agent = HttpAgent(found["url"]).open()
            assert not agent.call("status")["isError"]
            agent.http.close()
            assert "worker_started" in run(tmp_path, "logs").stdout
            assert run(tmp_path, "logs", "-n", "1").stdout.count("\n") == 1
            assert hub.wait(GUARD_S) == 0
            assert living(mark) == []
    assert '"leaving"' in run(tmp_path, "logs").stdout
    assert status_of(tmp_path) is None


async def test_a_relay_that_is_joined_keeps_the_hub(tmp_path: Path, mark: str) -> None:
    with started_by_relay(tmp_path, mark, http_port=0, hub_idle=10) as hub:
        files = hub_files(str(tmp_path), os.environ)
        await until(lambda: status_of(tmp_path) is not None, GUARD_S)
        with socket.socket(socket.AF_UNIX) as relay:
            relay.settimeout(GUARD_S)
            relay.connect(str(files.socket))
            hello = {"version": __version__, "pid": 1, "settings": {}, "cwd": str(tmp_path)}
            relay.sendall(json.dumps({"hello": hello}).encode() + b"\n")
            assert b"welcome" in relay.recv(65_536)
            found = status_of(tmp_path)
            assert found is not None
            assert (found["relays"], found["sessions"]) == (1, 1)
            with pytest.raises(subprocess.TimeoutExpired):
                hub.wait(12)
        assert hub.wait(GUARD_S) == 0


def test_a_log_does_not_grow_without_end(tmp_path: Path) -> None:
    files = hub_files(str(tmp_path), {})
    with files.log.open("ab", buffering=0) as log:
        for _ in range(3):
            log.write(b"x" * MOST_LOG_BYTES)
            files.bound_log()
            log.write(b"last\n")
            files.bound_log()
    assert files.log.read_bytes() in (b"last\n", b"")
    assert files.older_log.stat().st_size <= MOST_LOG_BYTES + 5


def test_without_a_hub_one_process_serves_everything(tmp_path: Path, mark: str) -> None:
    env = {"PILOTHOUSE_HOME": str(tmp_path), "LC_MARK": mark}
    with http_server("--standalone", module=PRODUCT, env=env) as server:
        HttpAgent(server.url).open().call("status")
        assert len(living(mark)) == 1
        assert httpx.get(f"{server.url}/health").json()["agents"] == 1
        assert run(tmp_path, "status").returncode == 1
