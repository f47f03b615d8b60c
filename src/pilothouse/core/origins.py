"""Which Host and Origin a local HTTP server accepts: the guard against DNS rebinding.

A page on the internet can make a browser send requests to a port on this machine, and one under
test may be hostile too. So Host must name this machine (or the public URL that was configured),
and an Origin, where there is one, must be the server's own: not merely some other localhost port,
because that is where the apps under test live.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)", re.IGNORECASE)
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Judges the Host and Origin headers of one server."""

    public_url: str = ""
    extra_origins: frozenset[str] = frozenset()

    def admits_host(self, host: str | None) -> bool:
        if not host:
            return False
        return bool(_LOCAL.fullmatch(host)) or host.lower() == urlsplit(self.public_url).netloc

    def admits_origin(self, origin: str | None, host: str) -> bool:
        """No Origin is fine: then it is no browser's cross-site request."""
        if origin is None:
            return True
        if origin.lower() in self.extra_origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        if found is None:
            return False
        scheme, authority = found.group(1).lower(), found.group(2).lower()
        public = urlsplit(self.public_url)
        if public.netloc and authority == public.netloc:
            return scheme == public.scheme
        ours = host.lower()
        return bool(_LOCAL.fullmatch(authority)) and authority.removesuffix(
            _DEFAULT_PORT[scheme]
        ) == ours.removesuffix(_DEFAULT_PORT[scheme])
