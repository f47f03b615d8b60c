"""docs/guides/clients.md and the README's lines: each server that they name is started or reached,
and asked for its tools."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.snippets import snippets
from tests.support.client_configs import Known, of_command, of_file
from tests.support.doc_place import Place
from tests.support.documents import ROOT, Block, blocks
from tests.support.servers import PRODUCT, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

GUIDE = ROOT / "docs" / "guides" / "clients.md"
USUAL = "http://127.0.0.1:4000"
CLIENTS = ("Claude Code", "Cursor", "VS Code", "Codex", "Gemini CLI")
FILES = [block for block in blocks(GUIDE) if block.kind in ("json", "toml")]
COMMANDS = [
    block
    for block in blocks(GUIDE)
    if block.kind == "sh" and block.first.split()[0] in ("claude", "codex", "gemini", "code")
]
README_LINES = re.findall(
    r"^\| ([\w ]+?)(?: \(`[^`]+`\))? \| `(.+)` \|$", (ROOT / "README.md").read_text(), re.M
)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Place() as prepared:
        yield prepared


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with http_server(module=PRODUCT) as running:
        yield running


async def check(known: Known, place: Place, hub: Server) -> None:
    """The server that a client would start or reach answers as it was asked to."""
    here = Known(known.command, known.env, known.url.replace(USUAL, hub.url))
    assert known.url in ("", f"{USUAL}/mcp", f"{USUAL}/message")
    tools = await here.tools(place.env)
    assert {"status", "startSession", "cdp_observe"} <= tools
    assert ("exportSession" in tools) is ("full" in known.command)
    assert ("get_history" in tools) is ("--tools" not in known.command)


def test_the_guide_has_every_client_in_both_ways() -> None:
    text = GUIDE.read_text()
    for name in CLIENTS:
        section = text.split(f". {name}\n", 1)[1].split("\n## ", 1)[0]
        assert "Over HTTP:" in section, name
    assert len(FILES) == 11
    last = [json.loads(block.text)["mcpServers"]["pilothouse"] for block in FILES[-2:]]
    assert "PACKET_PROXY_ACCESS_TOKEN" in last[0]["env"]
    assert last[1]["url"].endswith("/message")
    assert len(COMMANDS) == 10


@pytest.mark.parametrize("block", FILES, ids=str)
async def test_the_server_of_a_file_lists_its_tools(
    block: Block, place: Place, hub: Server
) -> None:
    await check(of_file(block.kind, block.text), place, hub)


@pytest.mark.parametrize("block", COMMANDS, ids=str)
async def test_the_server_of_a_command_lists_its_tools(
    block: Block, place: Place, hub: Server
) -> None:
    place.run(block.text)
    (words,) = place.told_clients()
    await check(of_command(words), place, hub)


@pytest.mark.parametrize(("client", "line"), README_LINES, ids=lambda one: one[:20])
async def test_the_lines_of_the_readme_lead_to_the_same(
    client: str, line: str, place: Place, hub: Server
) -> None:
    assert client in CLIENTS
    if line.startswith("{"):
        await check(of_file("json", line), place, hub)
        return
    place.run(line)
    (words,) = place.told_clients()
    await check(of_command(words), place, hub)


def test_the_readme_has_a_line_for_each_client() -> None:
    assert [client for client, _ in README_LINES] == [*CLIENTS]


def test_what_a_server_prints_at_its_start_stands_in_the_guide() -> None:
    commands = {" ".join(block.text.split()) for block in COMMANDS}
    files = [json.loads(block.text) for block in FILES if block.kind == "json"]
    for line in snippets(USUAL).values():
        known = json.loads(line) in files if line.startswith("{") else line in commands
        assert known, line


def test_the_examples_to_copy_name_the_same_server() -> None:
    servers = json.loads((ROOT / "mcp.json").read_text())["mcpServers"]
    assert servers["pilothouse"]["command"] == "pilothouse"
    assert servers["pilothouse"]["env"].keys() == {"CDP_HOST", "CDP_PORT", "LOG_LEVEL"}
    assert servers["pilothouse-http"]["url"] == f"{USUAL}/mcp"
