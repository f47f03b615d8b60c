"""Whose worker a request goes to. Pure: a request's own words and what the registry knows of them.

A key is never taken from what a client cannot help or may choose freely: not from its connection,
its port, the name it gives itself or the ids of its messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pilothouse.hub.model import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pilothouse.hub.model import Era, SessionRecord

MCP_PATHS = ("/mcp", "/message")
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions that begin with `initialize`, oldest first."""
_PATH_KEY = re.compile(r"/mcp/([A-Za-z0-9._~-]{1,128})")
_MOST_URIS = 50
"""Number of URIs of a subscription in which a name is looked for."""
_URI_PART = re.compile(r"[^/?#:]+")


class RoutingFacts(NamedTuple):
    """The facts in a request about whom it belongs to."""

    era: Era
    path_key: str = ""
    """Key in `/mcp/{key}`."""
    principal: str = ""


def path_key(path: str) -> str | None:
    """Return the key of an MCP path, empty for those without one; None: it is no MCP path."""
    if path in MCP_PATHS:
        return ""
    found = _PATH_KEY.fullmatch(path)
    return found[1] if found else None


def era_of(version: str | None) -> Era:
    """Return the era by the version header alone. What is no known handshake version is refused as
    modern, in words that a client of any age understands."""
    return "2025" if version is None or version in HANDSHAKE_VERSIONS else "2026"


def names_in(message: dict[str, Any]) -> Iterator[str]:
    """Yield what in a message may name something that lives in one worker, the surest first."""
    params = message.get("params", {})
    match message.get("method"):
        case "tools/call":
            arguments = params.get("arguments")
            if isinstance(arguments, dict):
                for argument in ("sessionId", "targetId"):
                    if isinstance(value := arguments.get(argument), str):
                        yield value
        case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
            yield from _parts(params.get("uri"))
        case "subscriptions/listen":
            wanted = params.get("notifications")
            uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
            for uri in uris[:_MOST_URIS] if isinstance(uris, list) else ():
                yield from _parts(uri)


def _parts(uri: object) -> Iterator[str]:
    """Yield what may be a name: `cdp://events/{targetId}`, `e2e://artifact/{sessionId}/{name}`."""
    if isinstance(uri, str):
        yield from _URI_PART.findall(uri)[1:8]


def calls_one_of(message: dict[str, Any], tools: frozenset[str]) -> bool:
    """Return whether this is a call of one of these tools."""
    return message.get("method") == "tools/call" and _name(message) in tools


def _name(message: dict[str, Any]) -> str:
    name = message.get("params", {}).get("name")
    return name if isinstance(name, str) else ""


def key_of(
    asked: RoutingFacts,
    record: SessionRecord | None = None,
    owner: Key | None = None,
    mint: Callable[[], str] | None = None,
) -> Key:
    """Return the key of a request.

    Args:
        asked: What it says itself.
        record: The session that its `Mcp-Session-Id` names.
        owner: The key of whatever it names, if that is the caller's own.
        mint: Given for a call that makes a new handle: names its worker.
    """
    if record is not None:
        return record.key
    if owner is not None:
        return owner
    if mint is not None:
        return Key("handle", mint(), asked.principal)
    if asked.path_key:
        return Key("path", asked.path_key, asked.principal)
    if asked.principal:
        return Key("principal", asked.principal, asked.principal)
    return Key("local", "")
