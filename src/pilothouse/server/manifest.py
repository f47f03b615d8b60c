"""What `tools/list` says of arguments, made by `make gen`: no start has to work it out anew."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilothouse.core.tool import Tool

FILE = Path(__file__).with_name("manifest.json")


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    try:
        schemas: dict[str, dict[str, Any]] = json.loads(FILE.read_bytes())
    except (OSError, ValueError):  # it only saves time
        return {}
    return schemas


def input_schema(tool: Tool) -> dict[str, Any]:
    """A tool's input schema, without building its argument model where the manifest has it."""
    return _schemas().get(tool.name) or tool.input_schema
