"""A tool that speaks the protocol itself: what the suite asks for and no tool of ours does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mcp_types as types

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

    type Context = ServerRequestContext[Any, Any]

type ToolResult = types.CallToolResult | types.InputRequiredResult
type Handler = Callable[[Context, types.CallToolRequestParams], Awaitable[ToolResult]]

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class RawTool:
    """A handler below Pilothouse's declarations, with the description of it."""

    described: types.Tool
    handler: Handler

    @property
    def name(self) -> str:
        return self.described.name


def raw_tool(schema: dict[str, Any] = NO_ARGUMENTS) -> Callable[[Handler], RawTool]:
    """Make a raw tool of a handler: its name and docstring are what the list shows."""

    def make(handler: Handler) -> RawTool:
        described = types.Tool(
            name=handler.__name__, description=handler.__doc__, input_schema=schema
        )
        return RawTool(described, handler)

    return make


def text(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)])
