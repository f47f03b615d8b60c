"""What the hub itself knows of MCP: handshakes, templates and routing keys."""
