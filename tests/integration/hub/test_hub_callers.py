"""Who may call a hub, and how often."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from tests.support.http_agent import HttpAgent, told
from tests.support.issuer import ec_key
from tests.support.production import HOST, PUBLIC, production_server
from tests.support.servers import PRODUCT, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.issuer import Issuer


@pytest.fixture(scope="module")
def production(issuer: Issuer) -> Iterator[Server]:
    with production_server(issuer, module=PRODUCT, PILOTHOUSE_RATE_CALLS_PER_MIN="20") as server:
        yield server


def agent_of(production: Server, token: str) -> HttpAgent:
    return HttpAgent(production.url, token=token, host=HOST)


GUARDED = ("/mcp", "/message", "/mcp/window", "/status", "/metrics", "/api/overview", "/api/stream")


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_good_token_nobody_gets_in(production: Server, issuer: Issuer, path: str) -> None:
    for token in ("", "opaque", issuer.mint(exp=1), issuer.mint(aud="https://other.example")):
        agent = agent_of(production, token)
        for answer in (agent.http.get(path), agent.http.post(path, json={})):
            assert answer.status_code == 401
            challenge = answer.headers["www-authenticate"]
            assert f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource' in challenge
    refused = agent_of(production, issuer.mint(scope="other")).http.post(path, json={})
    assert refused.status_code == 403
    assert "insufficient_scope" in refused.headers["www-authenticate"]


def test_who_is_well_and_where_tokens_come_from_everybody_may_know(
    production: Server, issuer: Issuer
) -> None:
    headers = {"host": HOST}
    assert httpx.get(f"{production.url}/health", headers=headers).json()["status"] == "ok"
    assert httpx.get(production.url, headers=headers).status_code == 200
    for suffix in ("", "/mcp", "/message"):
        url = f"{production.url}/.well-known/oauth-protected-resource{suffix}"
        document = httpx.get(url, headers=headers).json()
        assert document["resource"].startswith(PUBLIC)
        assert [s.rstrip("/") for s in document["authorization_servers"]] == [issuer.url]


def test_a_session_of_another_principal_is_as_unknown_as_none(
    production: Server, issuer: Issuer
) -> None:
    ann = agent_of(production, issuer.mint(sub="ann")).open()
    assert not ann.call("status")["isError"]
    bob = agent_of(production, issuer.mint(sub="bob"))
    bob.session = ann.session
    foreign = bob.post("tools/call", {"name": "status"})
    bob.session = "7e0f7c62-41f2-4a6b-9f55-0b7a1b8f5a11"
    unknown = bob.post("tools/call", {"name": "status"})
    assert (foreign.status_code, foreign.content) == (404, unknown.content)
    assert unknown.status_code == 404
    bob.session = ann.session
    assert bob.end() == 404
    assert not ann.call("status")["isError"]


def test_a_modern_caller_is_known_by_its_principal(production: Server, issuer: Issuer) -> None:
    sessions = {}
    for name in ("ann", "bob"):
        agent = agent_of(production, issuer.mint(sub=name))
        answers = [told(agent.modern("status", path))["result"] for path in ("/mcp", "/mcp/same")]
        sessions[name] = len(answers)
        assert not any(answer["isError"] for answer in answers)
    # Two principals with two keys each.
    text = agent.http.get("/metrics").text
    running = next(line for line in text.splitlines() if line.startswith("pilothouse_workers "))
    assert float(running.split()[1]) >= 4


def test_who_calls_too_often_is_told_when_to_come_back_and_others_are_not(
    production: Server, issuer: Issuer
) -> None:
    agent = agent_of(production, issuer.mint(sub="eager")).open()
    assert not any(agent.call("status")["isError"] for _ in range(20))
    refused = agent.post("tools/call", {"name": "status"})
    assert refused.status_code == 200
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    result = told(refused)["result"]
    assert result["isError"]
    assert result["structuredContent"]["error"]["type"] == "rate_limited"
    other = agent_of(production, issuer.mint(sub="patient")).open()
    assert not other.call("status")["isError"]
    assert 'pilothouse_tool_calls_total{error="rate_limited"' in other.http.get("/metrics").text


def test_https_is_served_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    key = ec_key("tls")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    cert, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    trust = ssl.create_default_context(cafile=str(cert))
    flags = ("--tls-cert", str(cert), "--tls-key", str(private))
    for how in ((), ("--standalone",)):
        with http_server(*flags, *how, module=PRODUCT) as hub:
            assert hub.url.startswith("https://")
            agent = HttpAgent(hub.url, verify=trust).open()
            assert not agent.call("status")["isError"]
            assert f"{hub.url}/mcp" in agent.http.get("/status").text
            with pytest.raises(httpx.TransportError):
                httpx.get(hub.url.replace("https", "http"))
