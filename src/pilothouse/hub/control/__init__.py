"""The hub's control socket, where relays and commands ask."""
