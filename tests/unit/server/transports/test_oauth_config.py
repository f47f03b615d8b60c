"""Which settings of OAuth are taken: those under which no token and no key passes in the clear."""

from __future__ import annotations

import pytest

from pilothouse.server.transports.oauth import OAuthConfig
from tests.support.issuer import AUDIENCE


@pytest.mark.parametrize(
    ("settings_given", "named"),
    [
        ({"jwks_url": "http://issuer.example/jwks"}, "jwks_url"),
        ({"jwks_url": "http://127.0.0.1@issuer.example/jwks"}, "jwks_url"),
        ({"jwks_url": "http://localhost.issuer.example/jwks"}, "jwks_url"),
        ({"jwks_url": "file:///etc/passwd"}, "jwks_url"),
        ({"jwks_url": "file://localhost/etc/passwd"}, "jwks_url"),
        ({"jwks_url": ""}, "jwks_url"),
        ({"issuer": "http://issuer.example"}, "issuer"),
        ({"audience": ""}, "audience"),
        ({"scope": ""}, "scope"),
        ({"scope": "a b"}, "scope"),
        ({"scope": 'a"'}, "scope"),
    ],
)
def test_a_config_that_cannot_be_safe_is_refused_by_name(
    settings_given: dict[str, str], named: str
) -> None:
    url = "https://issuer.example"
    safe = {"issuer": url, "audience": AUDIENCE, "jwks_url": f"{url}/jwks"}
    assert OAuthConfig(**safe).scope == "mcp:execute"
    with pytest.raises(ValueError, match=f"OAuth {named}"):
        OAuthConfig(**(safe | settings_given))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.9.9.9"])
def test_plain_http_is_taken_on_loopback(host: str) -> None:
    url = f"http://{host}:9000/jwks"
    assert OAuthConfig(url, AUDIENCE, url).jwks_url == url
