"""Production over HTTP: tokens decide who calls, sessions belong to whoever opened them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.production import HOST, PUBLIC, production_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.issuer import Issuer
    from tests.support.servers import Server

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
STATUS = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "status"}}


@pytest.fixture(scope="module")
def production(issuer: Issuer) -> Iterator[Server]:
    with production_server(issuer, "--profile", "full") as server:
        yield server


def post(
    server: Server, message: Any, token: str = "", path: str = "/mcp", **headers: str
) -> httpx.Response:
    sent = {"accept": "application/json, text/event-stream", "host": HOST}
    if token:
        sent["authorization"] = f"Bearer {token}"
    return httpx.post(f"{server.url}{path}", json=message, headers={**sent, **headers})


@pytest.mark.parametrize("path", ["/mcp", "/message"])
def test_without_a_good_token_nobody_gets_in(production: Server, issuer: Issuer, path: str) -> None:
    for token in ("", "opaque", issuer.mint(exp=1), issuer.mint(aud="https://other.example")):
        response = post(production, INITIALIZE, token, path)
        assert response.status_code == 401
        challenge = response.headers["www-authenticate"]
        assert challenge.startswith("Bearer")
        assert f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource' in challenge
    missing = post(production, INITIALIZE, issuer.mint(scope="other"), path)
    assert missing.status_code == 403
    assert "insufficient_scope" in missing.headers["www-authenticate"]
    assert post(production, INITIALIZE, issuer.mint(), path).status_code == 200


def test_the_resource_metadata_names_issuer_and_scope(production: Server, issuer: Issuer) -> None:
    for suffix in ("", "/mcp", "/message"):
        url = f"{production.url}/.well-known/oauth-protected-resource{suffix}"
        document = httpx.get(url, headers={"host": HOST}).json()
        assert document["resource"].startswith(PUBLIC)
        assert [s.rstrip("/") for s in document["authorization_servers"]] == [issuer.url]
        assert document["scopes_supported"] == ["mcp:execute"]


def test_a_session_of_one_principal_is_unknown_to_another(
    production: Server, issuer: Issuer
) -> None:
    alice, bob = issuer.mint(sub="alice"), issuer.mint(sub="bob")
    opened = post(production, INITIALIZE, alice)
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    assert post(production, STATUS, alice, **session).status_code == 200
    assert post(production, STATUS, bob, **session).status_code == 404
    unknown = post(production, STATUS, bob, **{"mcp-session-id": "0" * 32})
    assert unknown.status_code == 404


def test_only_health_and_the_empty_page_are_open(production: Server, issuer: Issuer) -> None:
    host = {"host": HOST}
    for path in ("/health", "/"):
        assert httpx.get(f"{production.url}{path}", headers=host).status_code == 200
    for path in ("/metrics", "/status", "/api/overview"):
        assert httpx.get(f"{production.url}{path}", headers=host).status_code == 401
        headers = {**host, "authorization": f"Bearer {issuer.mint()}"}
        assert httpx.get(f"{production.url}{path}", headers=headers).status_code == 200


def test_foreign_hosts_stay_refused_when_bound_to_every_address(
    production: Server, issuer: Issuer
) -> None:
    assert post(production, INITIALIZE, issuer.mint(), host="evil.example").status_code == 421
    refused = post(production, INITIALIZE, issuer.mint(), origin="https://evil.example")
    assert refused.status_code == 403
    assert post(production, INITIALIZE, issuer.mint(), origin=PUBLIC).status_code == 200


def test_limits_are_on_and_count_for_each_principal(production: Server, issuer: Issuer) -> None:
    # A session that is refused at once, so that only its counting is seen.
    no_app = {"url": "http://192.168.0.1/"}
    message = {**STATUS, "params": {"name": "startSession", "arguments": no_app}}
    carol, dave = issuer.mint(sub="carol"), issuer.mint(sub="dave")

    def refused(token: str) -> bool:
        answer = post(production, message, token, "/message").json()
        kind = answer["result"]["structuredContent"]["error"]["type"]
        assert kind in ("url_not_allowed", "rate_limited")
        return bool(kind == "rate_limited")

    assert [refused(carol) for _ in range(11)] == [False] * 10 + [True]
    assert refused(dave) is False
