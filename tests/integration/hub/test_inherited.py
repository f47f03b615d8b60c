"""What the processes that Pilothouse starts have of the environment in which it was started.

Each one's is read from /proc, which shows what a process was started with.
"""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from pilothouse.core.child_env import own_environment, server_environment
from tests.support import forkserver
from tests.support.agent import Agent
from tests.support.http_agent import HttpAgent
from tests.support.living import living
from tests.support.npm import PEERS
from tests.support.peers import installed
from tests.support.relaying import relay_home
from tests.support.servers import FIXTURE_APP, PRODUCT, http_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
    pytest.mark.usefixtures("real_processes"),
]

SECRET = "k3ep-th1s"
"""In the value of everything that no child may have."""
HUB_SECRET = "PILOTHOUSE_HTTP_TOKEN"
TERMINAL = {
    **{
        name: f"{SECRET}-{name}"
        for name in (
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "DATABASE_URL",
            "SSH_AUTH_SOCK",
            "NPM_TOKEN",
            "npm_config__authToken",
            "PACKET_PROXY_ACCESS_TOKEN",
            HUB_SECRET,
        )
    },
    "HTTPS_PROXY": f"http://me:{SECRET}@proxy.test:3128",
    "TZ": "Asia/Tokyo",
    "LC_TIME": "C",
}
EVERYBODY = {"PATH", "HOME", "TMPDIR", "TZ", "LC_TIME", "LC_MARK"}
APP = """\
import http.server, os
pages = http.server.SimpleHTTPRequestHandler
http.server.test(pages, port=int(os.environ["PORT"]), bind="127.0.0.1")
"""
KINDS = {
    "dev server": "app.py",
    "engine": "pilothouse.intercept.engine",
    "driver": "run-driver",
    "browser": "--user-data-dir=",
}
"""What each has in its command line."""


def fixture(*args: str) -> str:
    """Return the command line of another server: what it is given, its shim has of a real start."""
    return shlex.join(forkserver.command(FIXTURE_APP, *args))


class Family:
    """All that lives with a mark, but for the process that the test itself has started."""

    def __init__(self, mark: str, first: int) -> None:
        self._mark = mark
        self._first = first

    def environs(self, named: str = "") -> list[tuple[str, dict[str, str]]]:
        """Return command lines with a word in them, each with what the process has."""
        found = []
        for process in living(self._mark):
            with suppress(psutil.Error):  # some end at any time
                command = " ".join(process.cmdline())
                if process.pid != self._first and named in command:
                    found.append((command, process.environ()))
        return found

    def check(self) -> None:
        """Check that nobody has a secret, but the hub the one that its owner's relay gives it."""
        for command, environ in self.environs():
            has = {name for name, value in environ.items() if SECRET in name + value}
            assert has <= ({HUB_SECRET} if "pilothouse.hub.start" in command else set()), command


def drive(agent: Agent, folder: Path, family: Family) -> None:
    """Have an agent start one of each, and check them all."""
    (folder / "app.py").write_text(APP)
    (folder / "index.html").write_text("<h1>good</h1>")
    command = [sys.executable, "app.py"]
    agent.call(
        "startSession", command=command, cwd=str(folder), env={"ASKED": "yes"}, intercept=True
    )
    family.check()
    for kind, named in KINDS.items():
        # Children of a browser write their titles over what they were started with.
        assert any(environ.keys() >= EVERYBODY for _, environ in family.environs(named)), kind
    ((_, server),) = family.environs(KINDS["dev server"])
    others = server.keys() - server_environment(server).keys()
    assert others == {"ASKED", "BROWSER", "PORT", "PYTHONUNBUFFERED"}  # asked for, or set for all
    for kind in ("driver", "engine"):
        for _, environ in family.environs(KINDS[kind]):
            others = environ.keys() - own_environment(environ).keys()
            assert all(name.startswith("PW_") for name in others), kind
    # A system's own launcher of its browser may add some; what is for our own code is not there.
    assert not any("PYTHONPATH" in environ for _, environ in family.environs(KINDS["browser"]))


@pytest.mark.browser
def test_nothing_of_a_terminal_reaches_what_an_agent_of_a_hub_starts(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    with relay_home(sockets, mark) as home:
        with home.agent(**TERMINAL, PILOTHOUSE_ROOTS=str(tmp_path)) as agent:
            family = Family(mark, agent.process.pid)
            drive(agent, tmp_path, family)
            for module in ("pilothouse.hub.start", "pilothouse.hub.workers.worker"):
                ((_, environ), *_) = family.environs(module)
                assert environ.keys() - own_environment(environ).keys() <= {HUB_SECRET}


@pytest.mark.browser
def test_nothing_of_a_terminal_reaches_what_is_started_without_a_hub(
    sockets: Path, mark: str, tmp_path: Path
) -> None:
    env = {
        **TERMINAL,
        "LC_MARK": mark,
        "PILOTHOUSE_HOME": str(sockets),
        "PILOTHOUSE_ROOTS": str(tmp_path),
    }
    with Agent(env=env) as agent:
        drive(agent, tmp_path, Family(mark, agent.process.pid))


@pytest.mark.parametrize(
    ("over", "args"),
    [("stdio", ()), ("http", ("serve", "--port", "{port}"))],
    ids=["stdio", "http"],
)
def test_another_server_as_a_worker_gets_what_is_let_through_and_no_more(
    sockets: Path, mark: str, over: str, args: tuple[str, ...]
) -> None:
    terminal = {**TERMINAL, "LETTER": "a", "LETTER_TWO": "b", "ANOTHER": SECRET}
    with relay_home(sockets, mark) as home:
        flags = [word for name in ("LETTER", "LETTER_TWO") for word in ("--worker-env", name)]
        with home.agent("--worker", f"{over}:{fixture(*args)}", *flags, **terminal) as agent:
            assert agent.call("echo_code", text="hi")["said"] == ["hi"]
            family = Family(mark, agent.process.pid)
            family.check()
            found = [
                environ
                for command, environ in family.environs(FIXTURE_APP)
                if "pilothouse.hub.start" not in command
            ]  # which is told what to start
            assert found
            lines = map(json.loads, home.files.log.read_text().splitlines())
            told = [
                line["details"]["worker"] for line in lines if line["event"] == "worker_ports_open"
            ]
            assert [name.partition(":")[0] for name in told] == ["http"] * (over == "http")
            for environ in found:
                assert environ.keys() >= EVERYBODY
                assert (environ["LETTER"], environ["LETTER_TWO"]) == ("a", "b")
                assert environ["HTTPS_PROXY"] == "http://proxy.test:3128"
                assert "XDG_CONFIG_HOME" not in environ
                assert not any("PILOTHOUSE" in name for name in environ)


def test_a_hub_that_runs_in_the_terminal_itself_hands_on_as_little(mark: str) -> None:
    env = {name: value for name, value in TERMINAL.items() if name != HUB_SECRET}
    flags = ("--worker", f"stdio:{fixture()}")
    with http_server(*flags, module=PRODUCT, env={**env, "LC_MARK": mark}) as hub:
        HttpAgent(hub.url).open().call("echo_code", text="hi")
        family = Family(mark, hub.process.pid)
        family.check()
        assert family.environs(FIXTURE_APP)


@installed
@pytest.mark.browser
def test_playwright_s_server_and_its_browser_get_no_secrets(sockets: Path, mark: str) -> None:
    with relay_home(sockets, mark) as home:
        with home.agent("--worker", f"playwright-mcp:{PEERS}", **TERMINAL) as agent:
            answer = agent.ask("browser_navigate", url="data:text/html,<h1>good</h1>")
            assert not answer.get("isError"), answer
            family = Family(mark, agent.process.pid)
            family.check()
            for named in ("cli.js", "--user-data-dir="):
                assert family.environs(named), named


@pytest.mark.parametrize("name", ["PACKET_PROXY_ACCESS_TOKEN", "PILOTHOUSE_HTTP_TOKEN", "A=b"])
def test_what_no_worker_gets_cannot_be_named(sockets: Path, mark: str, name: str) -> None:
    with relay_home(sockets, mark) as home, home.raw("--worker-env", name) as relay:
        assert relay.process.wait(60) == 2
        assert f"--worker-env: {'expected' if '=' in name else name}" in relay.log()
