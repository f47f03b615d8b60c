"""The tools of the group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.intercept.tools import config, export, history, resend, rules

if TYPE_CHECKING:
    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *history.TOOLS,
    *config.TOOLS,
    *resend.TOOLS,
    *export.TOOLS,
    *rules.TOOLS,
)
RESOURCES: tuple[Resource, ...] = ()
"""Resources: none, as they are read without arguments, and here all needs a token."""
