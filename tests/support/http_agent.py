"""A client of a hub that sends plain HTTP, to see statuses and headers as they are."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

BOTH = {"accept": "application/json, text/event-stream"}
GUARD_S = 60.0
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def told(response: httpx.Response) -> dict[str, Any]:
    """The message of an answer, whichever of the two forms it has."""
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        text = next(line[6:] for line in text.splitlines() if line.startswith("data: {"))
    message: dict[str, Any] = json.loads(text)
    return message


class HttpAgent:
    """One 2025-era session; `modern` sends single requests of the 2026 era."""

    def __init__(self, url: str, *, token: str = "", verify: Any = True, **headers: str) -> None:
        known = {"authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(
            base_url=url,
            headers={**BOTH, **known, **headers},
            timeout=GUARD_S,
            verify=verify,
            # Nothing to close when a test is done with it.
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        self.session = ""

    def post(
        self, method: str, params: dict[str, Any] | None = None, **more: Any
    ) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}, **more}
        headers = {"mcp-session-id": self.session} if self.session else {}
        return self.http.post("/mcp", json=message, headers=headers)

    def open(self) -> HttpAgent:
        """Begin a session, coming again as long as a slow worker has the hub ask for it."""
        client = {"name": "tester", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        while (answer := self.post("initialize", params)).status_code == 503:
            time.sleep(int(answer.headers["retry-after"]))
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = {"mcp-session-id": self.session}
        assert self.http.post("/mcp", json=message, headers=headers).status_code == 202
        return self

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The tool's result."""
        answer = self.post("tools/call", {"name": tool, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = told(answer)["result"]
        return result

    def modern(self, tool: str, path: str = "/mcp", **arguments: Any) -> httpx.Response:
        params = {"name": tool, "arguments": arguments, "_meta": _META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }
        return self.http.post(path, json=message, headers=headers)

    @contextmanager
    def listening(self, path: str = "/mcp") -> Iterator[httpx.Response]:
        """Hold the stream on which a client hears what it did not ask for, as SDKs do: by a GET
        in a session, else by `subscriptions/listen` of the 2026 era."""
        if self.session:
            asked = {"mcp-session-id": self.session, "accept": "text/event-stream"}
            with self.http.stream("GET", path, headers=asked) as stream:
                yield stream
            return
        params = {"notifications": {"toolsListChanged": True}, "_meta": _META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "subscriptions/listen",
        }
        with self.http.stream("POST", path, json=message, headers=headers) as stream:
            yield stream

    def end(self) -> int:
        """DELETE the session; the status."""
        headers = {"mcp-session-id": self.session}
        return self.http.delete("/mcp", headers=headers).status_code
