"""Transports of the server: standard streams, sockets and HTTP."""
