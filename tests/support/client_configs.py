"""How MCP clients are told of a server: their files and commands, read as they read them."""

from __future__ import annotations

import argparse
import json
import tomllib
from dataclasses import dataclass, field
from typing import Any, NoReturn

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

GUARD_S = 120


@dataclass(frozen=True)
class Known:
    """A server as a client knows it: by a command or by a URL."""

    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""

    async def tools(self, env: dict[str, str]) -> set[str]:
        """What it answers when it is asked for its tools; `env` is the client's own."""
        target: Any = self.url
        if self.command:
            program, *args = self.command
            target = stdio_client(
                StdioServerParameters(command=program, args=args, env={**env, **self.env})
            )
        with anyio.fail_after(GUARD_S):
            async with Client(target) as client:
                return {tool.name for tool in (await client.list_tools()).tools}


def of_file(kind: str, text: str) -> Known:
    """The one server of a configuration file."""
    whole = tomllib.loads(text) if kind == "toml" else json.loads(text)
    ((table, servers),) = whole.items()
    assert table in ("mcpServers", "servers", "mcp_servers"), table
    ((name, entry),) = servers.items()
    assert name == "pilothouse"
    return _of_entry(entry)


def _of_entry(entry: dict[str, Any]) -> Known:
    known = {"name", "type", "command", "args", "env", "url", "timeout"}
    known |= {"startup_timeout_sec", "tool_timeout_sec"}
    assert entry.keys() <= known, entry.keys() - known
    if "command" in entry:
        assert entry.get("type", "stdio") == "stdio"
        return Known((entry["command"], *entry.get("args", ())), entry.get("env", {}))
    assert entry.get("type", "http") == "http"
    return Known(url=entry["url"])


class _Strict(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AssertionError(f"{self.prog}: {message}")


def of_command(words: list[str]) -> Known:
    """What a client's own command tells it, the client's name first."""
    client, *rest = words
    if client == "code":
        flag, entry = rest
        assert flag == "--add-mcp"
        server = json.loads(entry)
        assert server["name"] == "pilothouse"
        return _of_entry(server)
    assert rest[:2] == ["mcp", "add"]
    options, behind = _split(rest[2:])
    parser = _Strict(prog=f"{client} mcp add", allow_abbrev=False, add_help=False)
    # Claude Code takes all words up to the next flag, so that the name has to stand before.
    several: dict[str, Any] = (
        {"nargs": "+", "action": "extend"} if client == "claude" else {"action": "append"}
    )
    parser.add_argument("--env", default=[], **several)
    if client == "codex":
        parser.add_argument("--url", default="")
    else:
        parser.add_argument("--transport", choices=("stdio", "http"), default="stdio")
        parser.add_argument("--scope", choices=("local", "user", "project"))
    parser.add_argument("name")
    parser.add_argument("place", nargs="?", default="")
    told = parser.parse_args(options)
    assert told.name == "pilothouse"
    env = dict(pair.split("=", 1) for pair in told.env)
    if client == "codex" and told.url:
        return Known(url=told.url)
    if getattr(told, "transport", "stdio") == "http":
        return Known(url=told.place)
    command = (*((told.place,) if told.place else ()), *behind)
    assert command, words
    return Known(command, env)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `--`, and what behind it."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]
