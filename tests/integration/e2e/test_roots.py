"""Folders that a client names as its roots: commands may run there, and nowhere else outside."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.servers import RawStdio

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.browser

SERVE = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]


class Client(RawStdio):
    """Answers `roots/list`, if it is a client that has roots."""

    def __init__(self, home: Path, roots: list[str] | None) -> None:
        super().__init__("--tools", "e2e", module="pilothouse", env={"PILOTHOUSE_HOME": str(home)})
        self.roots = roots
        self.asked = 0
        about = {"name": "test", "version": "1"}
        capabilities: dict[str, Any] = {} if roots is None else {"roots": {}}
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": about,
        }
        self.request("initialize", params, id=0)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.send_request("tools/call", {"name": tool, "arguments": arguments}, 7)
        while True:
            message = self.receive()
            if message.get("method") == "roots/list":
                self.asked += 1
                roots = [{"uri": uri} for uri in self.roots or ()]
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": roots}}
                self.send(json.dumps(answer).encode())
            elif message.get("id") == 7:
                content: dict[str, Any] = message["result"]["structuredContent"]
                return content


def test_a_command_runs_in_a_root_of_the_client(tmp_path: Path) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    (project / "index.html").write_text("<title>In the root</title>")
    with Client(tmp_path / "home", [project.as_uri(), "file://host/x"]) as at:
        started = at.call("startSession", command=SERVE, cwd=str(project))
        assert at.asked == 1
        assert at.call("navigate", url="/")["title"] == "In the root"
        at.call("endSession", sessionId=started["sessionId"])


@pytest.mark.parametrize("roots", [None, [], ["file:///nowhere"], ["https://example.com/"]])
def test_a_folder_that_is_no_root_is_refused(tmp_path: Path, roots: list[str] | None) -> None:
    with Client(tmp_path / "home", roots) as at:
        error = at.call("startSession", command=SERVE, cwd=str(tmp_path))["error"]
        assert error["type"] == "command_not_allowed"
        assert "PILOTHOUSE_ROOTS" in error["suggestion"]
        assert at.asked == (0 if roots is None else 1)
