"""`pilothouse doctor` as a person runs it: the real command, Chromium, sockets and folders."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.cli.doctor import probes, report
from pilothouse.cli.doctor.report import Finding
from pilothouse.machine.chromium.finder import find_browser
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

DEADLINE_SEC = 60
# Ports that nothing else on the machine can hold: any free one.
ANY_PORTS = {f"PILOTHOUSE_{name}_PORT": "0" for name in ("HTTP", "BOOKMARKS", "CONFIG", "REST")}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Like tmp_path, but short: Chromium's sockets have room for only 107 characters."""
    with tempfile.TemporaryDirectory(prefix="doctor-") as name:
        yield Path(name)


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """This environment with state and temporary files in the test's folder."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    ours = {"PILOTHOUSE_HOME": str(folder / "home"), "TMPDIR": str(temporary), **ANY_PORTS}
    python = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
    return {**os.environ, **python, **ours, **variables}


def doctor(folder: Path, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pilothouse", "doctor", *flags],
        env=environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_SEC,
        check=False,
    )


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def findings(ran: subprocess.CompletedProcess[str], check: str) -> list[dict[str, Any]]:
    return [entry for entry in json.loads(ran.stdout) if entry["check"] == check]


def running_with(text: str) -> list[int]:
    """Processes that have a text in their command line."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(text in word for word in process.info["cmdline"] or ())
    ]


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_healthy_machine_exits_0_names_the_browser_and_leaves_nothing_behind(
    folder: Path,
) -> None:
    ran = doctor(folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    browser = next(line for line in ran.stdout.splitlines() if line.startswith("✓ browser"))
    assert any(name in browser for name in ("Chromium", "Chrome", "Edge"))
    assert "✓ start" in ran.stdout
    wait_until(lambda: not running_with(str(folder)))
    assert list((folder / "tmp").iterdir()) == []
    assert not (folder / "home").exists()


def test_a_named_browser_that_is_missing_exits_1_with_the_fix(folder: Path) -> None:
    ran = doctor(folder, PILOTHOUSE_BROWSER="/nope")
    lines = ran.stdout.splitlines()
    at = lines.index("✗ browser    PILOTHOUSE_BROWSER: /nope is not a program that can be run")
    assert ran.returncode == 1
    assert lines[at + 1].strip() == "$ unset PILOTHOUSE_BROWSER"
    assert "cannot work" in lines[-1]


def test_a_port_held_by_another_process_is_a_warning_with_its_pid_and_the_variable(
    folder: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        ran = doctor(folder, "--json", PILOTHOUSE_REST_PORT=str(port))
    (taken,) = (entry for entry in findings(ran, "port") if "rest_port" in entry["said"])
    assert ran.returncode == 0
    assert taken["state"] == "warn"
    assert taken["said"].startswith(f"{port} (rest_port) is held by ")
    assert f"(pid {os.getpid()})" in taken["said"]
    assert taken["fix"].startswith("export PILOTHOUSE_REST_PORT=")


def test_a_port_that_a_running_pilothouse_holds_is_no_warning(folder: Path) -> None:
    script = folder / "pilothouse"
    script.write_text(
        "import socket, sys\n"
        "with socket.create_server(('127.0.0.1', 0)) as held:\n"
        "    print(held.getsockname()[1], flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        ran = doctor(folder, "--json", PILOTHOUSE_HTTP_PORT=other.stdout.readline().strip())
    http = findings(ran, "port")[0]
    assert http["state"] == "ok"
    assert f"a running Pilothouse, pid {other.pid}" in http["said"]


def test_a_home_below_a_file_blocks_and_the_json_says_where(folder: Path) -> None:
    wall = folder / "wall"
    wall.write_text("")
    ran = doctor(folder, "--json", PILOTHOUSE_HOME=str(wall / "home"))
    (state,) = findings(ran, "state")
    assert (ran.returncode, state["state"]) == (1, "block")
    assert f"{wall} is not a folder" in state["said"]


def test_a_doctor_that_is_killed_takes_its_browser_along(folder: Path) -> None:
    found = find_browser(os.environ)
    assert found is not None
    # With another profile than it was told, the browser is up while the doctor waits in vain.
    profile = folder / "profile"
    browser = program(
        folder / "chrome",
        "for word; do shift\n"
        f'  case "$word" in --user-data-dir=*) word="--user-data-dir={profile}" ;; esac\n'
        '  set -- "$@" "$word"\n'
        f'done; exec "{found.path}" "$@"',
    )
    with subprocess.Popen(
        [sys.executable, "-m", "pilothouse", "doctor", "--browser", browser],
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            wait_until((profile / "DevToolsActivePort").exists)
            assert len(running_with(str(profile))) > 1
            assert child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)
    wait_until(lambda: not running_with(str(profile)))


def test_a_browser_that_hangs_is_ended_with_its_children(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    pids = folder / "pids"
    hanging = program(folder / "chrome", f'sleep 300 & echo $$ $! >> "{pids}"; wait')
    assert probes.browser_version(hanging, deadline_sec=0.5) == (
        False,
        "--version did not answer within 0.5 s",
    )
    start = probes.start_headless(hanging, deadline_sec=0.5)
    assert start.reason == "did not open its debugging port within 0.5 s"
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 4
    wait_until(lambda: all(has_ended(pid) for pid in started))
    assert list(temporary.iterdir()) == []


def test_libraries_are_found_without_being_imported() -> None:
    script = (
        "import sys; from pilothouse.cli.doctor import checks as doctor;"
        "from pilothouse.core.settings import Settings;"
        "print([f.state for f in doctor.check_libraries(doctor.Context.here(Settings(), {}))],"
        " {'playwright', 'mitmproxy', 'rich'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ran.stdout == "['ok', 'ok'] set()\n"


def test_a_terminal_gets_colour_and_a_long_fix_on_one_line() -> None:
    fix = "rm -f " + " ".join(f"/a/long/path/number/{number}" for number in range(20))
    reader, writer = pty.openpty()
    try:
        with open(writer, "w", encoding="utf-8", closefd=False) as terminal:
            report.show([Finding("profile", "warn", "[bold]locked", fix)], terminal)
        shown = os.read(reader, 65536).decode()
    finally:
        os.close(writer)
        os.close(reader)
    assert "\x1b[" in shown
    assert "[bold]locked" in shown
    assert fix in shown
