"""Sockets of this machine: who owns them, and who may use ours."""
