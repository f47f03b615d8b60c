"""What clients are told when a worker went away."""

RESET = (
    "Pilothouse: the worker of this session was started anew, so its browser state was reset:"
    " pages, cookies and whatever else earlier calls built up are gone."
)
LOST = (
    "the worker of this session went away while it served this call, and its state with it;"
    " the next call gets a new one"
)
TOOLS_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
"""Notification to clients that the list of tools has changed."""
