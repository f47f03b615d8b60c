"""Patches for what mitmproxy does not do by itself."""
