"""What guards HTTP where no OAuth server does: the token of a home, or the one that was set."""

from __future__ import annotations

import os
import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pilothouse.core.net.origins import OriginPolicy
from pilothouse.machine.folders import folder_for
from pilothouse.machine.secret_file import SecretFile

if TYPE_CHECKING:
    from pathlib import Path

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.core.settings import Settings
    from pilothouse.machine.net.http_access import Access

FORM = re.compile(r"[A-Za-z0-9_-]{43}")
_SENDABLE = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Form of a token that may stand behind "Bearer" (RFC 6750)."""
LEAST_OUTSIDE = 16
"""Fewest characters of a token that guards more than this machine: nobody counts guesses."""


def http_token_file(settings: Settings) -> SecretFile:
    """Return where this home's token is kept. Its folder is made with the token."""
    return token_at(folder_for(settings.home, os.environ, "config", "http") / "token")


def token_at(path: Path) -> SecretFile:
    """Return the token of a file, wherever that is."""
    return SecretFile(path, FORM, lambda: secrets.token_urlsafe(32))


def http_access(settings: Settings, redactor: Redactor) -> Access:
    """Return who may use a listener of ours that speaks HTTP and asks for no OAuth token."""
    from pilothouse.machine.net.http_access import Access

    file = http_token_file(settings)
    known = ""

    def token() -> str | None:
        nonlocal known
        if settings.http_token:
            return settings.http_token
        try:
            present = file.present()
        except OSError:
            return None
        if present and present != known:
            known = present
            redactor.teach(present)
        return present

    return Access(
        token=token,
        by_token_alone=bool(settings.http_token),
        trusts_own_user=settings.local_users == "own",
        is_https=bool(settings.tls_cert) or settings.public_url.startswith("https:"),
    )


def origin_policy(settings: Settings) -> OriginPolicy:
    """Return who judges Host and Origin. With a token and a certificate of our own, but no public
    name, clients may use any name that leads here."""
    is_https = bool(settings.tls_cert)
    any_host = bool(settings.http_token and is_https and not settings.public_url)
    return OriginPolicy(
        settings.public_url, settings.allowed_origins, is_https=is_https, any_host=any_host
    )


def check_token(settings: Settings, *, is_loopback: bool) -> str:
    """Return why the token that was set cannot guard this address; empty if it can."""
    if not _SENDABLE.fullmatch(settings.http_token):
        return "PILOTHOUSE_HTTP_TOKEN: expected letters, digits and ._~+/- alone, without spaces"
    if is_loopback:
        return ""
    if not settings.tls_cert and urlsplit(settings.public_url).scheme != "https":
        return (
            f"--host {settings.http_host} with PILOTHOUSE_HTTP_TOKEN would send the token in the"
            " clear; set --tls-cert and --tls-key, or an https PILOTHOUSE_PUBLIC_URL of the proxy"
            " in front of it, or listen on 127.0.0.1"
        )
    if len(settings.http_token) < LEAST_OUTSIDE:
        return (
            f"PILOTHOUSE_HTTP_TOKEN: on other addresses than loopback at least {LEAST_OUTSIDE}"
            " characters; `openssl rand -hex 32` makes a good one"
        )
    return ""
