"""Flows of mitmproxy as packets: HTTP messages, streams and sockets."""
