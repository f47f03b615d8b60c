"""Session records as text, for a registry that is kept elsewhere. Pure."""

from __future__ import annotations

import json
from dataclasses import fields

from pilothouse.hub.model import GatewayFault, Key, SessionRecord

VERSION = 1
MAX_BYTES = 256 * 1024
_NAMES = tuple(one.name for one in fields(SessionRecord))


def encode(record: SessionRecord) -> str:
    """Return the record as JSON of at most MAX_BYTES.

    Subscriptions that do not fit are left out, the last ones first: a later worker will not be told
    of them.

    Raises:
        GatewayFault: the rest alone is too large.
    """
    kept: list[str] = []
    values = {name: getattr(record, name) for name in _NAMES} | {"subscriptions": kept}
    room = MAX_BYTES - len(_text(values))
    if room < 0:
        raise GatewayFault(f"what the session brings is larger than {MAX_BYTES >> 10} KB")
    for uri in record.subscriptions:
        room -= len(json.dumps(uri)) + 1
        if room < 0:
            break
        kept.append(uri)
    return _text(values)


def _text(values: dict[str, object]) -> str:
    # ASCII, so that its length is its size.
    return json.dumps({"v": VERSION, **values}, separators=(",", ":"))


def decode(text: str) -> SessionRecord:
    """Return the record of a text. Raises GatewayFault for one of another version."""
    values = json.loads(text)
    if values.get("v") != VERSION:
        raise other_version()
    known = {name: value for name, value in values.items() if name in _NAMES}
    known["key"] = Key(*known["key"])
    known["subscriptions"] = dict.fromkeys(known["subscriptions"])
    return SessionRecord(**known)


def other_version() -> GatewayFault:
    return GatewayFault(
        "another version of Pilothouse keeps this session in the registry;"
        " run the same version on all gateways, or give each version its own Redis database"
    )


def key_text(key: Key) -> str:
    return json.dumps(list(key), separators=(",", ":"))


def parse_key(text: str) -> Key:
    return Key(*json.loads(text))
