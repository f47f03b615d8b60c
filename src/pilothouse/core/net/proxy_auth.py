"""How clients of a proxy show a secret (RFC 9110 §11.7): as a bearer token, or as a password."""

import hmac
from base64 import b64decode, b64encode

HEADER = "Proxy-Authorization"
CHALLENGE = ("Proxy-Authenticate", 'Basic realm="pilothouse"')
USER = "pilothouse"
"""User name of our own browsers; any other name is as good."""


_OWN = ("Basic " + b64encode(f"{USER}:".encode()).decode()[:14]).encode()
"""Beginning of all that `credentials` returns; what follows may depend on the secret."""


def is_own(name: bytes, value: bytes) -> bool:
    """Return whether a header field is one that `credentials` made."""
    return value.startswith(_OWN) and name.lower() == b"proxy-authorization"


def credentials(secret: str) -> str:
    """Return the header's value for a secret as a password."""
    return "Basic " + b64encode(f"{USER}:{secret}".encode()).decode()


def is_shown(header: str, secret: str | None) -> bool:
    """Return whether a header's value shows this secret, in a time that does not tell where they
    differ. Bytes that are no text may stand in it as lone surrogates."""
    offered = _offered(header).encode("utf-8", "surrogatepass")
    return bool(secret) and hmac.compare_digest(offered, (secret or "").encode())


def _offered(header: str) -> str:
    scheme, _, text = header.partition(" ")
    if scheme.lower() == "bearer":
        return text.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return b64decode(text.strip(), validate=True).decode("latin-1").partition(":")[2]
    except ValueError:
        return ""
