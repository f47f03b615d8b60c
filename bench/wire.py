"""A raw MCP client over stdio for benchmarks: JSON lines on pipes, and nothing else.

An SDK's client would put its own import and scheduling cost into every number. This one speaks
the 2025-era handshake, which all contenders understand, and waits with a deadline.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

PROTOCOL_VERSION = "2025-11-25"
STDERR_TAIL = 600

type Json = dict[str, Any]


class WireError(Exception):
    """The server did not answer as an MCP server does; the message ends with its stderr."""


class StdioServer:
    """An MCP server run as a child process, ended with the `with` block.

    The child leads its own process group, so that what it starts can be ended with it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        deadline: float = 30.0,
    ) -> None:
        self._argv = tuple(argv)
        self._deadline = deadline
        self._next_id = 0
        self._unread = bytearray()
        # A file, not a pipe: nobody has to drain it, however much the server logs.
        self._stderr = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=dict(env),
                cwd=cwd,
                bufsize=0,
                process_group=0,
            )
        except OSError as error:
            self._stderr.close()
            raise WireError(f"cannot start {self._argv[0]}: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- speaking MCP ---------------------------------------------------------------------------

    def handshake(self) -> Json:
        """`initialize` and `notifications/initialized`; returns the server's answer."""
        answer = self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {},
                "clientInfo": {"name": "pilothouse-bench", "version": "1"},
            },
        )
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def list_tools(self) -> list[Json]:
        """Every tool of the server, all pages of the list."""
        page = self.request("tools/list")
        tools: list[Json] = list(page["tools"])
        while cursor := page.get("nextCursor"):
            page = self.request("tools/list", {"cursor": cursor})
            tools += page["tools"]
        return tools

    def call_tool(self, name: str, arguments: Json) -> Json:
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise self._failure(f"tool {name} failed: {json.dumps(result.get('content'))}")
        return result

    def call_many(self, name: str, arguments: Json, *, times: int, in_flight: int) -> None:
        """The same call so many times, never more than `in_flight` of them unanswered."""
        until = time.monotonic() + self._deadline
        pending: set[int] = set()
        for _ in range(times):
            if len(pending) == in_flight:
                self._answer_of(name, pending, until)
            pending.add(self._ask("tools/call", {"name": name, "arguments": arguments}))
        while pending:
            self._answer_of(name, pending, until)

    def _answer_of(self, name: str, pending: set[int], until: float) -> None:
        """Wait for one of the pending calls, which must have gone well."""
        while True:
            answer = self._receive(name, until)
            if "method" in answer:
                self._answer_server(answer)
            elif answer.get("id") in pending:
                break
        pending.remove(answer["id"])
        if "error" in answer or answer["result"].get("isError"):
            raise self._failure(f"tool {name} failed: {json.dumps(answer)[:STDERR_TAIL]}")

    def request(self, method: str, params: Json | None = None) -> Json:
        """Send one request and wait for its answer; a protocol error is raised."""
        self._ask(method, params)
        until = time.monotonic() + self._deadline
        while True:
            answer = self._receive(method, until)
            if "method" in answer:
                self._answer_server(answer)
            elif answer.get("id") == self._next_id:
                break
        if "error" in answer:
            raise self._failure(f"{method} was refused: {json.dumps(answer['error'])}")
        result: Json = answer["result"]
        return result

    def wait_for_notification(self, method: str) -> Json:
        """The parameters of the next notification of that name; what came before is skipped."""
        until = time.monotonic() + self._deadline
        while True:
            message = self._receive(method, until)
            if message.get("method") == method:
                params: Json = message.get("params", {})
                return params
            if "method" in message:
                self._answer_server(message)

    def _answer_server(self, message: Json) -> None:
        """Servers may ping; anything else was not offered in our capabilities."""
        if "id" not in message:
            return  # a notification
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        self._send(reply)

    def _ask(self, method: str, params: Json | None) -> int:
        """Send a request without waiting for its answer; its id."""
        self._next_id += 1
        message: Json = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        if params is not None:
            message["params"] = params
        self._send(message)
        return self._next_id

    def _send(self, message: Json) -> None:
        try:
            self._stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except BrokenPipeError as error:
            raise self._failure("it closed its stdin") from error

    def _receive(self, method: str, until: float) -> Json:
        searched = 0
        # Only what is new is searched: an answer may be a megabyte that comes in small pieces.
        while (end := self._unread.find(b"\n", searched)) < 0:
            searched = len(self._unread)
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
                raise self._failure(f"no answer to {method} within {self._deadline:g} s")
            chunk = os.read(self._stdout.fileno(), 1 << 20)
            if not chunk:
                raise self._failure(f"it ended before answering {method}")
            self._unread += chunk
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        try:
            message = orjson.loads(line)  # an answer of 200 kB: our own cost must not count
        except ValueError as error:
            raise self._failure(f"not JSON on stdout: {line[:120]!r}") from error
        if not isinstance(message, dict):
            raise self._failure(f"not a JSON-RPC message: {line[:120]!r}")
        return message

    def _failure(self, what: str) -> WireError:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - STDERR_TAIL))
        tail = self._stderr.read().decode(errors="replace").strip()
        said = f"\nits stderr ends with:\n{tail}" if tail else ""
        return WireError(f"{Path(self._argv[0]).name} {' '.join(self._argv[1:])}: {what}{said}")

    # -- ending it ------------------------------------------------------------------------------

    def close(self) -> None:
        """End the server as a client does (EOF), then by signals, and what is left of its group.

        The child is left unreaped until its group was signalled: as long as it is, its pid, which
        is the group's id, cannot belong to anybody else.
        """
        if self._process.returncode is not None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        if not self._ended_within(2.0):
            self._signal_group(signal.SIGTERM)
            self._ended_within(2.0)
        self._signal_group(signal.SIGKILL)
        self._process.wait()
        self._stdout.close()
        self._stderr.close()

    def _ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)

    def _signal_group(self, number: signal.Signals) -> None:
        # macOS answers EPERM for a group that consists of a zombie.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
