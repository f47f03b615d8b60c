"""OAuth 2.1 resource server: who may call the HTTP transports.

Tokens are JWTs of one configured issuer, checked against that issuer's published keys and nothing
a token says about itself. The SDK supplies the ASGI plumbing, but no JWT verifier.
"""

import asyncio
import ipaddress
import json
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import jwt
from jwt.types import Options
from mcp.server.auth.handlers.metadata import ProtectedResourceMetadataHandler
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.routes import build_resource_metadata_url, cors_middleware
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl
from starlette.authentication import AuthCredentials
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "PS256", "ES256")
LEEWAY_SECONDS: Final = 60
MAX_TOKEN_CHARS: Final = 16 * 1024
# Logout tokens and the like are signed by the same keys but authorise nothing: RFC 8725 §3.11.
TOKEN_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt")
YEAR_10000: Final = 253_402_300_800
OPTIONS: Final[Options] = {
    "require": ["exp", "iss", "aud", "sub"],
    "enforce_minimum_key_length": True,
    # Times are checked by the injected clock instead, and without PyJWT's int("12").
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}
KEYS_STALE_SECONDS: Final = 24 * 60 * 60
UNKNOWN_KID_SECONDS: Final = 5 * 60
RETRY_SECONDS: Final = 10
FETCH_TIMEOUT_SECONDS: Final = 5
MAX_JWKS_BYTES: Final = 1024 * 1024
WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"

type Clock = Callable[[], float]


@dataclass(frozen=True)
class OAuthConfig:
    """The issuer whose tokens are taken, the audience that they must name, and their scope."""

    issuer: str
    audience: str
    jwks_url: str
    scope: str = "mcp:execute"

    def __post_init__(self) -> None:
        for name, url in (("issuer", self.issuer), ("jwks_url", self.jwks_url)):
            parts = urlsplit(url)
            allowed = ("https", "http") if _is_loopback(url) else ("https",)
            if parts.scheme not in allowed or not parts.hostname:
                raise ValueError(f"OAuth {name} must be https (http only on loopback): {url!r}")
        if not self.audience:
            raise ValueError("OAuth audience must not be empty: it is what the token's aud must be")
        # The scope is quoted into a header, so RFC 6749's alphabet is enforced here, once.
        if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", self.scope):
            raise ValueError(f"OAuth scope must be one scope token, without spaces: {self.scope!r}")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class _KeySet:
    """The issuer's signature keys: fetched when needed, kept when the issuer is down."""

    def __init__(self, url: str, clock: Clock, fresh_seconds: float) -> None:
        self._url, self._clock, self._fresh_seconds = url, clock, fresh_seconds
        self._keys: dict[tuple[str, str], jwt.PyJWK] = {}
        self._fetched_at = self._attempted_at = self._unknown_kid_at = float("-inf")
        self._attempts = 0
        self._fetching = asyncio.Lock()

    async def find(self, kid: str, algorithm: str) -> jwt.PyJWK | None:
        known = (kid, algorithm) in self._keys
        fresh = self._within(self._fetched_at, self._fresh_seconds)
        if fresh:
            due = not known and not self._within(self._unknown_kid_at, UNKNOWN_KID_SECONDS)
        else:
            # A slow issuer must not hold up callers whose key is already here.
            waits = not (known and self._fetching.locked())
            due = waits and not self._within(self._attempted_at, RETRY_SECONDS)
        if due:
            attempts_before = self._attempts
            async with self._fetching:
                if self._attempts == attempts_before:  # nobody fetched while this call waited
                    await self._fetch()
                    self._unknown_kid_at = self._clock() if fresh else self._unknown_kid_at
        usable = self._clock() - self._fetched_at <= KEYS_STALE_SECONDS
        return self._keys.get((kid, algorithm)) if usable else None

    def _within(self, since: float, seconds: float) -> bool:
        # A clock set back gives a negative age; that must not keep old keys fresh for ever.
        return 0 <= self._clock() - since < seconds

    async def _fetch(self) -> None:
        try:
            self._keys = _usable_keys(await _get_json(self._url))
            self._fetched_at = self._clock()
        except (httpx2.HTTPError, OSError, ValueError, RecursionError) as error:
            log.warning("cannot fetch the OAuth keys from %s: %r", self._url, error)
        self._attempted_at = self._clock()
        self._attempts += 1


async def _get_json(url: str) -> object:
    body = bytearray()
    async with (
        asyncio.timeout(FETCH_TIMEOUT_SECONDS),
        httpx2.AsyncClient(follow_redirects=False, trust_env=not _is_loopback(url)) as client,
        client.stream("GET", url, headers={"accept-encoding": "identity"}) as response,
    ):
        if response.status_code != 200:
            raise ValueError(f"HTTP status {response.status_code}")
        async for chunk in response.aiter_raw():  # raw: nothing is unpacked past the cap
            body += chunk
            if len(body) > MAX_JWKS_BYTES:
                raise ValueError(f"more than {MAX_JWKS_BYTES} bytes")
    return json.loads(body)


def _usable_keys(document: object) -> dict[tuple[str, str], jwt.PyJWK]:
    """Return a JWK set's keys by kid and algorithm, without those unfit to verify our tokens."""
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("not a JWK set")
    keys: dict[tuple[str, str], jwt.PyJWK] = {}
    for jwk in document["keys"]:
        if not isinstance(jwk, dict) or not isinstance(jwk.get("kid"), str):
            continue
        # A private key in public lets anybody sign; a key for another use vouches for nothing.
        if "d" in jwk or jwk.get("use", "sig") != "sig":
            continue
        for algorithm in ALGORITHMS:
            if jwk.get("alg", algorithm) == algorithm:
                with suppress(jwt.PyJWTError):  # the key is of another type than the algorithm
                    keys[jwk["kid"], algorithm] = jwt.PyJWK(jwk, algorithm)
    return keys


class JwtVerifier:
    """The SDK's `TokenVerifier` for JWT access tokens of one issuer."""

    def __init__(
        self, config: OAuthConfig, *, clock: Clock = time.time, fresh_seconds: float = 600
    ) -> None:
        self._issuer, self._audience = config.issuer, config.audience
        self._clock = clock
        self._keys = _KeySet(config.jwks_url, clock, fresh_seconds)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Verify a token; None for a bad one, whatever is wrong: a debug message has the reason."""
        try:
            claims = await self._claims(token)
            client_id = claims.get("client_id", claims.get("azp", claims["sub"]))
            for name in (claims["sub"], client_id):
                if not (isinstance(name, str) and name and name.isprintable()):
                    raise jwt.InvalidTokenError("sub or client_id is not printable text")
            return AccessToken(
                token=token,
                client_id=client_id,
                scopes=_scopes(claims),
                expires_at=int(claims["exp"]) + LEEWAY_SECONDS,
                resource=self._audience,
                subject=claims["sub"],
                claims=claims,
            )
        except (jwt.PyJWTError, ValueError) as error:
            # Other messages than PyJWT's may quote the token.
            reason = str(error) if isinstance(error, jwt.PyJWTError) else type(error).__name__
            log.debug("refused a bearer token: %r", reason)
            return None

    async def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN_CHARS or not token.isascii():
            raise jwt.DecodeError("too long, or not ASCII")
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError("algorithm not allowed")
        if str(header.get("typ", "jwt")).lower() not in TOKEN_TYPES:
            raise jwt.InvalidTokenError("not an access token by its typ")
        key = await self._keys.find(header.get("kid", ""), algorithm)
        if key is None:
            raise jwt.InvalidKeyError("no such kid in the issuer's keys")
        claims = jwt.decode(
            token, key, ALGORITHMS, OPTIONS, audience=self._audience, issuer=self._issuer
        )
        now = int(self._clock())
        if now - _seconds(claims, "exp") > LEEWAY_SECONDS:
            raise jwt.ExpiredSignatureError("expired")
        for name in ("nbf", "iat"):
            if name in claims and _seconds(claims, name) - now > LEEWAY_SECONDS:
                raise jwt.ImmatureSignatureError(f"not yet valid by {name}")
        return claims


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    """Read a NumericDate. JSON as Python reads it has true, NaN and Infinity: none is a time."""
    value = claims[name]
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < YEAR_10000:
        return value
    raise jwt.InvalidTokenError(f"{name} is not a time")


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    granted = claims.get("scope", claims.get("scp"))
    names = granted.split(" ") if isinstance(granted, str) else granted
    return [n for n in names if n and isinstance(n, str)] if isinstance(names, list) else []


@dataclass(frozen=True)
class BearerRefused:
    """A refusal of a caller, as it is answered."""

    status: int
    error: str
    why: str
    challenge: str

    @property
    def body(self) -> dict[str, str]:
        return {"error": self.error, "error_description": self.why}

    @property
    def header(self) -> tuple[str, str]:
        what = f'Bearer error="{self.error}", error_description="{self.why}", {self.challenge}'
        return "www-authenticate", what


class BearerAuth:
    """The authentication of one server: callers need one valid bearer token, in the one
    Authorization header and nowhere else."""

    def __init__(
        self, config: OAuthConfig, base_url: str, verifier: TokenVerifier | None = None
    ) -> None:
        """Take as `base_url` how clients reach the server."""
        self._config = config
        self._base_url = base_url
        self._verifier = verifier or JwtVerifier(config)

    async def judge(self, authorizations: Sequence[str], path: str) -> AccessToken | BearerRefused:
        """Judge who calls the endpoint at `path`, by all Authorization headers of the request."""
        one = authorizations[0] if len(authorizations) == 1 else ""
        scheme, _, text = one.partition(" ")
        token = await self._verifier.verify_token(text) if scheme.lower() == "bearer" else None
        if token is None:
            return self._refusal(path, 401, "invalid_token", "Send one valid bearer token")
        if self._config.scope not in token.scopes:
            why = f"Required scope: {self._config.scope}"
            return self._refusal(path, 403, "insufficient_scope", why)
        return token

    def _refusal(self, path: str, status: int, error: str, why: str) -> BearerRefused:
        metadata = build_resource_metadata_url(AnyHttpUrl(self._base_url + path))
        challenge = f'scope="{self._config.scope}", resource_metadata="{metadata}"'
        return BearerRefused(status, error, why, challenge)

    def protect(self, app: ASGIApp, path: str) -> ASGIApp:
        """Put `app` behind a token for the endpoint at `path`."""
        return _Protected(app, self, path)

    def metadata_routes(self, paths: Sequence[str]) -> list[Route]:
        return [
            route
            for path in paths
            for route in metadata_routes(self._base_url + path, self._config)
        ]


class _Protected:
    """A stand-in for the SDK's RequireAuthMiddleware, which leaves out the `scope` that MCP wants
    in a challenge, fails on WebSockets, and takes the first of several Authorization headers.
    """

    def __init__(self, app: ASGIApp, gate: BearerAuth, path: str) -> None:
        self._app = AuthContextMiddleware(app)
        self._gate = gate
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = HTTPConnection(scope).headers.getlist("authorization")
        found = await self._gate.judge(given, self._path)
        if isinstance(found, BearerRefused):
            refusal = JSONResponse(found.body, found.status, dict([found.header]))
            await refusal(scope, receive, send)
            return
        scope["auth"], scope["user"] = AuthCredentials(found.scopes), AuthenticatedUser(found)
        await self._app(scope, receive, send)


def metadata_routes(resource_url: str, config: OAuthConfig) -> list[Route]:
    """Make the routes of an endpoint's RFC 9728 metadata: its own well-known path, and the bare
    one that clients fall back to (with several endpoints, the first one's routes answer there)."""
    # From text: an AnyHttpUrl would add a slash to a bare issuer, which is another issuer.
    document = ProtectedResourceMetadata.model_validate(
        {"resource": resource_url, "authorization_servers": [config.issuer]}
    )
    document.scopes_supported = [config.scope]
    methods = ["GET", "OPTIONS"]
    endpoint = cors_middleware(ProtectedResourceMetadataHandler(document).handle, methods)
    own_path = build_resource_metadata_url(AnyHttpUrl(resource_url)).path or WELL_KNOWN
    return [Route(path, endpoint, methods=methods) for path in {own_path, WELL_KNOWN}]
