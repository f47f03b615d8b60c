"""The OAuth resource server, through a real server and a real issuer on loopback."""

import asyncio
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import anyio
import httpx2
import pytest
import uvicorn
from anyio.to_thread import run_sync
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from pilothouse.server.transports import oauth
from pilothouse.server.transports.oauth import BearerAuth, JwtVerifier, OAuthConfig
from pilothouse.server.transports.principal import principal_of
from tests.support.issuer import (
    AUDIENCE,
    FORBIDDEN,
    GOOD,
    ODD_JWKS,
    REFUSED,
    RSA_PEM,
    Issuer,
    compact,
    hmac_signed,
    rsa_key,
    signer,
    token,
)
from tests.support.rounds import examples

pytestmark = pytest.mark.anyio

# Ahead of the real clock, because the SDK's middleware compares expires_at with the real one: a
# token at the edge of our leeway must stay at that edge however long the run takes.
NOW = int(time.time()) + 3600


@dataclass
class FakeClock:
    now: float = float(NOW)

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Site:
    url: str
    issuer: Issuer
    stranger: Issuer

    client: httpx2.Client

    def get(
        self, *authorization: str, params: dict[str, str] | None = None, cookie: str = ""
    ) -> httpx2.Response:
        headers = [(b"authorization", value.encode()) for value in authorization]
        headers += [(b"cookie", cookie.encode())] if cookie else []
        return self.client.get(self.url, headers=headers, params=params)


async def whoami(scope: Scope, receive: Receive, send: Send) -> None:
    token = get_access_token()
    answer = {"principal": principal_of(scope), "subject": token and token.subject}
    await JSONResponse(answer)(scope, receive, send)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One protected endpoint under uvicorn, its issuer, and an issuer it does not trust."""
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio sets this only on sockets made with proto=IPPROTO_TCP; without it each answer in two
    # writes waits 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    with (
        Issuer(lambda: NOW, audience=url) as issuer,
        Issuer(lambda: NOW, audience=url) as stranger,
    ):
        stranger.keys = {"rsa": rsa_key("stranger"), "theirs": rsa_key("stranger")}
        issuer.stranger_url = stranger.jwks_url
        issuer.extra_jwks = ODD_JWKS
        config = OAuthConfig(issuer.url, audience=url, jwks_url=issuer.jwks_url)
        gate = BearerAuth(config, url.removesuffix("/mcp"), JwtVerifier(config, clock=lambda: NOW))
        endpoint = gate.protect(whoami, "/mcp")
        routes = [Route("/mcp", endpoint), WebSocketRoute("/ws", endpoint)]
        app = Starlette(routes=[*routes, *gate.metadata_routes(["/mcp"])])
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", lifespan="off", ws="websockets-sansio")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        # Each request has a connection of its own: none of a test is left to the next.
        limits = httpx2.Limits(max_keepalive_connections=0)
        with httpx2.Client(trust_env=False, limits=limits) as client:
            yield Site(url, issuer, stranger, client)
        server.should_exit = True
        thread.join(30)


def test_the_table_has_at_least_sixty_tokens() -> None:
    assert len(GOOD) + len(REFUSED) + len(FORBIDDEN) >= 60


@pytest.mark.parametrize("case", GOOD)
def test_a_good_token_is_let_through(site: Site, case: str) -> None:
    response = site.get(f"Bearer {GOOD[case](site.issuer)}")
    assert response.status_code == 200, response.text
    assert json.loads(response.json()["principal"])[0] == site.issuer.url


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_token_is_refused_and_nothing_it_points_at_is_fetched(site: Site, case: str) -> None:
    response = site.get(f"Bearer {REFUSED[case](site.issuer)}")
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
    assert "resource_metadata=" in response.headers["www-authenticate"]
    assert site.stranger.fetches == 0


@pytest.mark.parametrize("case", FORBIDDEN)
def test_a_token_without_the_scope_is_forbidden_by_name(site: Site, case: str) -> None:
    response = site.get(f"Bearer {FORBIDDEN[case](site.issuer)}")
    assert response.status_code == 403
    challenge = response.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="mcp:execute"' in challenge


def test_every_refusal_of_a_token_reads_the_same(site: Site) -> None:
    cases = ("alg none", "kid unknown", "aud another", "expired 61 s ago", "opaque text")
    answers = [site.get(f"Bearer {REFUSED[case](site.issuer)}") for case in cases]
    assert len({(a.text, a.headers["www-authenticate"]) for a in answers}) == 1


def test_a_token_is_read_from_the_one_authorization_header_only(site: Site) -> None:
    good = site.issuer.mint()
    assert site.get(f"bearer {good}").status_code == 200
    assert site.get().status_code == 401
    assert site.get(params={"access_token": good, "token": good}).status_code == 401
    assert site.get(cookie=f"access_token={good}").status_code == 401
    for values in ((good,), (f"Basic {good}",), (f"Bearer{good}",), ("Bearer",)):
        assert site.get(*values).status_code == 401
    for pair in ((good, good), (good, "x"), ("x", good)):
        assert site.get(*(f"Bearer {value}" for value in pair)).status_code == 401


def test_a_websocket_without_a_token_is_refused(site: Site) -> None:
    connection = http.client.HTTPConnection(site.url.split("/")[2], timeout=30)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    connection.request(
        "GET", "/ws", headers=upgrade | {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    )
    response = connection.getresponse()
    assert response.status == 401
    assert "resource_metadata=" in (response.getheader("www-authenticate") or "")
    connection.close()


def test_a_refusal_leads_to_the_metadata_document(site: Site) -> None:
    challenge = site.get().headers["www-authenticate"]
    address = challenge.split('resource_metadata="')[1].split('"')[0]
    origin = site.url.removesuffix("/mcp")
    assert address == f"{origin}/.well-known/oauth-protected-resource/mcp"
    for url in (address, f"{origin}/.well-known/oauth-protected-resource"):
        response = httpx2.get(url, headers={"origin": "https://app.example"}, trust_env=False)
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.json() == {
            "resource": site.url,
            "authorization_servers": [site.issuer.url],
            "scopes_supported": ["mcp:execute"],
            "bearer_methods_supported": ["header"],
        }


def test_the_principal_is_the_same_for_a_new_token_and_differs_by_subject_and_client(
    site: Site,
) -> None:
    def principal(**claims: object) -> str:
        answer = site.get(f"Bearer {token(**claims)(site.issuer)}").json()
        assert answer["subject"] == claims.get("sub", "alice")
        return str(answer["principal"])

    assert principal() == principal(exp=NOW + 900)
    assert len({principal(), principal(sub="bob"), principal(client_id="other")}) == 3


PART = st.text("[]\",\\ a'é:|\n", max_size=6)


@settings(max_examples=examples(200))
@given(st.tuples(PART, PART, PART), st.tuples(PART, PART, PART))
def test_two_callers_never_share_a_principal(
    one: tuple[str, str, str], two: tuple[str, str, str]
) -> None:
    def principal(issuer: str, client: str, subject: str) -> str | None:
        access = AccessToken(
            token="t", client_id=client, scopes=[], subject=subject, claims={"iss": issuer}
        )
        return principal_of({"user": AuthenticatedUser(access)})

    assert (principal(*one) == principal(*two)) == (one == two)
    assert principal_of({}) is None


def config_for(issuer: Issuer) -> OAuthConfig:
    return OAuthConfig(issuer.url, AUDIENCE, issuer.jwks_url)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def issuer(clock: FakeClock) -> Iterator[Issuer]:
    with Issuer(clock) as running:
        yield running


@pytest.fixture
def verifier(issuer: Issuer, clock: FakeClock) -> JwtVerifier:
    return JwtVerifier(config_for(issuer), clock=clock)


async def test_the_access_token_carries_what_the_claims_say(
    issuer: Issuer, verifier: JwtVerifier
) -> None:
    access = await verifier.verify_token(issuer.mint(scope="mcp:execute email", tenant="t1"))
    assert access is not None
    assert (access.client_id, access.subject, access.resource) == ("agent", "alice", AUDIENCE)
    assert access.scopes == ["mcp:execute", "email"]
    assert access.claims is not None
    assert access.claims["tenant"] == "t1"


async def test_the_leeway_survives_the_gate_on_the_real_clock() -> None:
    with Issuer() as issuer:
        config = config_for(issuer)
        app = BearerAuth(config, "http://here").protect(whoami, "/mcp")
        headers = {"authorization": f"Bearer {issuer.mint(exp=int(time.time()) - 30)}"}
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://here") as client:
            assert (await client.get("/mcp", headers=headers)).status_code == 200


async def test_hs256_signed_with_the_public_key_is_refused_before_any_key_is_fetched(
    issuer: Issuer, verifier: JwtVerifier
) -> None:
    forged = hmac_signed("HS256", RSA_PEM)(issuer)
    assert await verifier.verify_token(forged) is None
    assert issuer.fetches == 0


async def test_a_refusal_is_logged_with_its_reason_and_without_the_token(
    issuer: Issuer, verifier: JwtVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, oauth.__name__)
    for bad in (issuer.mint(exp=NOW - 61), issuer.mint(client_id=7, sub="s3cret")):
        assert await verifier.verify_token(bad) is None
        assert not any(part in caplog.text for part in (*bad.split("."), "s3cret"))
    assert "expired" in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
CLAIMS = st.sampled_from(["exp", "nbf", "iat", "iss", "aud", "sub", "client_id", "azp", "scope"])
HEADERS = st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "x5c"])


def test_no_signed_token_however_odd_makes_the_verifier_raise() -> None:
    with Issuer(lambda: NOW) as issuer:
        verifier = JwtVerifier(config_for(issuer), clock=lambda: NOW)

        @settings(max_examples=examples(150))
        @given(st.dictionaries(HEADERS, JSON, max_size=2), st.dictionaries(CLAIMS, JSON))
        def check(header: dict[str, object], claims: dict[str, object]) -> None:
            full_header = {"alg": "RS256", "kid": "rsa"} | header
            odd = compact(full_header, issuer.claims() | claims, signer("RS256", rsa_key("rsa")))
            result = asyncio.run(verifier.verify_token(odd))
            # As text, because a claim may be NaN, which equals nothing.
            expected = json.dumps(issuer.claims() | claims)
            assert result is None or json.dumps(result.claims) == expected

        check()


async def verify_at_once(callers: int, verifier: JwtVerifier, issuer: Issuer) -> list[bool]:
    """Results of that many callers who all ask while the next fetch of the keys hangs."""
    minted = issuer.mint()
    fetches_before = issuer.fetches
    results: list[bool] = []

    async def verify() -> None:
        results.append(await verifier.verify_token(minted) is not None)

    issuer.gate.clear()
    async with anyio.create_task_group() as tasks:
        for _ in range(callers):
            tasks.start_soon(verify)
        await run_sync(issuer.wait_for_fetches, fetches_before + 1)
        issuer.gate.set()
    return results


async def test_keys_are_fetched_once_for_a_hundred_callers(
    issuer: Issuer, verifier: JwtVerifier
) -> None:
    assert await verify_at_once(100, verifier, issuer) == [True] * 100
    assert issuer.fetches == 1


async def test_keys_are_fetched_again_after_ten_minutes(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    assert await verifier.verify_token(issuer.mint())
    clock.now += 599
    assert await verifier.verify_token(issuer.mint())
    assert issuer.fetches == 1
    clock.now += 1
    assert await verifier.verify_token(issuer.mint())
    assert issuer.fetches == 2


async def test_a_new_key_is_found_at_once_by_all_and_the_withdrawn_one_is_refused(
    issuer: Issuer, verifier: JwtVerifier
) -> None:
    old = issuer.mint()
    assert await verifier.verify_token(old)
    issuer.rotate("rsa-2")
    assert await verify_at_once(20, verifier, issuer) == [True] * 20
    assert await verifier.verify_token(old) is None
    assert issuer.fetches == 2


async def test_unknown_kids_cause_at_most_one_fetch_in_five_minutes(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    assert await verifier.verify_token(issuer.mint())
    for number in range(30):
        assert await verifier.verify_token(issuer.mint(header={"kid": f"made-up-{number}"})) is None
    assert issuer.fetches == 2
    clock.now += 299
    assert await verifier.verify_token(issuer.mint(header={"kid": "x"})) is None
    assert issuer.fetches == 2
    clock.now += 1
    assert await verifier.verify_token(issuer.mint(header={"kid": "x"})) is None
    assert issuer.fetches == 3


async def test_old_keys_serve_while_the_issuer_is_down_and_end_after_a_day(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    assert await verifier.verify_token(issuer.mint())
    issuer.down = True
    for _ in range(20):
        clock.now += 60
        assert await verifier.verify_token(issuer.mint())
    clock.now = NOW + 24 * 3600
    assert await verifier.verify_token(issuer.mint())
    clock.now += 20
    assert await verifier.verify_token(issuer.mint()) is None
    issuer.down = False
    clock.now += 20
    assert await verifier.verify_token(issuer.mint())


async def test_a_dead_issuer_is_asked_again_only_after_a_pause(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    issuer.down = True
    for _ in range(10):
        assert await verifier.verify_token(issuer.mint()) is None
    assert issuer.fetches == 1
    issuer.down = False
    clock.now += 10
    assert await verifier.verify_token(issuer.mint())


async def test_a_refused_connection_leaves_the_old_keys_in_use(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    assert await verifier.verify_token(issuer.mint())
    issuer.stop()
    clock.now += 1200
    assert await verifier.verify_token(issuer.mint())


async def test_a_slow_issuer_holds_up_nobody_whose_key_is_known(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "FETCH_TIMEOUT_SECONDS", 100.0)
    assert await verifier.verify_token(issuer.mint())
    clock.now += 600
    issuer.gate.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(verifier.verify_token, issuer.mint())
        await run_sync(issuer.wait_for_fetches, 2)
        with anyio.fail_after(30):
            assert await verifier.verify_token(issuer.mint())
        assert not issuer.gate.is_set()
        issuer.gate.set()


async def test_an_issuer_that_never_answers_is_given_up_on(
    issuer: Issuer, verifier: JwtVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth, "FETCH_TIMEOUT_SECONDS", 1.0)
    issuer.gate.clear()
    with anyio.fail_after(30):
        assert await verifier.verify_token(issuer.mint()) is None
    await run_sync(issuer.wait_for_fetches, 1)  # it may see the question after it was taken back
    assert issuer.fetches == 1


async def test_a_redirect_of_the_jwks_is_not_followed(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    with Issuer(clock) as elsewhere:
        issuer.redirect_to = elsewhere.jwks_url
        assert await verifier.verify_token(issuer.mint()) is None
        assert (issuer.fetches, elsewhere.fetches) == (1, 0)


@pytest.mark.parametrize(
    "body", ["no json", "[]", '{"keys": {}}', '{"keys": [1, null, {}]}', "[" * 200_000]
)
async def test_a_broken_jwks_refuses_tokens_and_recovers(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock, body: str
) -> None:
    issuer.body = body.encode()
    assert await verifier.verify_token(issuer.mint()) is None
    issuer.body = None
    clock.now += 10
    assert await verifier.verify_token(issuer.mint())


async def test_a_jwks_larger_than_a_mebibyte_is_refused(
    issuer: Issuer, verifier: JwtVerifier
) -> None:
    issuer.body = json.dumps(issuer.jwks() | {"padding": "x" * 1024 * 1024}).encode()
    assert await verifier.verify_token(issuer.mint()) is None
    assert issuer.fetches == 1


async def test_a_clock_set_back_does_not_keep_withdrawn_keys(
    issuer: Issuer, verifier: JwtVerifier, clock: FakeClock
) -> None:
    assert await verifier.verify_token(issuer.mint())
    clock.now -= 86_400
    old = issuer.mint()
    issuer.rotate("rsa-3")
    assert await verifier.verify_token(old) is None
