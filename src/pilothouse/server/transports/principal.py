"""Who calls over HTTP: one string for session keys and rate limits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken, principal_components

if TYPE_CHECKING:
    from starlette.types import Scope


def principal_of(scope: Scope) -> str | None:
    """Return the caller of an authenticated request; None without authentication."""
    user = scope.get("user")
    return name_of(user.access_token) if isinstance(user, AuthenticatedUser) else None


def name_of(token: AccessToken) -> str:
    """Return the name of whoever has this token."""
    client_id, issuer, subject = principal_components(token)
    # JSON keeps the parts apart: no two different callers give the same string.
    return json.dumps([issuer, client_id, subject])
