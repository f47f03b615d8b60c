"""Another user of the machine against every HTTP listener: refused, unless it has the token."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.agent import Agent
from tests.support.command_line import run
from tests.support.http_agent import HttpAgent
from tests.support.ports import free_port
from tests.support.second_user import left_by_another_user, needs_root, sent_by_another_user
from tests.support.servers import PRODUCT, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_S = 60.0
SET = "a-token-that-was-set-0123456789"
OK = b"HTTP/1.1 200 "
BAD = "Authorization: Bearer wrong"
NAMES_BOTH_WAYS = ("connect as that user", "Authorization: Bearer")


def request(path: str, *headers: str, method: str = "GET", body: bytes = b"") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def start_message(marker: Path) -> dict[str, Any]:
    """The call that runs a command, which leaves a file."""
    arguments = {"command": ["/usr/bin/touch", str(marker)], "cwd": str(marker.parent)}
    params = {"name": "startSession", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def start_of(marker: Path) -> bytes:
    """The same as a whole request, in the form that needs no session before it."""
    accept = "Accept: application/json, text/event-stream"
    body = json.dumps(start_message(marker)).encode()
    return request("/message", "Content-Type: application/json", accept, method="POST", body=body)


def refused(answer: bytes) -> None:
    """It is a 403 that names both ways to be let in."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 "), answer
    why = json.loads(body)["error"]["message"]
    assert all(way in why for way in NAMES_BOTH_WAYS), why


def token_of(home: str | Path, *flags: str) -> str:
    done = run("token", *flags, env={"PILOTHOUSE_HOME": str(home)})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module", params=["hub", "standalone", "e2e"])
def served(request: pytest.FixtureRequest, home: Path) -> Iterator[Server]:
    """Each way of serving HTTP."""
    ways: dict[str, dict[str, Any]] = {
        "hub": {},
        "standalone": {"args": ["--standalone"]},
        "e2e": {"command": "e2e", "args": ["--transport", "http"]},
    }
    way = ways[request.param]
    folder = home / request.param
    # Where the tests' commands may be run.
    env = {"PILOTHOUSE_HOME": str(folder), "PILOTHOUSE_ROOTS": str(home.parent)}
    args, command = way.get("args", ()), way.get("command", "serve")
    with http_server(*args, module=PRODUCT, command=command, env=env) as server:
        yield server


@needs_root
@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/status", "/api/overview", "/mcp"])
def test_another_user_gets_403_with_both_ways_on_every_path(served: Server, path: str) -> None:
    refused(sent_by_another_user(served.port, request(path)))
    assert httpx.get(f"{served.url}/health").status_code == 200


@needs_root
def test_a_command_of_another_user_is_not_run(served: Server, tmp_path: Path) -> None:
    refused(sent_by_another_user(served.port, start_of(tmp_path / "ran")))
    assert not (tmp_path / "ran").exists()


@needs_root
def test_a_command_of_another_user_who_is_gone_at_once_is_not_run(
    served: Server, tmp_path: Path
) -> None:
    """The server is held up until then: it takes a connection whose other end is nobody's, which
    the kernel shows as root's."""
    os.kill(served.process.pid, signal.SIGSTOP)
    try:
        left_by_another_user(served.port, start_of(tmp_path / "ran"))
    finally:
        os.kill(served.process.pid, signal.SIGCONT)
    # Ours comes after it and is run, so that by then that one would have been.
    own = httpx.post(
        f"{served.url}/message",
        json=start_message(tmp_path / "own"),
        headers={"accept": "application/json, text/event-stream"},
        timeout=GUARD_S,
    )
    assert own.status_code == 200, own.text
    assert (tmp_path / "own").exists()
    assert not (tmp_path / "ran").exists()


@needs_root
def test_another_user_gets_in_with_the_token_of_the_home(served: Server) -> None:
    home = served.process.environ["PILOTHOUSE_HOME"]
    without = sent_by_another_user(served.port, request("/status", "Authorization: Bearer x"))
    refused(without)
    token = token_of(home, "--http")
    file = Path(home) / "http" / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    bearer = f"Authorization: Bearer {token}"
    assert sent_by_another_user(served.port, request("/status", bearer)).startswith(OK)
    visited = sent_by_another_user(served.port, request(f"/status?token={token}"))
    assert visited.startswith(b"HTTP/1.1 303 ")
    (cookie,) = re.findall(rb"(?i)set-cookie: ([^;]+); Path=/; HttpOnly; SameSite=Strict", visited)
    kept = f"Cookie: {cookie.decode()}"
    assert sent_by_another_user(served.port, request("/status", kept)).startswith(OK)
    refused(sent_by_another_user(served.port, request("/mcp", kept)))
    assert token_of(home, "--http", "--new") != token
    refused(sent_by_another_user(served.port, request("/status", bearer)))
    assert all(token not in line for line in served.lines)


def test_where_all_local_users_may_come_our_own_user_needs_the_token_too(tmp_path: Path) -> None:
    token = token_of(tmp_path, "--http")
    env = {"PILOTHOUSE_HOME": str(tmp_path)}
    with http_server("--local-users", "all", module=PRODUCT, env=env) as server:
        without = httpx.get(f"{server.url}/health")
        assert without.status_code == 403
        assert "asks every local user" in without.json()["error"]["message"]
        assert HttpAgent(server.url, token=token).open().call("status")["isError"] is False


@pytest.mark.parametrize("flags", [(), ("--standalone",)], ids=["hub", "standalone"])
def test_a_token_that_was_set_decides_whoever_asks(tmp_path: Path, flags: tuple[str, ...]) -> None:
    env = {"PILOTHOUSE_HOME": str(tmp_path), "PILOTHOUSE_HTTP_TOKEN": SET}
    with http_server(*flags, module=PRODUCT, env=env) as server:
        assert httpx.get(f"{server.url}/health").status_code == 200
        for path in ("/mcp", "/metrics", "/api/overview"):
            without = httpx.get(f"{server.url}{path}", headers={"accept": "text/event-stream"})
            assert without.status_code == 401
            assert without.headers["www-authenticate"].startswith("Bearer")
        agent = HttpAgent(server.url, token=SET).open()
        assert agent.call("status")["isError"] is False
        if os.geteuid() == 0:
            bearer = f"Authorization: Bearer {SET}"
            assert sent_by_another_user(server.port, request("/metrics", bearer)).startswith(OK)
        with httpx.Client(base_url=server.url, follow_redirects=True) as browser:
            assert browser.get("/status", params={"token": SET}).status_code == 200
            assert browser.get("/api/overview").status_code == 200
            assert browser.post("/mcp", json={}).status_code == 401
    assert all(SET not in line for line in server.lines)


@pytest.mark.parametrize(
    ("flags", "token", "names"),
    [
        (("--host", "0.0.0.0"), SET, "--tls-cert"),
        (("--host", "0.0.0.0", "--public-url", "http://pilot.example"), SET, "--tls-cert"),
        (("--host", "0.0.0.0", "--public-url", "https://pilot.example"), "short", "characters"),
        ((), "two words", "without spaces"),
        (("--oauth-issuer", "https://login.example"), SET, "not both"),
        (("--environment", "production"), "", "PILOTHOUSE_HTTP_TOKEN"),
    ],
)
def test_a_token_that_cannot_guard_the_address_is_refused_at_the_start(
    tmp_path: Path, flags: tuple[str, ...], token: str, names: str
) -> None:
    oauth = {"OAUTH_AUDIENCE": "a", "OAUTH_JWKS_URL": "https://login.example/keys"}
    env = {"PILOTHOUSE_HOME": str(tmp_path), "PILOTHOUSE_HTTP_TOKEN": token}
    env |= oauth if "--oauth-issuer" in flags else {}
    done = run("serve", "--port", "0", *flags, env=env)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert names in done.stderr
    assert not token or token not in done.stderr


def test_a_set_token_with_a_public_https_name_serves_other_addresses(tmp_path: Path) -> None:
    env = {
        "PILOTHOUSE_HOME": str(tmp_path),
        "PILOTHOUSE_HTTP_TOKEN": SET,
        "PILOTHOUSE_PUBLIC_URL": "https://pilot.example",
        "PILOTHOUSE_ENV": "production",
    }
    with http_server("--host", "0.0.0.0", module=PRODUCT, env=env) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        agent = HttpAgent(url, token=SET, host="pilot.example").open()
        assert agent.call("status")["isError"] is False
        assert HttpAgent(url, host="pilot.example").post("ping").status_code == 401


@needs_root
def test_the_metrics_beside_a_client_on_stdio_are_closed_to_another_user() -> None:
    port = free_port()
    with Agent("--metrics-port", str(port)) as agent:
        assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
        refused(sent_by_another_user(port, request("/metrics")))
        assert agent.call("status")


@needs_root
def test_rest_api_and_config_endpoint_are_closed_to_another_user_without_their_token(
    served: Server,
) -> None:
    if "e2e" in served.process.args:
        services = httpx.get(f"{served.url}/health").json()["services"]
        assert not {"REST API", "config endpoint"} & services.keys()
        return
    token = token_of(served.process.environ["PILOTHOUSE_HOME"])
    agent = HttpAgent(served.url).open()
    assert agent.call("get_config", access_token=token)["isError"] is False
    services = agent.http.get("/health").json()["services"]
    for name, path in (("REST API", "/openapi.json"), ("config endpoint", "/config")):
        port = int(services[name].rpartition(":")[2])
        for ask in (request(path), request(path, method="OPTIONS"), request(path, BAD)):
            refused(sent_by_another_user(port, ask))
        with_token = request(path, f"Authorization: Bearer {token}")
        assert sent_by_another_user(port, with_token).startswith(OK)
