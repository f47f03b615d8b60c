"""The tools of the group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.bookmarks.tools import care, file, plan, read, write

if TYPE_CHECKING:
    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *read.TOOLS,
    *write.TOOLS,
    *plan.TOOLS,
    *care.TOOLS,
    *file.TOOLS,
)
RESOURCES: tuple[Resource, ...] = read.RESOURCES
