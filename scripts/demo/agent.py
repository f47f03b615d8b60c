"""The agent: the MCP SDK's own client, which starts `pilothouse` on stdio as any client does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp import types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pilothouse import __version__
from scripts.demo.profile import AGENT
from scripts.demo.telling import Call, DemoFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scripts.demo.telling import Teller

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "pilothouse")
COMMAND_S = 60.0
NAME = types.Implementation(name=AGENT, version=__version__)


class Agent:
    """A client's side of one MCP session."""

    def __init__(self, client: Client, tools: frozenset[str], teller: Teller) -> None:
        self._client = client
        self._teller = teller
        self.tools = tools

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that goes well. Raises DemoFailed."""
        is_error, content = await self.ask(tool, **arguments)
        if is_error:
            raise DemoFailed(f"{tool} failed: {_reason(content)}")
        return content

    async def failure(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return what a call that the story needs to fail answers. Raises DemoFailed."""
        is_error, content = await self.ask(tool, **arguments)
        if not is_error:
            raise DemoFailed(f"{tool} went well, although the shop has a fault: was it mended?")
        return content

    async def ask(self, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
        """Whether it failed, and the structured content."""
        began = time.monotonic()
        answer = await self._client.call_tool(tool, arguments)
        is_error = bool(answer.is_error)
        self._teller.called(Call(tool, arguments, time.monotonic() - began, is_error))
        return is_error, dict(answer.structured_content or {})


@asynccontextmanager
async def connected(teller: Teller, log: Path) -> AsyncIterator[Agent]:
    """An agent in the folder of this project, whose server joins the user's hub or starts it.

    What the server writes to stderr goes to `log`. Raises DemoFailed.
    """
    # As a user's client is configured to: with the token, no intercept call has to carry it.
    given = {**os.environ, "PACKET_PROXY_ACCESS_TOKEN": said_by("token")}
    server = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "--profile", "full"],
        env={"LOG_LEVEL": "warn", **given},
        cwd=ROOT,
    )
    with log.open("w") as errors:
        transport = stdio_client(server, errlog=errors)
        async with Client(transport, client_info=NAME) as client:
            tools = frozenset(tool.name for tool in (await client.list_tools()).tools)
            yield Agent(client, tools, teller)


class Hub(NamedTuple):
    """The hub that serves the user's agents."""

    url: str
    pid: int


def user_hub() -> Hub:
    """The one that runs; a client that has called a tool has one. Raises DemoFailed."""
    status = json.loads(said_by("status", "--json"))
    return Hub(status["url"], status["pid"])


def said_by(*words: str) -> str:
    """What a command of pilothouse prints. Raises DemoFailed."""
    ran = subprocess.run(
        [*COMMAND, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if ran.returncode:
        raise DemoFailed(f"pilothouse {' '.join(words)} failed: {ran.stderr.strip()}")
    return ran.stdout.strip()


def _reason(content: dict[str, Any]) -> str:
    error = content.get("error", content)
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)
