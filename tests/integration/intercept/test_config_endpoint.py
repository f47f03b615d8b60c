"""The endpoint for configurations over a real socket: who gets in, and what is answered."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn

from pilothouse.core.net.origins import OriginPolicy
from pilothouse.core.secrets.check import MAX_FAILURES
from pilothouse.intercept.config.store import ConfigStore
from pilothouse.intercept.model import EngineUnreachable, ReadOnly, TokenRefused
from pilothouse.intercept.rest.config_endpoint import config_app
from pilothouse.intercept.rest.json_body import MAX_BYTES
from pilothouse.intercept.token import FORM, make_token, token_check
from pilothouse.machine.secret_file import SecretFile
from pilothouse.server.transports.edge import OriginGuard
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

    from pilothouse.core.secrets.check import SecretCheck

GUARD_S = 30.0
EMPTY: dict[str, Any] = {
    "listenPorts": [],
    "servers": [],
    "modifications": [],
    "sslPassThroughs": [],
}


@dataclass
class Service:
    """The endpoint's service on a real store and real tokens, without an engine."""

    store: ConfigStore
    tokens: SecretCheck
    read_only: bool = False
    engine_is_down: bool = False

    async def admit(self, token: str | None, *, writes: bool = False) -> None:
        if not self.tokens.check(token):
            raise TokenRefused("the access token is missing or wrong")
        if writes and self.read_only:
            raise ReadOnly("started with --read-only")

    async def config(self) -> dict[str, list[dict[str, Any]]]:
        return self.store.load().dump()

    async def update_config(self, config: dict[str, Any], *, backup: bool) -> dict[str, Any]:
        if self.engine_is_down:
            raise EngineUnreachable("the engine does not answer")
        done = self.store.replace(config, backup=backup)
        return {"config_updated": True, "backup_info": done.backup_info}


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started, "the start of the endpoint")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(GUARD_S)


def service_in(folder: Path) -> Service:
    tokens = token_check(SecretFile(folder / "token", FORM, make_token))
    return Service(ConfigStore(folder, lambda: time.time() * 1000), tokens)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    """One endpoint for all tests; each gives its service a folder of its own."""
    service = service_in(tmp_path_factory.mktemp("first"))
    with serving(config_app(service, lambda app: OriginGuard(app, OriginPolicy()))) as base:
        yield base, service


@pytest.fixture
def url(served: tuple[str, Service]) -> str:
    return served[0]


@pytest.fixture
def service(served: tuple[str, Service], tmp_path: Path) -> Service:
    vars(served[1]).update(vars(service_in(tmp_path)))
    return served[1]


@pytest.fixture
def connected(served: tuple[str, Service]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served[0], timeout=GUARD_S, trust_env=False) as made:
        yield made


@pytest.fixture
def client(connected: httpx.Client, service: Service) -> httpx.Client:
    """A client of the endpoint, whose service is this test's own."""
    return connected


@pytest.fixture
def allowed(service: Service) -> dict[str, str]:
    """The header that lets a request in."""
    return {"Authorization": service.tokens.secret.value()}


def error_of(answer: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


@pytest.mark.parametrize("form", ["{}", "Bearer {}", "bearer {}", "Bearer   {}"])
def test_the_token_lets_a_reader_in_with_and_without_bearer(
    client: httpx.Client, service: Service, form: str
) -> None:
    header = form.format(service.tokens.secret.value())
    answer = client.get("/config", headers={"Authorization": header})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == service.store.load().dump()
    assert answer.text.startswith('{\n  "listenPorts": [\n'), "for people to read"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "{}a", "{:.19}", "Basic {}", "Bearer Bearer {}"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_without_the_token_every_request_is_refused_alike(
    client: httpx.Client, service: Service, method: str, header: str | None
) -> None:
    token = service.tokens.secret.value()
    headers = {} if header is None else {"Authorization": header.format(token)}
    answer = client.request(method, "/config", headers=headers, json=EMPTY)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert error_of(answer) == {
        "code": -32005,
        "message": "the access token is missing or wrong",
        "data": {"details": "the access token is missing or wrong"},
    }
    assert service.store.backups() == []


def test_two_tokens_are_none(client: httpx.Client, allowed: dict[str, str]) -> None:
    both = [("Authorization", allowed["Authorization"]), ("Authorization", "x")]
    assert client.get("/config", headers=both).status_code == 401


def test_after_many_wrong_tokens_the_endpoint_says_when_to_come_back(
    client: httpx.Client, allowed: dict[str, str]
) -> None:
    for _ in range(MAX_FAILURES):
        wrong = client.get("/config", headers={"Authorization": "wrong"})
        assert wrong.status_code == 401
    answer = client.get("/config", headers=allowed)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert error_of(answer)["code"] == -32005


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_configuration_is_replaced_with_a_backup(
    client: httpx.Client, service: Service, allowed: dict[str, str], method: str
) -> None:
    body = {**EMPTY, "servers": [{"id": 3, "ip": "a.test", "port": 1}]}
    headers = {**allowed, "X-Suppress-Dialog": "true"}
    answer = client.request(method, "/config", headers=headers, json=body)
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    assert answer.json()["config_updated"] is True
    assert [one["backup_id"] for one in service.store.backups()] == [
        answer.json()["backup_info"]["backup_id"]
    ]
    assert client.get("/config", headers=allowed).json()["servers"][0]["id"] == 3


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"{} {}", b"[" * 200_000])
def test_a_body_that_is_no_json_is_refused(
    client: httpx.Client, service: Service, allowed: dict[str, str], body: bytes
) -> None:
    answer = client.put("/config", headers=allowed, content=body)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == -32700
    assert "not JSON" in error_of(answer)["message"]
    assert service.store.backups() == []


@pytest.mark.parametrize("body", [{}, [], "x", {**EMPTY, "servers": [{"ip": "a", "port": 0}]}])
def test_a_configuration_that_is_not_sound_is_refused_with_the_place(
    client: httpx.Client, service: Service, allowed: dict[str, str], body: Any
) -> None:
    answer = client.post("/config", headers=allowed, json=body)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == -32004
    assert error_of(answer)["data"]["path"] in ("config", "listenPorts", "servers[0].port")
    assert service.store.backups() == []


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 3 * MAX_BYTES])
def test_a_body_that_is_too_large_is_refused(
    client: httpx.Client, allowed: dict[str, str], size: int
) -> None:
    answer = client.put("/config", headers=allowed, content=b" " * size)
    assert answer.status_code == 413
    assert str(MAX_BYTES) in error_of(answer)["message"]


def test_a_preflight_is_answered_without_letting_any_page_in(
    client: httpx.Client, url: str
) -> None:
    own = {"Origin": url, "Access-Control-Request-Private-Network": "true"}
    for headers in ({}, own):
        answer = client.options("/config", headers=headers)
        assert answer.status_code == 204
        assert answer.headers["allow"] == "GET, POST, PUT, OPTIONS"
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "OPTIONS"])
@pytest.mark.parametrize("origin", ["https://evil.test", "null", "http://localhost:3000"])
def test_a_page_of_another_site_is_refused_even_with_the_token(
    client: httpx.Client, allowed: dict[str, str], method: str, origin: str
) -> None:
    answer = client.request(method, "/config", headers={**allowed, "Origin": origin})
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_another_host_name_is_refused_even_with_the_token(
    client: httpx.Client, allowed: dict[str, str]
) -> None:
    answer = client.get("/config", headers={**allowed, "Host": "rebound.test"})
    assert answer.status_code == 421


@pytest.mark.parametrize("path", ["/", "/configs", "/config/1", "/Config", "/backup/x.json"])
def test_there_is_nothing_at_other_paths(
    client: httpx.Client, allowed: dict[str, str], path: str
) -> None:
    answer = client.get(path, headers=allowed)
    assert answer.status_code == 404
    assert "/config takes GET" in error_of(answer)["message"]


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "PROPFIND"])
def test_other_methods_are_not_allowed(
    client: httpx.Client, allowed: dict[str, str], method: str
) -> None:
    answer = client.request(method, "/config", headers=allowed)
    assert answer.status_code == 405
    assert "PUT" in answer.headers["allow"]


def test_read_only_refuses_writers_and_lets_readers_in(
    client: httpx.Client, service: Service, allowed: dict[str, str]
) -> None:
    service.read_only = True
    assert client.get("/config", headers=allowed).status_code == 200
    answer = client.put("/config", headers=allowed, json=EMPTY)
    assert answer.status_code == 403
    assert error_of(answer)["code"] == -32005
    assert service.store.backups() == []


def test_an_engine_that_does_not_answer_is_said(
    client: httpx.Client, service: Service, allowed: dict[str, str]
) -> None:
    service.engine_is_down = True
    answer = client.put("/config", headers=allowed, json=EMPTY)
    assert answer.status_code == 503
    assert error_of(answer)["code"] == -32001


def test_what_was_read_can_be_written_back_unchanged(
    client: httpx.Client, service: Service, allowed: dict[str, str]
) -> None:
    text = "é\u2028\u0000<script>"
    rule = {"direction": "ALL", "method": "SIMPLE", "pattern": text, "replaced": text}
    client.put("/config", headers=allowed, json={**EMPTY, "modifications": [rule]})
    before = client.get("/config", headers=allowed)
    assert client.post("/config", headers=allowed, content=before.content).status_code == 200
    after = client.get("/config", headers=allowed)
    assert after.content == before.content
    assert json.loads(after.content)["modifications"][0]["pattern"] == text
