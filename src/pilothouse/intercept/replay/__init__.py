"""Sending packets again: edits, plans, sockets and jobs."""
