"""Which header, query key or JSON key says by its name that its value is secret."""

import re
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote_plus

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset(
    "authorization bearer credential credentials csrf cvc cvv jwt otp passcode passphrase passwd "
    "password passwords pwd secret secrets sessid sid token tokens totp xsrf".split()
)
_SECRET_ENDINGS = ("token", "secret", "password", "passwd", "apikey", "sessid", "passphrase")
_SECRET_COMPOUNDS = re.compile(
    r"(?:api|access|account|auth|encryption|license|master|private|secret|session|shared|signing"
    r"|storage|subscription)key|sessionid|samlre(?:sponse|quest)|(?:access|api|auth|refresh)token"
    r"|csrf|xsrf|clientsecret|codeverifier|authcode"
)
_SECRET_AUTOFILL = frozenset("current-password new-password one-time-code".split())
# "token_type" and "passwordLength" speak about a secret; they hold none.
_ABOUT_A_SECRET = frozenset(
    "count enabled endpoint expires expiry expiration field hint label length lifetime limit name "
    "policy required size strength supported timeout ttl type types uri url usage".split()
)
_SECRET_ALONE = frozenset("auth cookie cookies pass pw session setcookie".split())
_SECRET_IN_QUERY = frozenset("assertion code hmac key ticket".split())
_SECRET_IN_HEADER = re.compile(
    r"token|secret|passw|api-?key|access-?key|session|credential|jwt|csrf|xsrf|signature"
    r"|(?:subscription|functions|rapidapi|auth|account|master)-key|\bauth\b|authorization"
)
_URL_HEADERS = ":path content-location location origin referer refresh".split()
# On almost every message and never secret, so their values are not searched.
_PLAIN_HEADERS = (
    ":authority :method :scheme :status accept accept-encoding accept-language accept-ranges age "
    "access-control-allow-credentials access-control-allow-headers access-control-allow-methods "
    "access-control-allow-origin allow alt-svc cache-control connection content-encoding "
    "content-length content-security-policy content-type date etag expires host "
    "if-modified-since if-none-match keep-alive last-modified pragma priority sec-ch-ua "
    "sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest sec-fetch-mode sec-fetch-site "
    "sec-fetch-user sec-websocket-accept sec-websocket-extensions sec-websocket-key "
    "sec-websocket-version server strict-transport-security transfer-encoding upgrade "
    "upgrade-insecure-requests user-agent vary via x-content-type-options x-frame-options"
).split()
URL_KEYS = frozenset("href location path query referer referrer uri url".split())

type HeaderRule = Literal["credentials", "cookie", "set-cookie", "secret", "url", "plain", "other"]
_HEADER_RULES: dict[str, HeaderRule] = {
    **dict.fromkeys(_PLAIN_HEADERS, "plain"),
    **dict.fromkeys(_URL_HEADERS, "url"),
    "authorization": "credentials",
    "proxy-authorization": "credentials",
    "cookie": "cookie",
    "set-cookie": "set-cookie",
}


@lru_cache(maxsize=4096)
def header_rule(name: str) -> HeaderRule:
    name = name.lower().replace("_", "-")
    return _HEADER_RULES.get(name) or ("secret" if _SECRET_IN_HEADER.search(name) else "other")


@lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Tell whether a JSON key, form field or variable of this name holds a secret."""
    words = [word.lower() for word in _WORDS.findall(key)]
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    joined = "".join(words)
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or joined in _SECRET_ALONE
        or any(word.endswith(_SECRET_ENDINGS) for word in words)
        or _SECRET_COMPOUNDS.search(joined) is not None
    )


@lru_cache(maxsize=4096)
def is_secret_query_key(key: str) -> bool:
    """Tell if a query key is secret: `code` and `key` are, elsewhere just error codes and keys."""
    key = unquote_plus(key)
    words = [word.lower() for word in _WORDS.findall(key)]
    is_signature = bool(words) and words[-1] in ("sig", "signature")
    return is_signature or "".join(words) in _SECRET_IN_QUERY or is_secret_key(key)


def is_count(key: str) -> bool:
    return "tokens" in key.lower()  # a number under "max_tokens" is no secret


def is_holder(key: str) -> bool:
    return key.lower() in ("auth", "session")  # an object there has keys that speak for themselves


def is_secret_autofill(autocomplete: str) -> bool:
    """Return whether a field with this `autocomplete` takes a password, a code or a bank card."""
    words = autocomplete.lower().split()
    return any(word in _SECRET_AUTOFILL or word.startswith("cc-") for word in words)
