"""The tools of the group, in the order in which they are listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.bookmarks.tools import care as care_tools
from pilothouse.bookmarks.tools import file as file_tools
from pilothouse.bookmarks.tools import plan as plan_tools
from pilothouse.bookmarks.tools import read as read_tools
from pilothouse.bookmarks.tools import write as write_tools

if TYPE_CHECKING:
    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool

TOOLS: tuple[Tool, ...] = (
    *read_tools.TOOLS,
    *write_tools.TOOLS,
    *plan_tools.TOOLS,
    *care_tools.TOOLS,
    *file_tools.TOOLS,
)
RESOURCES: tuple[Resource, ...] = read_tools.RESOURCES
