"""The proxy itself: mitmproxy in a process of its own, asked through one socket.

    __main__ ── link (JSON lines) ── commands ── listeners   which ports are listened on
                                              ├─ capture     one Exchange per flow, mocks
                                              ├─ changing    rules and breakpoints on them
                                              ├─ breakpoints what is held for somebody's decision
                                              └─ live        connections that take messages

Nothing outside this package imports mitmproxy.
"""
