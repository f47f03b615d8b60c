"""Packets in the forms in which they are shown: text, HAR, curl, diff."""
