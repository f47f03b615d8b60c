"""What is kept goes by age and size, soon after a start; what lives stays, whoever sweeps."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.hub.test_hub_commands import run
from tests.support import talker
from tests.support.agent import Agent
from tests.support.driving import Driver
from tests.support.http_agent import HttpAgent
from tests.support.servers import PRODUCT, http_server
from tests.support.session_ids import id_of, name_of
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86_400
MB = 1 << 20


def aged(folder: Path, days: float) -> None:
    """Make a folder and all in it that old."""
    at = time.time() - days * DAY_S
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (at, at), follow_symlinks=False)


def session(home: Path, name: str, days: float, size: int = 100) -> Path:
    folder = home / "sessions" / id_of(name)
    folder.mkdir(parents=True)
    home.chmod(0o700)
    folder.parent.chmod(0o700)
    (folder / "app.combined.log").write_bytes(b"x" * size)
    (folder / "dossier-1.html").write_bytes(b"x" * 1000)
    aged(folder, days)
    return folder


def names(home: Path) -> set[str]:
    return {name_of(path.name) for path in (home / "sessions").iterdir()}


def sweeps(log: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["component"] in ("hub", "sweep")]


def test_a_hub_sweeps_by_age_and_size_and_status_tells_what_is_left(tmp_path: Path) -> None:
    for name, days in (("old", 8), ("b", 3), ("c", 2), ("d", 1)):
        session(tmp_path, name, days, MB)
    env = {"PILOTHOUSE_HOME": str(tmp_path), "PILOTHOUSE_KEEP_MB": "3"}
    with http_server(module=PRODUCT, env=env) as hub:
        HttpAgent(hub.url).open().call("status")
        wait_until(lambda: names(tmp_path) == {"c", "d"})
        told = wait_until(lambda: json.loads(run(tmp_path, "status", "--json").stdout)["swept"])
        assert (told["removed"], told["failed"]) == (2, [])
        assert told["bytes"] == 2 * (MB + 1000)
        status = json.loads(run(tmp_path, "status", "--json").stdout)
        kept = {row["kind"]: row for row in status["kept"]}
        assert kept["sessions"]["bytes"] == 2 * (MB + 1000)
        assert kept["server logs"] == {
            "kind": "server logs",
            "of": "sessions",
            "entries": 2,
            "bytes": 2 * MB,
            "cap": "100 MB a log",
        }
        assert (kept["dossiers"]["bytes"], kept["in all"]["cap"]) == (2000, "3 MB")
        shown = run(tmp_path, "status").stdout
        assert "KEPT ON DISK" in shown
        assert "last swept at" in shown
        (line,) = (line for line in shown.splitlines() if line.startswith("sessions  "))
        assert line.split() == ["sessions", "2", "2", "MB", "7", "days"]


def test_status_without_a_hub_tells_what_is_kept_under_its_own_caps(tmp_path: Path) -> None:
    session(tmp_path, "old", 8, MB)
    shown = run(tmp_path, "status", "--keep-days", "3")
    assert (shown.returncode, shown.stderr.partition(" for ")[0]) == (1, "no hub is running")
    assert shown.stdout.startswith("KEPT ON DISK")
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("sessions  "))
    assert line.split() == ["sessions", "1", "1", "MB", "3", "days"]
    told = json.loads(run(tmp_path, "status", "--json").stdout)
    assert told["kept"][0]["bytes"] == MB + 1000


def test_a_process_of_its_own_sweeps_too(tmp_path: Path) -> None:
    session(tmp_path, "old", 8)
    recordings = tmp_path / "sessions" / "my-recordings"
    recordings.mkdir()
    aged(recordings, 100)
    with Agent(env={"PILOTHOUSE_HOME": str(tmp_path)}) as agent:
        agent.call("status")
        wait_until(lambda: '"swept"' in agent.log())
        assert list((tmp_path / "sessions").iterdir()) == [recordings], "it is the user's own"


@pytest.mark.browser
def test_what_another_process_has_open_stays_until_it_is_ended() -> None:
    with Driver(env={"PILOTHOUSE_KEEP_MB": "1"}) as owner:
        owner.start(command=[sys.executable, talker.__file__])
        living = owner.home / "sessions" / owner.session_id
        aged(living, 30)
        session(owner.home, "old", 29, 2 * MB)
        with Agent(env={"PILOTHOUSE_HOME": str(owner.home)}) as other:
            wait_until(lambda: "old" not in names(owner.home))
            other.call("status")
        assert names(owner.home) == {owner.session_id}
        assert owner.call("readServerLogs")["path"].startswith(str(living))
        owner.call("endSession")
        aged(living, 30)
        with Agent(env={"PILOTHOUSE_HOME": str(owner.home)}):
            wait_until(lambda: names(owner.home) == set())
        gone = owner.fault("readServerLogs", sessionId=owner.session_id)
        assert gone["type"] == "session_not_found"
        assert "Its files were removed at " in gone["message"]
        assert "--keep-days (PILOTHOUSE_KEEP_DAYS) is 7" in gone["message"]
        uri = f"e2e://artifact/{owner.session_id}/dossier-1.html"
        read = owner.request("resources/read", {"uri": uri}, id=7)
        assert "--keep-days (PILOTHOUSE_KEEP_DAYS) is 7" in json.dumps(read["error"])


@pytest.mark.browser
def test_the_logs_of_a_failed_start_that_were_swept_are_told_as_such() -> None:
    with Driver() as driver:
        error = driver.fault("startSession", command=[sys.executable, "-c", "raise SystemExit(3)"])
        failed = error["sessionId"]
        logs = {"sessionId": failed, "logType": "stderr"}
        assert driver.call("readServerLogs", **logs)["content"] == ""
        aged(driver.home / "sessions" / failed, 8)
        with Agent(env={"PILOTHOUSE_HOME": str(driver.home)}):
            wait_until(lambda: failed not in names(driver.home))
        gone = driver.fault("readServerLogs", **logs)
    assert gone["type"] == "log_file_not_found"
    assert "--keep-days (PILOTHOUSE_KEEP_DAYS) is 7" in gone["message"]


def test_what_cannot_be_swept_is_logged_and_harms_nothing(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    session(home, "old", 8)
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("of the user")
    aged(elsewhere, 100)
    (home / "wrap").symlink_to(elsewhere)
    with Agent(env={"PILOTHOUSE_HOME": str(home)}) as agent:
        wait_until(lambda: "not_swept" in agent.log())
        assert names(home) == set(), "the rest is swept"
        agent.call("status")
        told = {line["event"]: line for line in sweeps(agent.log())}
    assert told["not_swept"]["level"] == "warn"
    assert "wrapped servers" in told["not_swept"]["details"]["what"]
    assert told["swept"]["details"]["kinds"] == {"sessions": 1}
    assert (elsewhere / "precious").exists()
