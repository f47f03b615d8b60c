"""The tools of the group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.bookmarks import care_tools, file_tools, plan_tools, read_tools, write_tools

if TYPE_CHECKING:
    from pilothouse.core.resource import Resource
    from pilothouse.core.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *read_tools.TOOLS,
    *write_tools.TOOLS,
    *plan_tools.TOOLS,
    *care_tools.TOOLS,
    *file_tools.TOOLS,
)
RESOURCES: tuple[Resource, ...] = read_tools.RESOURCES
