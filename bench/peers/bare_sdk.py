"""The least MCP server the official Python SDK can make: one tool, stdio, no more."""

from mcp.server import MCPServer

server = MCPServer("bare", version="1")


@server.tool()
async def status() -> str:
    """Say that the server is there."""
    return "ok"


if __name__ == "__main__":
    server.run("stdio")
