"""Bookmark files: reading and writing them."""
