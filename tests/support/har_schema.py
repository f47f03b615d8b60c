"""The HAR schema that others check archives by: har-schema of npm."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jsonschema import Draft6Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT6

from tests.support.npm import PEERS

_URI = re.compile(r"(?:[a-z][a-z0-9+\-.]*:)(?:/?/)?\S*", re.IGNORECASE)
"""What validators take for one, as har-validator does."""


@cache
def _validator() -> Draft6Validator:
    folder = PEERS / "node_modules" / "har-schema" / "lib"
    schemas = {file.name: json.loads(file.read_text()) for file in folder.glob("*.json")}
    registry: Registry[Any] = Registry().with_resources(
        (name, DRAFT6.create_resource(schema)) for name, schema in schemas.items()
    )
    formats = FormatChecker(formats=("ipv4", "ipv6"))
    formats.checks("uri")(lambda value: not isinstance(value, str) or bool(_URI.fullmatch(value)))
    return Draft6Validator(schemas["har.json"], registry=registry, format_checker=formats)


def check_archive(archive: dict[str, Any]) -> None:
    """Fail with every place at which an archive is not what the schema says."""
    found = [f"{e.json_path}: {e.message[:200]}" for e in _validator().iter_errors(archive)]
    requests = [entry["request"] for entry in archive["log"]["entries"]]
    found += [
        f"{request['url']} has no method"
        for request in requests
        if not request["method"] and not request["url"].startswith(("tcp:", "udp:", "tls:"))
    ]
    assert not found, found
