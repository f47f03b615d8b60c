"""The link to the Chrome extension: its socket, its pairing and what it says."""
