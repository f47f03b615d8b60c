"""The DevTools protocol: its WebSocket, its client and its targets."""
