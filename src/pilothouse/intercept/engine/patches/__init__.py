"""What mitmproxy does not do by itself."""
