"""The product on stdio, called as an agent calls it."""

from __future__ import annotations

import base64
from typing import Any

from tests.support.servers import RawStdio


class ToolFailed(AssertionError):
    """A call that should have gone well did not."""


class Agent(RawStdio):
    """`pilothouse` with a client's handshake behind it."""

    def __init__(
        self, *args: str, env: dict[str, str] | None = None, joins_hub: bool = False
    ) -> None:
        super().__init__(*args, module="pilothouse", env=env, joins_hub=joins_hub)
        self._last = 1000
        self.initialize()

    def begin(self, tool: str, **arguments: Any) -> int:
        """Send a call and do not wait for its answer."""
        self._last += 1
        self.send_request("tools/call", {"name": tool, "arguments": arguments}, self._last)
        return self._last

    def answer(self, request_id: int) -> Any:
        while True:
            answer = self.receive()
            if answer.get("id") == request_id:
                return answer

    def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The whole result of a call."""
        result: dict[str, Any] = self.answer(self.begin(tool, **arguments))["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that goes well."""
        result = self.ask(tool, **arguments)
        if result["isError"]:
            raise ToolFailed(result["structuredContent"])
        content: dict[str, Any] = result["structuredContent"]
        return content

    def fault(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that must fail."""
        error: dict[str, Any] = self.failure(tool, **arguments)["error"]
        return error

    def failure(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a call that must fail answers: its error, and what stands beside it."""
        result = self.ask(tool, **arguments)
        assert result["isError"], result
        content: dict[str, Any] = result["structuredContent"]
        return content

    def resource(self, uri: str) -> bytes:
        """A resource's content; its text as bytes too."""
        self._last += 1
        answer = self.request("resources/read", {"uri": uri}, id=self._last)
        content = answer["result"]["contents"][0]
        return base64.b64decode(content["blob"]) if "blob" in content else content["text"].encode()
