"""Chromium on this machine: found, and started with a pipe that is shared."""
