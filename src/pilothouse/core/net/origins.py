"""Which Host and Origin a local HTTP server accepts: the guard against DNS rebinding.

A page on the internet can make a browser send requests to a port on this machine, and one under
test may be hostile too. So Host must name this machine (or the public URL that was configured),
and an Origin, where there is one, must be the server's own: not merely some other localhost port,
because that is where the apps under test live.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

_FLAGS = re.IGNORECASE | re.ASCII  # without ASCII, U+017F would match the s of localhost
_LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", _FLAGS)
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)", _FLAGS)
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


def _site(scheme: str, authority: str) -> tuple[str, str]:
    """Return scheme and authority in one spelling: lower case, without the scheme's own port."""
    scheme = scheme.lower()
    return scheme, authority.lower().removesuffix(_DEFAULT_PORT.get(scheme, ""))


def _parsed(origin: str) -> tuple[str, str] | None:
    found = _ORIGIN.fullmatch(origin)
    return None if found is None else _site(found.group(1), found.group(2))


class OriginPolicy:
    """The rules for the Host and Origin headers of one server."""

    def __init__(
        self,
        public_url: str = "",
        extra_origins: Iterable[str] = (),
        *,
        is_https: bool = False,
        any_host: bool = False,
    ) -> None:
        """Judge for a server that speaks HTTPS itself, or plain HTTP.

        `any_host` is for one that asks for a token, over HTTPS: there a name that was rebound to
        it has neither the token nor the certificate.
        """
        public = urlsplit(public_url)
        self._public = _site(public.scheme, public.netloc)
        self._scheme = "https" if is_https else "http"
        self._any_host = any_host
        self._extra = {_parsed(origin) for origin in extra_origins} - {None}

    def admits_host(self, host: str | None) -> bool:
        if not host:
            return False
        scheme, authority = self._public
        return (self._any_host or bool(_LOCAL.fullmatch(host))) or (
            bool(authority) and _site(scheme, host)[1] == authority
        )

    def admits_origin(self, origin: str | None, host: str) -> bool:
        """Tell whether an Origin is fine; None is, as it is no browser's cross-site request."""
        if origin is None:
            return True
        site = _parsed(origin)
        if site is None:
            return False
        if site in self._extra or (self._public[1] and site == self._public):
            return True
        scheme, authority = site
        is_named = self._any_host or bool(_LOCAL.fullmatch(authority))
        # A page of the other scheme came from another server, whatever its name.
        return is_named and scheme == self._scheme and _site(scheme, host)[1] == authority
