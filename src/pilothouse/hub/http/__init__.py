"""MCP over HTTP at the hub: requests in, and on to the worker of their session."""
