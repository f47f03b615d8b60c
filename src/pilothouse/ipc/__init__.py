"""Sockets between processes of ours, and the frames on them."""
