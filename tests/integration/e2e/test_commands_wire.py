"""Server commands of the JSON contract over the wire: what they may say, and that they are asked
to stop on every way to a session's end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support.ports import free_port, is_open
from tests.support.session_life import (
    GUARD_S,
    Driver,
    bad,
    last_seen,
    lives,
    open_driver,
    open_place,
)
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

# Its first own argument says how it behaves. What it was asked for stands in the file `calls`.
COMMAND = """\
import json, os, signal, socket, subprocess, sys, time

flag, how, *rest = [*sys.argv[1:], "ready"][:4]
with open("calls", "a") as calls:
    calls.write(flag + "\\n")
WHEN = "2026-01-01T00:00:00Z"


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def launch(port):
    port = port or int(open("port").read())
    server = subprocess.Popen(
        [sys.executable, "app.py"],
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=open("out.log", "ab"),
        stderr=open("err.log", "ab"),
        start_new_session=True,
    )
    while not answers(port):
        time.sleep(0.02)
    with open("state", "w") as state:
        json.dump([server.pid, port], state)
    return server, port


def known():
    try:
        with open("state") as state:
            return json.load(state)
    except OSError:
        return 0, 0


def say(**facts):
    print(json.dumps(facts), flush=True)


def ready(status, pid, port, combined="out.log"):
    logs = {"stdout": "out.log", "stderr": "err.log", "combined": combined}
    logs = {name: os.path.abspath(path) for name, path in logs.items()}
    url = f"http://localhost:{port}"
    say(status=status, url=url, port=port, pid=pid, startedAt=WHEN, logs=logs, message="hello")


if flag == "--status":
    pid, port = known()
    up = bool(port) and answers(port)
    say(status="running" if up else "stopped", healthy=up, message="asked")
    sys.exit(3 if how == "strict" else 0)
elif flag == "--shutdown":
    if how == "stuck":
        sys.exit("it will not stop")
    pid, port = known()
    if pid:
        os.kill(pid, signal.SIGKILL if how == "forced" else signal.SIGTERM)
    status = "force_stopped" if how == "forced" else "stopped"
    say(status=status, previousPid=pid or None, message="done")
elif flag == "--restart":
    before, port = known()
    os.kill(before, signal.SIGTERM)
    while answers(port):
        time.sleep(0.02)
    server, port = launch(port)
    url = rest[0] if how == "moved" else f"http://localhost:{port}"
    say(status="restarted", url=url, port=port, pid=server.pid, previousPid=before,
        startedAt=WHEN, message="again")
    if how == "strict":
        print("the cache is gone", file=sys.stderr)
        sys.exit(5)
elif how == "claim":
    logs = {name: os.path.abspath("out.log") for name in ("stdout", "stderr", "combined")}
    say(status="already_running", url=rest[0], port=80, pid=1, startedAt=WHEN, logs=logs,
        message="mine")
elif how in ("already", "stuck"):
    ready("already_running", int(rest[0]), int(rest[1]))
elif how == "exit":
    print("no licence found", file=sys.stderr)
    sys.exit(3)
elif how == "words":
    print("Server is up at {host}, have fun")
elif how == "partial":
    say(status="ready", url="http://localhost:1")
elif how == "hang":
    time.sleep(600)
else:
    server, port = launch(0)
    if how == "noise":
        sys.stdout.write("{webpack: 5} [100%]\\n{\\"done\\": true}\\n\\x1b[32mok\\x1b[0m ")
    ready("ready", server.pid, port, "/etc/passwd" if how == "spy" else "out.log")
    if how == "regret":
        print("the database is gone", file=sys.stderr)
        sys.exit(4)
    if how == "foreground":
        print("and it talks on: {", flush=True)
        sys.exit(server.wait())
"""


@dataclass(frozen=True)
class Case:
    """A folder with a command of the contract."""

    driver: Driver
    folder: Path

    @property
    def command(self) -> str:
        return str(self.folder / "serve.py")

    def begin(self, *args: str, **more: Any) -> dict[str, Any]:
        more.setdefault("commandPath", self.command)
        return self.driver.ask("startSession", cwd=str(self.folder), args=list(args), **more)

    def start(self, *args: str, **more: Any) -> dict[str, Any]:
        result = self.begin(*args, **more)
        assert not result["isError"], result["structuredContent"]
        content: dict[str, Any] = result["structuredContent"]
        return content

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split() if path.exists() else []

    def processes(self) -> list[psutil.Process]:
        """What runs in its folder."""
        return [one for one in self.driver.place.living() if self._is_here(one)]

    def _is_here(self, process: psutil.Process) -> bool:
        try:
            return process.cwd() == str(self.folder) and lives(process)
        except psutil.Error:
            return False


def make_case(driver: Driver, name: str) -> Case:
    place = driver.place
    folder = place.app / name
    folder.mkdir()
    shutil.copy(place.app / "app.py", folder / "app.py")
    place.script(f"{name}/serve.py", COMMAND)
    (folder / "port").write_text(str(free_port()))
    return Case(driver, folder)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with open_driver() as opened:
        yield opened


@pytest.fixture
def case(driver: Driver, request: pytest.FixtureRequest) -> Iterator[Case]:
    made = make_case(driver, re.sub(r"\W", "-", request.node.name))
    yield made
    assert last_seen(made.processes, lambda found: not found) == []
    assert driver.browsers() == []


@contextmanager
def running_app(case: Case) -> Iterator[tuple[int, int]]:
    """The app, started by somebody else: pid and port."""
    port = free_port()
    env = {**os.environ, "PORT": str(port), "TMPDIR": str(case.driver.place.temp)}
    app = subprocess.Popen(
        [sys.executable, "app.py"], cwd=case.folder, env=env, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: is_open(port))
        (case.folder / "state").write_text(f"[{app.pid}, {port}]")
        yield app.pid, port
    finally:
        app.kill()
        app.wait()


# What a command may say


@pytest.mark.parametrize("how", ["ready", "foreground", "noise"])
def test_a_server_of_a_command_runs_until_the_session_ends(case: Case, how: str) -> None:
    session = case.start(how)
    server = psutil.Process(session["pid"])
    assert session["message"] == "hello"
    assert session["url"] == f"http://localhost:{session['port']}"
    assert session["logs"]["stderr"] == str(case.folder / "err.log")
    page = case.driver.call("navigate", sessionId=session["sessionId"], url="/")
    assert page["status"] == 200
    status = case.driver.status(session)
    assert (status["status"], status["healthy"]) == ("running", True)
    logs = case.driver.call("readServerLogs", sessionId=session["sessionId"], logType="stdout")
    assert "the app of nobody" in logs["content"]
    assert logs["path"] == str(case.folder / "out.log")
    assert case.driver.end(session)["left"] == []
    assert case.calls() == ["--start", "--status", "--shutdown"]
    assert not lives(server)


def test_restart_reaches_the_command_and_keeps_the_browser(case: Case) -> None:
    session = case.start("ready")
    in_session = {"sessionId": session["sessionId"]}
    case.driver.call("navigate", **in_session, url="/")
    case.driver.call("evaluate", **in_session, script="window.kept = 7")
    restarted = case.driver.call("restartServer", **in_session)
    assert restarted["port"] == session["port"]
    assert restarted["pid"] != session["pid"]
    wait_until(lambda: not psutil.pid_exists(session["pid"]))
    assert case.driver.call("evaluate", **in_session, script="window.kept")["result"] == 7
    assert case.driver.call("navigate", **in_session, url="/")["status"] == 200
    assert case.driver.status(session)["notices"] == []
    case.driver.end(session)
    assert case.calls() == ["--start", "--restart", "--status", "--shutdown"]


def test_the_death_of_a_commands_server_is_told_with_the_end_of_its_log(case: Case) -> None:
    session = case.start("foreground")
    in_session = {"sessionId": session["sessionId"]}
    # The page asks for the end itself, so that the call does not fail by it.
    case.driver.call("navigate", **in_session, url="/")

    def told(script: str = "1") -> list[dict[str, Any]]:
        said = case.driver.call("evaluate", **in_session, script=script)
        notices: list[dict[str, Any]] = said.get("notices", [])
        return notices

    # Said once: by the very answer, if the server was that quick.
    notices = told("fetch('/?exit=5').catch(() => 0), 0") or wait_until(told)
    assert [(one["type"], one["exitCode"]) for one in notices] == [("server_exited", 5)]
    assert "the last words of the app" in notices[0]["log"]
    assert case.driver.status(session)["status"] == "stopped"
    case.driver.end(session)


def test_a_server_that_ran_before_is_left_running_unless_asked(case: Case) -> None:
    with running_app(case) as (pid, port):
        session = case.start("already", str(pid), str(port))
        assert (session["pid"], session["port"]) == (pid, port)
        left = case.driver.end(session)["left"]
        assert len(left) == 1
        assert session["url"] in left[0]
        assert is_open(port)
        assert case.calls() == ["--start"]
        again = case.start("already", str(pid), str(port))
        assert case.driver.end(again, stopServer=True)["left"] == []
        assert case.calls() == ["--start", "--start", "--shutdown"]
        wait_until(lambda: not is_open(port))


def test_a_server_that_ran_before_and_will_not_stop_is_told_as_shutdown_failed(case: Case) -> None:
    with running_app(case) as (pid, port):
        session = case.start("stuck", str(pid), str(port))
        fault = case.driver.fault("endSession", sessionId=session["sessionId"], stopServer=True)
        assert fault["type"] == "shutdown_failed"
        assert is_open(port)
        over = case.driver.fault("getSessionStatus", sessionId=session["sessionId"])
        assert over["type"] == "session_not_found"


def test_a_shutdown_that_had_to_be_forced_says_so(case: Case) -> None:
    gentle = case.start("ready")
    assert case.driver.end(gentle)["forced"] == []
    session = case.start("forced")
    (forced,) = case.driver.end(session)["forced"]
    assert session["url"] in forced


# What a command may do wrong


@pytest.mark.parametrize(
    ("how", "kind", "word"),
    [
        ("exit", "non_zero_exit", "code 3"),
        ("words", "invalid_json", "no JSON object"),
        ("partial", "invalid_json", "port: Field required"),
        ("hang", "timeout", "within 1 seconds"),
        ("spy", "log_path_refused", "/etc/passwd"),
        ("regret", "non_zero_exit", "code 4"),
    ],
)
def test_a_command_that_fails_is_told_by_its_cause(
    case: Case, how: str, kind: str, word: str
) -> None:
    fault = bad(case.begin(how, timeout=1_000 if how == "hang" else 30_000))
    assert fault["type"] == "server_start_failed"
    assert fault["cause"]["type"] == kind
    assert word in fault["message"]
    assert "stderr" not in fault["cause"], "it is told once"
    assert fault["logs"].keys() == {"stdout", "stderr", "combined"}
    assert all(Path(path).is_absolute() for path in fault["logs"].values())
    read = case.driver.call("readServerLogs", sessionId=fault["sessionId"], logType="stderr")
    assert read["path"] == fault["logs"]["stderr"]
    assert read["content"] == (fault.get("stderr") or "").rstrip("\n") or how == "regret"
    if how == "regret":  # its answer named the server's own logs before it took the answer back
        assert fault["logs"]["stderr"] == str(case.folder / "err.log")
        assert "the database is gone" in fault["stderr"]
    if how == "exit":
        assert (fault["exitCode"], fault["cause"]["exitCode"]) == (3, 3)
        assert "no licence found" in fault["stderr"]


def test_a_status_is_an_answer_and_a_restart_is_none_that_ends_with_another_code(
    case: Case,
) -> None:
    session = case.start("strict")
    in_session = {"sessionId": session["sessionId"]}
    status = case.driver.status(session)
    assert (status["status"], status["healthy"]) == ("running", True)
    fault = case.driver.fault("restartServer", **in_session)
    assert fault["type"] == "server_start_failed"
    assert fault["cause"] == {"type": "non_zero_exit", "exitCode": 5}
    assert "the cache is gone" in fault["stderr"]
    assert all(Path(path).is_absolute() for path in fault["logs"].values())
    read = case.driver.call("readServerLogs", **in_session, logType="stderr")
    assert read["path"] == str(case.folder / "err.log")
    case.driver.end(session)


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest/", "http://10.0.0.1/", "http://metadata.google.internal/"],
)
def test_an_address_that_no_browser_may_visit_does_not_become_the_sessions_own(
    case: Case, url: str
) -> None:
    assert bad(case.begin("claim", url))["type"] == "url_not_allowed"


def test_an_address_of_a_restart_becomes_the_sessions_own_only_if_a_browser_may_visit_it(
    case: Case,
) -> None:
    session = case.start("moved", url := "http://169.254.169.254/latest/")
    in_session = {"sessionId": session["sessionId"]}
    assert case.driver.fault("restartServer", **in_session)["type"] == "url_not_allowed"
    assert case.driver.fault("navigate", **in_session, url=url)["type"] == "url_not_allowed"
    case.driver.end(session)


def test_a_command_that_is_not_there_or_cannot_run_is_told_by_its_cause(case: Case) -> None:
    missing = str(case.folder / "nothing.py")
    fault = bad(case.begin(commandPath=missing))
    assert fault["type"] == "server_start_failed"
    assert fault["cause"] == {"type": "command_not_found", "path": missing}
    plain = case.folder / "app.py"
    plain.chmod(0o600)
    fault = bad(case.begin(commandPath=str(plain)))
    assert fault["type"] == "server_start_failed"
    assert fault["cause"] == {"type": "permission_denied", "path": str(plain)}


# What may be started


def test_what_others_can_write_and_where_nobody_should_run_is_refused(case: Case) -> None:
    command = Path(case.command)
    command.chmod(0o777)
    fault = bad(case.begin("ready"))
    assert fault["type"] == "command_not_allowed"
    assert "everybody can write" in fault["message"]
    command.chmod(0o700)
    case.folder.chmod(0o777)
    assert bad(case.begin("ready"))["type"] == "command_not_allowed"
    case.folder.chmod(0o700)
    assert bad(case.begin(commandPath="./serve.py"))["type"] == "command_not_allowed"
    link = case.folder / "out"
    link.symlink_to("/")
    for cwd in ("/etc", f"{case.folder}/../../..", str(link)):
        fault = case.driver.fault("startSession", commandPath=case.command, cwd=cwd)
        assert (fault["type"], fault["setting"]) == ("command_not_allowed", "PILOTHOUSE_ROOTS")
    for name in ("x" * 300, "x/" * 3000):  # no system takes such names
        fault = case.driver.fault("startSession", commandPath=case.command, cwd=name)
        assert (fault["type"], fault["field"]) == ("invalid_input", "cwd")
        assert "path" in case.driver.fault("startSession", command=[name])["cause"]
    assert case.calls() == []


def test_with_a_list_only_what_is_listed_runs_and_only_as_it_is() -> None:
    with open_place() as place:
        listed = place.app / "listed"
        allowed = f"{listed}/serve.py:{sys.executable}"
        with Driver(place, env={"SERVER_COMMAND_PATH": allowed}) as strict:
            case, other = make_case(strict, "listed"), make_case(strict, "other")
            fault = bad(other.begin("ready"))
            assert fault["type"] == "command_not_allowed"
            assert "SERVER_COMMAND_PATH" in fault["suggestion"]
            for words in (["sh", "-c", "touch ran"], [sys.executable, "-c", "open('ran', 'w')"]):
                fault = strict.fault("startSession", command=words, cwd=str(case.folder))
                assert fault["type"] == "command_not_allowed", words
            fault = bad(case.begin("ready", env={"PYTHONPATH": str(other.folder)}))
            assert fault["type"] == "command_not_allowed"
            assert (case.calls(), other.calls()) == ([], [])
            assert not (case.folder / "ran").exists()
            session = case.start("ready")
            assert strict.end(session)["success"]
            assert case.calls() == ["--start", "--shutdown"]


def test_a_listed_command_that_became_another_does_not_run_again() -> None:
    with open_place() as place:
        listed = place.app / "listed" / "serve.py"
        with Driver(place, env={"SERVER_COMMAND_PATH": str(listed)}) as strict:
            case, other = make_case(strict, "listed"), make_case(strict, "other")
            session = case.start("ready")
            listed.unlink()
            listed.symlink_to(place.script("app.py", "open('ran', 'w')\n"))
            place.app.joinpath("app.py").chmod(0o777)
            fault = strict.fault("restartServer", sessionId=session["sessionId"])
            assert fault["type"] == "command_not_allowed"
            assert "everybody can write" in fault["message"]
            page = strict.call("navigate", sessionId=session["sessionId"], url="/")
            assert page["status"] == 200
            status = strict.status(session)
            assert (status["status"], status["healthy"]) == ("unhealthy", False)
            assert "everybody can write" in status["services"][0]["message"]
            (forced,) = strict.end(session)["forced"]
            assert "everybody can write" in forced
            assert (case.calls(), other.calls()) == (["--start"], [])
            assert not (case.folder / "ran").exists()
            assert last_seen(case.processes, lambda found: not found) == []


def test_in_production_nothing_runs_that_is_not_listed() -> None:
    with open_place() as place, Driver(place, env={"PILOTHOUSE_ENV": "production"}) as driver:
        case = make_case(driver, "prod")
        fault = bad(case.begin("ready"))
        assert fault["type"] == "command_not_allowed"
        assert "production" in fault["message"]
        plain = driver.fault("startSession", command=["true"], cwd=str(case.folder))
        assert plain["type"] == "command_not_allowed"
        assert case.calls() == []


# Every end asks the command to stop its server


def test_shutdown_is_called_when_the_session_is_idle_or_its_browser_dies() -> None:
    env = {"PILOTHOUSE_SESSION_IDLE_SEC": "4"}
    with open_place() as place, Driver(place, env=env) as driver:
        idle, crashed = make_case(driver, "idle"), make_case(driver, "crashed")
        idle.start("ready")
        assert last_seen(idle.calls, lambda calls: "--shutdown" in calls) == [
            "--start",
            "--shutdown",
        ]
        assert last_seen(driver.browsers, lambda found: not found) == []
        crashed.start("ready")
        (browser,) = driver.browsers()
        browser.kill()
        assert last_seen(crashed.calls, lambda calls: "--shutdown" in calls) == [
            "--start",
            "--shutdown",
        ]
        assert last_seen(crashed.processes, lambda found: not found) == []


def test_shutdown_is_called_when_pilothouse_ends() -> None:
    with open_place() as place, Driver(place) as driver:
        case = make_case(driver, "ending")
        case.start("ready")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.process.wait(GUARD_S) == 0
        assert case.calls() == ["--start", "--shutdown"]
        assert case.processes() == []


def test_shutdown_is_called_when_the_browser_cannot_be_launched() -> None:
    env = {"PILOTHOUSE_BROWSER": "/bin/false"}
    with open_place() as place, Driver(place, env=env) as driver:
        case = make_case(driver, "blind")
        assert bad(case.begin("ready"))["type"] == "browser_launch_failed"
        assert case.calls() == ["--start", "--shutdown"]
        assert case.processes() == []
