"""The tools of the group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.intercept.tools import config as config_tools
from pilothouse.intercept.tools import export as export_tools
from pilothouse.intercept.tools import history as history_tools
from pilothouse.intercept.tools import resend as resend_tools
from pilothouse.intercept.tools import rules as rule_tools

if TYPE_CHECKING:
    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *history_tools.TOOLS,
    *config_tools.TOOLS,
    *resend_tools.TOOLS,
    *export_tools.TOOLS,
    *rule_tools.TOOLS,
)
RESOURCES: tuple[Resource, ...] = ()
"""None: a resource is read without arguments, and nothing here is shown without a token."""
