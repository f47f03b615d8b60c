"""The pure part: no event loop, sockets, files, clock or environment."""
