"""Pilothouse: one MCP server to run, drive, watch and intercept a web app."""

__version__ = "0.1.0"
