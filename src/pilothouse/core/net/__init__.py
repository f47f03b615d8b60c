"""Network protocols without IO: URLs, origins, HTTP/1, JSON-RPC, DevTools."""
