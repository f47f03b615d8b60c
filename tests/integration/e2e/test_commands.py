"""Server commands with real processes: the good ones, and each way to be a bad one."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.e2e.app_server.contract_command import CommandFailed, ContractCommand
from pilothouse.machine.child import start_child
from tests.support.living import living, none_left
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pilothouse.machine.child import Child
    from pilothouse.machine.spawn import Spawn

pytestmark = pytest.mark.anyio

GUARD_S = 60.0
SHORT_S = 1.0
"""The time limit of commands that use it up."""
# For Python the lines between are a string. A first line takes no path with a space.
PYTHON = f"#!/bin/sh\n''':'\nexec '{sys.executable}' -IS \"$0\" \"$@\"\n'''\n"


class Bench:
    """A folder for one command, and the processes that it starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def answer(self, **changes: Any) -> dict[str, Any]:
        logs = {name: str(self.folder / f"{name}.log") for name in ("stdout", "stderr", "combined")}
        start = {
            "status": "ready",
            "url": "http://127.0.0.1:3542",
            "port": 3542,
            "pid": 4242,
            "startedAt": "2025-11-02T10:30:00Z",
            "logs": logs,
            "message": "up",
        }
        return {**start, **changes}

    def command(
        self, body: str, *args: str, limit: float = GUARD_S, spawn: Spawn = start_child
    ) -> ContractCommand:
        """A command with this script as its file; $ANSWER is a good answer."""
        path = self.folder / "server"
        path.write_text(body if body.startswith("#!") else f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return self.made(path, *args, limit=limit, spawn=spawn)

    def made(
        self, path: Path, *args: str, limit: float = GUARD_S, spawn: Spawn = start_child
    ) -> ContractCommand:
        env = {
            "PATH": os.environ["PATH"],
            "LC_MARK": str(self.folder),
            "ANSWER": json.dumps(self.answer()),
        }
        return ContractCommand(path, args, self.folder, env, spawn, start_s=limit, ask_s=limit)

    async def said(self, *args: Any, **how: Any) -> Child:
        """Start a command whose time limit begins once it has made the file `said`."""
        child = await start_child(*args, **how)
        await until((self.folder / "said").exists)
        return child

    def living(self) -> list[psutil.Process]:
        return living(str(self.folder), named=str(self.folder))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    mine = Bench(tmp_path)
    yield mine
    none_left(mine.living())


async def failure(command: ContractCommand) -> dict[str, object]:
    """The cause of a start that fails; by then nothing of it lives."""
    with pytest.raises(CommandFailed) as failed:
        await command.start()
    return failed.value.cause


# Good commands


async def test_a_server_in_the_foreground_is_handed_over(bench: Bench) -> None:
    command = bench.command('echo "$@"; echo "$ANSWER"; sleep 600', "--port", "3542")
    response, child = await command.start()
    assert (response.status, response.port, response.message) == ("ready", 3542, "up")
    assert child.exit_code is None
    assert bench.living() != []
    assert await child.stop() is True


async def test_a_server_that_is_left_behind_is_handed_over(bench: Bench) -> None:
    script = '(setsid sleep 600 >/dev/null 2>&1 &)\necho "$ANSWER"'
    _, child = await bench.command(script).start()
    assert await child.wait() == 0
    assert bench.living() != []
    await child.stop()


async def test_a_server_that_answers_after_its_command_left_is_taken(bench: Bench) -> None:
    response, child = await bench.command('(sleep 0.2; echo "$ANSWER"; sleep 600) &').start()
    assert response.pid == 4242
    assert child.exit_code == 0
    await child.stop()


async def test_the_flag_comes_first_and_then_the_arguments(bench: Bench) -> None:
    body = 'echo "$@" > args; case $1 in --st*) echo "$ANSWER";; esac'
    command = bench.command(body, "--port", "1 2")
    _, child = await command.start()
    await child.stop()
    assert (bench.folder / "args").read_text() == "--start --port 1 2\n"


async def test_output_after_the_answer_never_blocks_the_server(bench: Bench) -> None:
    noise = "head -c 3000000 /dev/zero | tr '\\0' x"
    script = f'echo "$ANSWER"; {noise}; {noise} >&2; touch done; sleep 600'
    _, child = await bench.command(script).start()
    await until((bench.folder / "done").exists)
    await child.stop()


async def test_restart_status_and_shutdown_are_read(bench: Bench) -> None:
    restarted = bench.answer(status="restarted", previousPid=7)
    answers = {
        "--restart": restarted,
        "--status": {"status": "running", "uptime": 1.5, "logs": restarted["logs"], "message": ""},
        "--shutdown": {"status": "stopped", "previousPid": 4242, "message": "bye"},
    }
    cases = "\n".join(f"{flag}) echo '{json.dumps(text)}';;" for flag, text in answers.items())
    command = bench.command(f"case $1 in\n{cases}\nesac")
    response, child = await command.restart()
    assert (response.status, response.previous_pid) == ("restarted", 7)
    await child.stop()
    assert (await command.status()).uptime == 1.5
    assert (await command.shutdown()).previous_pid == 4242
    assert bench.living() == []


async def test_a_shutdown_may_go_on_after_its_answer(bench: Bench) -> None:
    body = """echo '{"status":"stopped","message":""}'; sleep 0.3; touch done"""
    assert (await bench.command(body).shutdown()).status == "stopped"
    assert (bench.folder / "done").exists()


async def test_a_status_that_does_not_leave_is_ended_with_its_time(bench: Bench) -> None:
    body = """echo '{"status":"running","message":""}'; touch said; exec sleep 600"""
    command = bench.command(body, limit=SHORT_S, spawn=bench.said)
    assert (await command.status()).status == "running"
    assert bench.living() == []


# Fourteen bad ones


async def test_an_answer_in_single_bytes_is_read(bench: Bench) -> None:
    body = """
import os, time
for byte in os.environb[b"ANSWER"]:
    os.write(1, bytes([byte]))
    time.sleep(0.0001)
time.sleep(600)
"""
    response, child = await bench.command(PYTHON + body).start()
    assert response.port == 3542
    await child.stop()


async def test_noise_before_the_answer_is_passed_over(bench: Bench) -> None:
    noise = '> dev {mode: fast}\\n{"level":30}\\n\\033[32m{ready}\\033[0m \\377\\n{\\n'
    response, child = await bench.command(f"""printf '{noise}'; echo "$ANSWER" """).start()
    assert response.port == 3542
    await child.stop()


async def test_the_first_of_two_answers_counts(bench: Bench) -> None:
    second = json.dumps(bench.answer(port=1))
    response, child = await bench.command(f"""echo "$ANSWER"; echo '{second}'""").start()
    assert response.port == 3542
    await child.stop()


async def test_a_flood_of_output_is_invalid_json_and_takes_little_memory(bench: Bench) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    command = bench.command("head -c 100000000 /dev/zero | tr '\\0' '{'", limit=100)
    cause = await failure(command)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert cause["type"] == "invalid_json"
    assert "JSON object" in str(cause["parseError"])
    assert len(str(cause["stdout"])) <= 4_000
    assert grown_kib < 16 << 10


async def test_an_answer_behind_a_flood_is_found(bench: Bench) -> None:
    body = "head -c 100000000 /dev/zero | tr '\\0' x; echo \"$ANSWER\""
    response, child = await bench.command(body, limit=100).start()
    assert response.port == 3542
    await child.stop()


async def test_an_answer_without_a_line_end_is_read(bench: Bench) -> None:
    response, child = await bench.command('printf %s "$ANSWER"; sleep 600').start()
    assert response.port == 3542
    await child.stop()


async def test_an_exit_right_after_the_answer_takes_it_back(bench: Bench) -> None:
    for _ in range(5):
        script = 'echo "$ANSWER"; echo the database is gone >&2; exit 9'
        cause = await failure(bench.command(script))
        assert (cause["type"], cause["exitCode"]) == ("non_zero_exit", 9)
        assert cause["stderr"] == "the database is gone\n"


async def test_a_status_is_an_answer_whatever_its_exit_code(bench: Bench) -> None:
    body = """echo '{"status":"stopped","message":"as it should be"}'; exit 3"""
    assert (await bench.command(body).status()).status == "stopped"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"port": 0}, "port"),
        ({"port": 70000}, "port"),
        ({"port": "3542"}, "port"),
        ({"pid": -1}, "pid"),
        ({"pid": "x"}, "pid"),
        ({"url": "unix:/tmp/x"}, "url"),
        ({"status": "starting"}, "status"),
        ({"startedAt": "now"}, "startedAt"),
        ({"logs": None}, "logs"),
    ],
)
async def test_an_answer_with_a_wrong_field_is_invalid_json(
    bench: Bench, changes: dict[str, Any], field: str
) -> None:
    cause = await failure(bench.command(f"echo '{json.dumps(bench.answer(**changes))}'"))
    assert cause["type"] == "invalid_json"
    assert field in str(cause["parseError"])
    assert '"message": "up"' in str(cause["stdout"])


async def test_an_address_on_the_other_loopback_is_taken_as_it_is(bench: Bench) -> None:
    text = json.dumps(bench.answer(url="http://[::1]:3542"))
    response, child = await bench.command(f"echo '{text}'; sleep 600").start()
    assert response.url == "http://[::1]:3542"
    await child.stop()


async def test_a_wrong_pid_is_never_signalled(bench: Bench) -> None:
    bystander = psutil.Popen(["sleep", "600"])
    try:
        text = json.dumps(bench.answer(pid=bystander.pid))
        response, child = await bench.command(f"echo '{text}'; sleep 600").start()
        assert response.pid == bystander.pid
        await child.stop()
        assert bystander.is_running()
        assert bystander.status() != psutil.STATUS_ZOMBIE
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("code", [1, 7, 127])
async def test_a_non_zero_exit_is_told_with_the_end_of_stderr(bench: Bench, code: int) -> None:
    noise = "head -c 100000 /dev/zero | tr '\\0' x >&2"
    script = f"sleep 600 & echo nothing; {noise}; echo port 3000 is taken >&2; exit {code}"
    started = time.monotonic()
    cause = await failure(bench.command(script))
    assert (cause["type"], cause["exitCode"]) == ("non_zero_exit", code)
    assert str(cause["stderr"]).endswith("port 3000 is taken\n")
    assert len(str(cause["stderr"])) <= 4_000
    assert time.monotonic() - started < GUARD_S / 2, "what it left behind is not waited for"


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 600",
        "trap '' TERM; echo starting; echo slow >&2; sleep 600 & wait; sleep 601",
        "trap '' TERM; (setsid sleep 600 &); sleep 601",
        "while :; do echo '{'; sleep 0.05; done",
        """printf '{"status":"ready",'; sleep 600""",
    ],
)
async def test_a_command_that_hangs_is_a_timeout_and_leaves_nothing(
    bench: Bench, script: str
) -> None:
    started = time.monotonic()
    command = bench.command(script, limit=SHORT_S)
    cause = await failure(command)
    assert cause["type"] == "timeout"
    assert cause["timeout"] == SHORT_S * 1000
    assert cause["command"] == f"{command.path} --start"
    assert bench.living() == []
    assert SHORT_S <= time.monotonic() - started < GUARD_S


async def test_a_daemon_that_never_answers_is_invalid_json(bench: Bench) -> None:
    async def left(*args: Any, **how: Any) -> Child:
        child = await start_child(*args, **how)
        await child.wait()
        return child

    cause = await failure(bench.command("sleep 600 & echo started", limit=SHORT_S, spawn=left))
    assert cause["type"] == "invalid_json"
    assert cause["stdout"] == "started\n"


async def test_a_file_that_is_not_executable_is_permission_denied(bench: Bench) -> None:
    path = bench.folder / "plain"
    path.write_text("#!/bin/sh\n")
    cause = await failure(bench.made(path))
    assert cause == {"type": "permission_denied", "path": str(path)}
    path.write_text("no first line\n")
    path.chmod(0o755)
    headless = await failure(bench.made(path))
    assert (headless["type"], headless["reason"]) == ("permission_denied", "Exec format error")


async def test_a_missing_file_is_command_not_found(bench: Bench) -> None:
    path = bench.folder / "missing"
    assert await failure(bench.made(path)) == {"type": "command_not_found", "path": str(path)}


async def test_characters_cut_in_two_are_joined_and_broken_ones_replaced(bench: Bench) -> None:
    text = json.dumps(bench.answer(message="grüße €"), ensure_ascii=False).encode()
    body = f"""
import os, time
os.write(1, b"\\xc3")
for byte in {text!r}.replace("€".encode(), "€".encode()[:2]):
    os.write(1, bytes([byte]))
"""
    response, child = await bench.command(PYTHON + body).start()
    assert response.message == "grüße \ufffd"
    await child.stop()


@pytest.mark.parametrize("output", ["", "ready on port 3000", "{", '{"status":"ready"', "[1]"])
async def test_output_without_an_answer_is_invalid_json(bench: Bench, output: str) -> None:
    cause = await failure(bench.command(f"printf '%s' '{output}'"))
    assert (cause["type"], cause["stdout"]) == ("invalid_json", output)
    assert "JSON" in str(cause["parseError"])


async def test_a_command_that_is_killed_is_a_non_zero_exit(bench: Bench) -> None:
    cause = await failure(bench.command("kill -9 $$"))
    assert (cause["type"], cause["exitCode"]) == ("non_zero_exit", -9)


# Logs


async def test_logs_may_lie_in_the_folders_that_were_named(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path.parent / f"{tmp_path.name}-session"
    other.mkdir()
    text = json.dumps(bench.answer(logs={"stdout": f"{other}/a", "stderr": "", "combined": ""}))
    command = bench.command(f"echo '{text}'")
    assert (await failure(command))["type"] == "log_path_refused"
    _, child = await ContractCommand(
        command.path, (), command.cwd, command.env, start_child, (other,)
    ).start()
    await child.stop()


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "{}/../x", "{}-evil/x", "x.log", "{}/link", "{}/folder/x", "{}/a\0b"]
)
async def test_a_log_anywhere_else_is_refused_and_the_server_ended(bench: Bench, path: str) -> None:
    (bench.folder / "link").symlink_to("/etc/passwd")
    (bench.folder / "folder").symlink_to("/etc")
    path = path.format(bench.folder)
    good = str(bench.folder / "good.log")
    for name in ("stdout", "stderr", "combined"):
        logs = {"stdout": good, "stderr": good, "combined": good, name: path}
        text = json.dumps(bench.answer(logs=logs))
        cause = await failure(bench.command(f"cat <<'END'\n{text}\nEND\nsleep 600"))
        assert (cause["type"], cause["path"]) == ("log_path_refused", path)
        assert str(bench.folder) in str(cause["allowed"])
        assert bench.living() == []


# Given up


async def test_a_start_that_is_given_up_leaves_nothing(bench: Bench) -> None:
    command = bench.command("trap '' TERM; touch up; sleep 600 & wait; sleep 601")
    starting = asyncio.create_task(command.start())
    await until((bench.folder / "up").exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert bench.living() == []
