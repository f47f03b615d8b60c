"""The tools of the group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.intercept import (
    config_tools,
    export_tools,
    history_tools,
    resend_tools,
    rule_tools,
)

if TYPE_CHECKING:
    from pilothouse.core.resource import Resource
    from pilothouse.core.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *history_tools.TOOLS,
    *config_tools.TOOLS,
    *resend_tools.TOOLS,
    *export_tools.TOOLS,
    *rule_tools.TOOLS,
)
RESOURCES: tuple[Resource, ...] = ()
"""None: a resource is read without arguments, and nothing here is shown without a token."""
