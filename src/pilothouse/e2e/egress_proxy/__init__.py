"""The proxy that enforces where a session's browser may go."""
