"""A server in production: on all addresses, under a public name, with an issuer of tokens."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.servers import FIXTURE_APP, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.issuer import Issuer

HOST = "pilothouse.example"
PUBLIC = f"https://{HOST}"


def trusting(issuer: Issuer) -> dict[str, str]:
    """The environment of a server to which that issuer's tokens give entrance."""
    return {
        "OAUTH_ISSUER": issuer.url,
        "OAUTH_AUDIENCE": issuer.audience,
        "OAUTH_JWKS_URL": issuer.jwks_url,
    }


@contextmanager
def production_server(
    issuer: Issuer, *flags: str, module: str = FIXTURE_APP, **env: str
) -> Iterator[Server]:
    """Until the block ends; asked by 127.0.0.1, where Host has to name it."""
    named = {"NODE_ENV": "production", "PILOTHOUSE_PUBLIC_URL": PUBLIC}
    wanted = {**trusting(issuer), **named, **env}
    with http_server(*flags, "--host", "0.0.0.0", module=module, env=wanted) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        yield server
