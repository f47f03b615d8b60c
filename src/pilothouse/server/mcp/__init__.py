"""MCP by the SDK: the handlers, and where its work is saved."""
