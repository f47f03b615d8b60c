"""One agent of either era, over HTTP or stdio, that is given what no client would send."""

from __future__ import annotations

import json
import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from pilothouse.hub.mcp.revision_2026 import encoded
from tests.support.http_agent import BOTH
from tests.support.servers import PRODUCT, RawStdio

if TYPE_CHECKING:
    from collections.abc import Mapping

HANG_S = 30.0
"""A call that was not answered by then hangs: none is told to wait as long."""
LONGEST_HEADER = 4_000
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INFO = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "fuzz", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one request."""

    took: float
    message: Mapping[str, Any] | None
    """The JSON-RPC answer; None: there was none in time, or it was no answer."""
    status: int = 200
    """Of HTTP; 0: the connection broke."""
    text: str = ""
    """What came instead of a JSON-RPC answer."""

    @property
    def is_hung(self) -> bool:
        return self.took >= HANG_S

    @property
    def result(self) -> Mapping[str, Any]:
        """The tool's result; empty where it was refused before."""
        result = (self.message or {}).get("result")
        return result if isinstance(result, dict) else {}

    @property
    def structured(self) -> Mapping[str, Any]:
        content = self.result.get("structuredContent")
        return content if isinstance(content, dict) else {}


class FuzzClient(Protocol):
    era: str

    def request(self, method: str, params: Mapping[str, Any]) -> Reply: ...


def call(client: FuzzClient, tool: str, arguments: Mapping[str, Any]) -> Reply:
    return client.request("tools/call", {"name": tool, "arguments": arguments})


class HttpClient:
    """An agent of a hub: a session of the 2025 era, or single requests of that of 2026."""

    def __init__(self, url: str, era: str) -> None:
        self.era = era
        self._numbers = count(1)
        self._http = httpx.Client(base_url=url, timeout=2 * HANG_S, headers=BOTH)
        self._headers: dict[str, str] = {}
        if era == LEGACY:
            answer = self._post({"method": "initialize", "params": INFO, "id": 0})
            self._headers = {"mcp-session-id": answer.headers["mcp-session-id"]}
            self._post({"method": "notifications/initialized"})

    def _post(self, message: Mapping[str, Any], **headers: str) -> httpx.Response:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        known = {"content-type": "application/json", **self._headers, **headers}
        return self._http.post("/mcp", content=body, headers=known)

    def request(self, method: str, params: Mapping[str, Any]) -> Reply:
        number = next(self._numbers)
        headers = {}
        if self.era == MODERN:
            params = {**params, "_meta": META}
            headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
            if isinstance(name := params.get("name"), str):
                headers["mcp-name"] = name
            session = params.get("arguments", {}).get("sessionId")
            if isinstance(session, str) and len(session) < LONGEST_HEADER:
                with suppress(UnicodeEncodeError):  # half of a character
                    headers["mcp-param-session"] = encoded(session)
        began = time.monotonic()
        try:
            answer = self._post({"method": method, "params": params, "id": number}, **headers)
        except httpx.TimeoutException:
            return Reply(time.monotonic() - began, None, 0, "no answer")
        except httpx.HTTPError as error:
            return Reply(time.monotonic() - began, None, 0, repr(error))
        took = time.monotonic() - began
        return Reply(took, _answer(answer, number), answer.status_code, answer.text[:2_000])

    def close(self) -> None:
        if self._headers:
            with suppress(httpx.HTTPError):
                self._http.delete("/mcp", headers=self._headers)
        self._http.close()


def _answer(response: httpx.Response, number: int) -> Mapping[str, Any] | None:
    """Return the answer to a request, which may come on a stream with other messages."""
    lines = [response.text]
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        lines = [line[5:] for line in response.text.split("\n") if line.startswith("data:")]
    for line in lines:
        with suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict) and ("error" in message or message.get("id") == number):
                return message
    return None


class StdioClient(RawStdio):
    """An agent of a process of its own."""

    def __init__(self, *args: str, era: str, env: dict[str, str]) -> None:
        super().__init__(*args, module=PRODUCT, env=env)
        self.era = era
        self._numbers = count(1)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if era == LEGACY:
            self.request("initialize", INFO)
            self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def request(self, method: str, params: Mapping[str, Any] | None = None, id: int = 0) -> Reply:
        number = next(self._numbers)
        more = {"_meta": META} if self.era == MODERN else {}
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        began = time.monotonic()
        try:
            self.send(json.dumps({**message, "params": {**(params or {}), **more}}).encode())
        except OSError as error:
            return Reply(time.monotonic() - began, None, 0, repr(error))
        return self.answer_to(number, began)

    def answer_to(self, number: int | None, began: float) -> Reply:
        """Wait for the answer to a request; a message that was refused may be answered without
        its number."""
        while (left := began + 2 * HANG_S - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                break
            if not line:
                return Reply(time.monotonic() - began, None, 0, "the process has ended")
            message = json.loads(line)
            known = message.get("id")
            if known == number or (known is None and "error" in message):
                return Reply(
                    time.monotonic() - began, message, text=line[:2_000].decode(errors="replace")
                )
        return Reply(time.monotonic() - began, None, 0, "no answer")

    def close(self) -> tuple[bytes, str]:
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait(60)
        self._reader.join(5)
        self._drain.join(5)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return b"", self.log()
