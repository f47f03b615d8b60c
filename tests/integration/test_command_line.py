"""The command line: one clear line for each mistake, exit code 2, nothing half-started."""

from __future__ import annotations

import json
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from pilothouse import __version__
from tests.support.command_line import run
from tests.support.second_user import needs_root
from tests.support.second_user_child import UID as ANOTHER
from tests.support.servers import FIXTURE_APP, RawStdio, http_server

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MISTAKES: dict[str, tuple[list[str], dict[str, str], str]] = {
    "unknown flag": (["serve", "--prot", "1"], {}, "did you mean --port?"),
    "unknown command": (["srve"], {}, "did you mean serve?"),
    "port not a number": (["serve", "--port", "http"], {}, "--port: expected a whole number"),
    "port out of range": (["serve", "--port", "70000"], {}, "--port: expected 0 to 65535"),
    "bad variable": (["serve"], {"CDP_PORT": "x"}, "CDP_PORT: expected a whole number"),
    "bad group": (["--tools", "observe,nope"], {}, "--tools: expected one of observe"),
    "bad level": (["serve"], {"LOG_LEVEL": "loud"}, "LOG_LEVEL: expected one of debug"),
    "bad mode": (["serve"], {"PILOTHOUSE_ENV": "staging"}, "PILOTHOUSE_ENV: expected one of"),
    "bad transport": (
        ["e2e"],
        {"TRANSPORT_MODE": "carrier pigeon"},
        "TRANSPORT_MODE: expected one",
    ),
    "bad pattern": (["--redact", "(?<=x)y"], {}, "not an RE2 pattern"),
    "bad boolean": (["observe"], {"CDP_SECURITY_LOCALONLY": "maybe"}, "expected true or false"),
    "open to the world": (["serve", "--host", "0.0.0.0"], {}, "without authentication"),
    "production unprotected": (["serve"], {"NODE_ENV": "production"}, "needs OAUTH_ISSUER"),
    "half an issuer": (["serve"], {"OAUTH_ISSUER": "https://i.example"}, "must be set together"),
    "address not ours": (["serve", "--host", "127.0.0.300"], {}, "127.0.0.300"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_names_it_and_exit_code_two(mistake: str) -> None:
    args, env, expected = MISTAKES[mistake]
    done = run(*args, env=env)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("pilothouse: ")
    assert expected in lines[0]


def test_a_taken_port_names_its_holder() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = run("serve", "--port", str(port))
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert f"pid {os.getpid()}" in done.stderr
    assert "--port" in done.stderr


def test_a_default_port_that_is_taken_makes_room_for_the_next() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        env = {"PILOTHOUSE_HTTP_PORT": str(port)}
        with http_server("--profile", "default", env=env, own_port=False) as server:
            assert port < server.port < port + 50


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("serve", env={"PILOTHOUSE_HOME": str(tmp_path / "file" / "home")})
    assert done.returncode == 2
    assert "PILOTHOUSE_HOME" in done.stderr


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def token_in(home: Path) -> subprocess.CompletedProcess[str]:
    """Run the quickest command that keeps something."""
    return run("token", env={"PILOTHOUSE_HOME": str(home)})


@pytest.mark.parametrize("mode", [None, 0o755, 0o2775, 0o777, 0o700])
def test_a_home_that_is_missing_or_empty_is_for_its_user_alone(
    tmp_path: Path, mode: int | None
) -> None:
    home = tmp_path / "a" / "home"
    if mode is not None:
        home.mkdir(parents=True)
        home.chmod(mode)
    assert token_in(home).returncode == 0
    assert mode_of(home) & 0o777 == 0o700
    assert mode_of(home / "sessions") & 0o777 == 0o700


def test_a_home_that_we_made_is_closed_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert token_in(home).returncode == 0
    home.chmod(0o755)
    again = token_in(home)
    assert (again.returncode, mode_of(home)) == (0, 0o700)


@pytest.mark.parametrize(
    "command", [("token",), ("serve",), ("--standalone",), (), ("status",), ("pair",), ("ca",)]
)
def test_a_folder_of_others_is_no_home_and_stays_as_it_is(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions").chmod(0o755)
    (tmp_path / "hub").symlink_to("/")
    tmp_path.chmod(0o750)
    done = run(*command, env={"PILOTHOUSE_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "PILOTHOUSE_HOME" in done.stderr
    assert f"{tmp_path} is open to other users (mode 0750)" in done.stderr
    assert "chmod 700" in done.stderr
    assert mode_of(tmp_path) == 0o750
    assert sorted(one.name for one in tmp_path.iterdir()) == ["hub", "sessions"]
    tmp_path.chmod(0o700)
    assert token_in(tmp_path).returncode == 0


@needs_root
def test_the_folder_of_another_user_is_no_home(tmp_path: Path) -> None:
    os.chown(tmp_path, ANOTHER, -1)
    done = token_in(tmp_path)
    os.chown(tmp_path, os.geteuid(), -1)
    assert done.returncode == 2
    assert f"{tmp_path} belongs to another user" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_all_may_write_is_no_home(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    done = token_in(tmp_path)
    assert done.returncode == 2
    assert "open to other users (mode 1777)" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_lists_commands_and_every_flag_with_its_variable() -> None:
    top = run("--help")
    assert top.returncode == 0
    for command in ("serve", "observe", "e2e", "intercept", "bookmarks", "call", "doctor"):
        assert f"\n  {command} " in top.stdout
    observe = run("observe", "--help").stdout
    for flag in ("--host", "--port", "--buffer-size", "--ttl-sec", "--no-localonly", "CDP_PORT"):
        assert flag in observe
    assert run("--version").stdout == f"pilothouse {__version__}\n"


def test_a_group_command_serves_its_group_alone_with_its_own_flags() -> None:
    args = [
        "observe",
        "--host",
        "127.0.0.1",
        "--port",
        "9333",
        "--buffer-size",
        "5",
        "--no-localonly",
    ]
    with RawStdio(*args) as server:
        assert server.initialize()["result"]["serverInfo"]["name"] == "pilothouse"
        tools = {tool["name"] for tool in server.request("tools/list")["result"]["tools"]}
    assert {"echo_code", "echo_bare"} <= tools
    assert not tools & {"echoType", "echo_number"}


def test_tools_and_profile_choose_what_is_listed() -> None:
    def listed(*args: str) -> set[str]:
        with RawStdio(*args) as server:
            server.initialize()
            return {tool["name"] for tool in server.request("tools/list")["result"]["tools"]}

    groups = listed("--tools", "intercept,observe")
    assert {"status", "show_page", "echo_code", "cdp_observe", "get_history"} <= groups
    assert not groups & {"startSession", "bulk_send"}
    assert "bulk_send" in listed("--tools", "intercept", "--profile", "full")
    with RawStdio("--output-schema", env={"PILOTHOUSE_TOOLS": "intercept"}) as server:
        server.initialize()
        tools = server.request("tools/list")["result"]["tools"]
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools)


def test_transport_mode_http_serves_a_group_over_http() -> None:
    with http_server(command="e2e", env={"TRANSPORT_MODE": "http"}) as server:
        import httpx

        health = httpx.get(f"{server.url}/health").json()
    assert health["status"] == "ok"
    assert health["uptime"] >= 0
    assert health["activeSessions"] == 0
    assert health["memory"]["rss"] > 1_000_000


def test_serve_prints_the_line_for_each_client() -> None:
    with http_server(module="pilothouse") as server:
        said = "\n".join(server.lines)
        for client in ("Claude Code", "Cursor", "VS Code", "Codex", "Gemini CLI"):
            assert client in said
        assert f"claude mcp add --transport http pilothouse {server.url}/mcp" in said


def test_call_runs_a_tool_and_its_exit_code_says_how_it_went() -> None:
    fine = run("call", "echo_code", '{"text": "hi"}', module=FIXTURE_APP)
    assert (fine.returncode, json.loads(fine.stdout)) == (0, {"said": ["hi"], "mood": "calm"})
    piped = run("call", "echo_number", "-", module=FIXTURE_APP, input='{"packet_id": 7}')
    assert json.loads(piped.stdout) == {"packet_id": 7}
    failed = run("call", "echo_number", '{"packet_id": 404}', module=FIXTURE_APP)
    assert failed.returncode == 1
    assert json.loads(failed.stdout)["error"]["code"] == -32003
    progress = run("call", "longWork", '{"count": 2}', module=FIXTURE_APP)
    assert "2/2 step 2" in progress.stderr
    structured = run("call", "status", "{}", "--structured")
    assert json.loads(structured.stdout)["version"] == __version__


def test_call_helps_whoever_does_not_know_the_tool() -> None:
    listed = run("call", module=FIXTURE_APP)
    assert "echo_code" in listed.stdout
    described = run("call", "echo_code", "--schema", module=FIXTURE_APP)
    assert "text" in described.stdout
    assert "required" in described.stdout
    assert "pilothouse call echo_code" in described.stdout
    for args, expected in (
        (["call", "echo_cod"], "did you mean echo_code?"),
        (["call", "echo_code", "{"], "not JSON"),
        (["call", "echo_code", "[]"], "must be a JSON object"),
    ):
        wrong = run(*args, module=FIXTURE_APP)
        assert wrong.returncode == 2
        assert expected in wrong.stderr
