"""Who may use an HTTP listener that no OAuth server guards: our own user, or whoever has a token.

Two cases, one mechanism. Without a token of its own, a listener on loopback takes our own user and
root by the owner of their sockets, and others by the token in a file of the home. With a token that
was set (`PILOTHOUSE_HTTP_TOKEN`), the token alone decides. Without the SDK, and without IO.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from pilothouse.machine.net.local_users import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    type Header = tuple[str, str]

MCP_PATHS = ("/mcp", "/message")
OPEN_PATHS = ("/health", "/", "/style.css")
"""Paths that hold no data: everybody may have them where a token was set, as with OAuth."""
OPEN_FOLDER = "/assets/"
QUERY = "token"
COOKIE = "pilothouse"
_COOKIE_PURPOSE = b"pilothouse dashboard"


@dataclass(frozen=True, slots=True)
class AccessRefused:
    """An answer in place of the one that was requested."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules by which one listener judges requests."""

    token: Callable[[], str | None]
    """The token that is good for now, if there is one."""
    shown_by: str = "pilothouse token --http"
    """The command that prints it."""
    by_token_alone: bool = False
    """The token was set: it alone decides, whoever asks."""
    trusts_own_user: bool = True
    """Our own user and root need no token, unless `by_token_alone`."""
    has_pages: bool = True
    """A browser may keep a cookie instead of the token."""
    is_https: bool = False
    """Browsers reach it by HTTPS alone, and are to send the cookie no other way."""

    @property
    def asks_for_callers(self) -> bool:
        """Tell whether it matters whose process has connected."""
        return self.trusts_own_user and not self.by_token_alone

    def judge(
        self,
        caller: Caller,
        method: str,
        target: str,
        authorizations: Sequence[str],
        cookies: Sequence[str],
    ) -> AccessRefused | None:
        """Return None for a request that may go on, else what it is answered."""
        path, _, query = target.partition("?")
        if self.has_pages and QUERY in query and method == "GET" and not is_mcp(path):
            visit = self._visit(path, query)
            if visit is not None:
                return visit
        if self.asks_for_callers and caller is Caller.OWN:
            return None
        if self.by_token_alone and (path in OPEN_PATHS or path.startswith(OPEN_FOLDER)):
            return None
        token = self.token()
        if token:
            if is_same(bearer(authorizations), token):
                return None
            # Browsers show cookies to every port of a host. So this one opens pages, which only
            # show, and no endpoint by which a program could be run.
            is_page = self.has_pages and method in ("GET", "HEAD") and not is_mcp(path)
            if is_page and any(is_same(one, _cookie_of(token)) for one in _kept(cookies)):
                return None
        return self._refuse(caller)

    def _visit(self, path: str, query: str) -> AccessRefused | None:
        """Return the answer to a browser that brings the token in the address: a cookie, and the
        same address without the token."""
        pairs = parse_qsl(query, keep_blank_values=True)
        token = self.token()
        if not token or not any(name == QUERY and is_same(text, token) for name, text in pairs):
            return None
        rest = urlencode([pair for pair in pairs if pair[0] != QUERY])
        # One slash: "//host" would be another site's address.
        where = "/" + path.lstrip("/") + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={_cookie_of(token)}; Path=/; HttpOnly; SameSite=Strict"
        cookie += "; Secure" if self.is_https else ""
        headers = (("location", where), ("set-cookie", cookie), ("referrer-policy", "no-referrer"))
        return AccessRefused(303, b"", headers)

    def _refuse(self, caller: Caller) -> AccessRefused:
        if self.by_token_alone:
            why = "send the token of PILOTHOUSE_HTTP_TOKEN as `Authorization: Bearer TOKEN`"
            if self.has_pages:
                why += f"; a browser opens /?{QUERY}=TOKEN once"
            challenge = (("www-authenticate", 'Bearer realm="pilothouse"'),)
            return AccessRefused(401, _error(401, why), challenge)
        return AccessRefused(403, _error(403, self.explain(caller)))

    def explain(self, caller: Caller) -> str:
        """Return why a caller is refused, and the ways to be let in."""
        how = f"send `Authorization: Bearer TOKEN` with what `{self.shown_by}` prints"
        if self.has_pages:
            how += f" (a browser opens /?{QUERY}=TOKEN once)"
        if not self.trusts_own_user:
            return f"this server asks every local user for its token: {how}"
        if caller is Caller.UNKNOWN:
            return f"this system does not tell which user has connected: {how}"
        return (
            "this server takes connections of the user who started it and of root alone:"
            f" connect as that user, or {how}"
        )


def bearer(authorizations: Sequence[str]) -> str:
    """Return the token of the one Authorization header; empty without one."""
    if len(authorizations) != 1:
        return ""  # two are an attempt to have two readers disagree
    scheme, _, token = authorizations[0].partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_same(offered: str, token: str) -> bool:
    """Return whether two secrets are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(offered.encode("utf-8", "surrogateescape"), token.encode())


def is_mcp(path: str) -> bool:
    """Return whether a path may lead to an MCP endpoint, however it is spelled."""
    return "%" in path or path.startswith(MCP_PATHS)


def _cookie_of(token: str) -> str:
    """Return what a browser keeps: it opens pages, and does not give the token away."""
    return hmac.new(token.encode(), _COOKIE_PURPOSE, sha256).hexdigest()


def _kept(cookies: Sequence[str]) -> list[str]:
    pairs = (one.strip().partition("=") for header in cookies for one in header.split(";"))
    return [value for name, _, value in pairs if name == COOKIE]


def _error(status: int, why: str) -> bytes:
    return json.dumps({"error": {"code": status, "message": why}}).encode()
