"""The one line to paste into each MCP client, for a server reached over HTTP or started by it."""

from __future__ import annotations

import json


def snippets(url: str) -> dict[str, str]:
    """Return for each client the line that connects it to a running Pilothouse."""
    endpoint = f"{url}/mcp"
    cursor = {"mcpServers": {"pilothouse": {"url": endpoint}}}
    code = {"name": "pilothouse", "type": "http", "url": endpoint}
    return {
        "Claude Code": f"claude mcp add --transport http pilothouse {endpoint}",
        "Cursor (.cursor/mcp.json)": json.dumps(cursor),
        "VS Code": f"code --add-mcp '{json.dumps(code)}'",
        "Codex": f"codex mcp add pilothouse --url {endpoint}",
        "Gemini CLI": f"gemini mcp add --transport http pilothouse {endpoint}",
    }
