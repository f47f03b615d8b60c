"""Keeps every test apart from the user's own home, hub and ports, and from the other tests."""
