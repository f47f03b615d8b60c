"""The proxy itself: mitmproxy in a process of its own, asked through one socket.

    __main__ ── link (JSON lines) ── commands ─┬─ listeners          which ports are listened on
                                               ├─ flows/http         one Exchange per flow, mocks
                                               ├─ rules/apply        rules and breakpoints on them
                                               ├─ rules/breakpoints  what is held for a decision
                                               └─ flows/sockets      connections that take messages

Nothing outside this package imports mitmproxy.
"""
