"""Every command in the documents: run in a prepared place, or run by a test of its own, or not run
for a reason that is said here. A block that nobody looks after fails."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import ssl
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from pilothouse.cli.main import COMMANDS, _parser
from pilothouse.server.call import parse_args
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.client_configs import of_command
from tests.support.doc_place import Place
from tests.support.documents import ROOT, all_blocks, commands, documents
from tests.support.peers import installed
from tests.support.redis import RedisServer
from tests.support.upstreams import authority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.documents import Block

GUARD_S = 60.0
SHELLS = ("sh", "bash", "shell", "console", "zsh")
BLOCKS = all_blocks("sh")
REFERENCE = "docs/reference/tools.md"
TOOLS = {tool.name: tool for spec in GROUP_SPECS for tool in spec.tools}


@dataclass(frozen=True)
class Elsewhere:
    """Run by the guide's own test, which says what comes of it."""

    test: str


@dataclass(frozen=True)
class NotRun:
    """Not run by any test."""

    reason: str


# Ways to run a block


def ends_well(place: Place, block: Block) -> None:
    place.run(block.text)


def prints_a_secret(place: Place, block: Block) -> None:
    """The same one each time, alone on a line."""
    first, second = place.run(block.text), place.run(block.text)
    assert first.stdout == second.stdout
    assert len(first.stdout.strip()) >= 8
    assert len(first.stdout.splitlines()) == 1


def connects(place: Place, block: Block) -> None:
    """What is told to a client names the server that section 1 starts."""
    place.run(block.text)
    (words,) = place.told_clients()
    assert of_command(words).url == "http://127.0.0.1:4000/mcp"


def serves(place: Place, block: Block) -> None:
    """Each line starts a server of its own, which lists tools."""
    for line in commands(block.text):
        with place.serving(on_a_free_port(line)) as url:
            assert httpx.get(f"{url}/health", timeout=GUARD_S).json()["status"] == "ok"
            assert anyio.run(tools_at, f"{url}/mcp")


def on_a_free_port(line: str) -> str:
    return line.replace("--port 4000", "--port 0").replace("--port 443", "--port 0")


async def tools_at(url: str) -> list[str]:
    with anyio.fail_after(GUARD_S):
        async with Client(url) as client:
            return [tool.name for tool in (await client.list_tools()).tools]


def serves_others(place: Place, block: Block) -> None:
    """With TLS and tokens: whoever has none gets to know nothing but that it is there."""
    made = authority(place.folder)
    for name in ("cert.pem", "key.pem"):
        shutil.copy(made.chain_file, place.folder / name)
    with place.serving(on_a_free_port(block.text)) as url:
        trust = ssl.create_default_context(cafile=str(made.ca_file))
        here = url.replace("0.0.0.0", "127.0.0.1")
        headers = {"Host": "agents.example.com"}
        with httpx.Client(verify=trust, headers=headers, timeout=GUARD_S) as client:
            assert client.get(f"{here}/health").json()["status"] == "ok"
            assert client.post(f"{here}/mcp", json={}).status_code == 401


def shares_a_registry(place: Place, block: Block) -> None:
    """With a Redis of the test's own, and on loopback: for others it needs what section 5 needs."""

    async def run() -> None:
        redis = RedisServer(place.folder)
        await redis.start()
        try:
            text = block.text.replace("redis://:PASSWORD@redis.internal:6379/0", redis.url)
            assert text != block.text
            here = text.replace("--host 0.0.0.0", "--port 0")
            await anyio.to_thread.run_sync(check, here)
        finally:
            await redis.kill()

    def check(text: str) -> None:
        with place.serving(text) as url:
            assert httpx.get(f"{url}/health", timeout=GUARD_S).json()["status"] == "ok"

    anyio.run(run)


def serves_with_a_token(place: Place, block: Block) -> None:
    """No call has to carry the token, as the guide says."""
    started = StdioServerParameters(
        command="sh", args=["-euc", block.text], env=place.env, cwd=place.folder
    )

    async def ask() -> bool:
        with anyio.fail_after(GUARD_S):
            async with Client(stdio_client(started)) as client:
                return (await client.call_tool("get_config", {})).is_error

    assert anyio.run(ask) is False


def tells_of_a_hub(place: Place, block: Block) -> None:
    with place.serving("pilothouse serve") as url:
        assert url in place.run(block.text).stdout


GUIDES = "docs/guides"
HANDLED: dict[str, Callable[[Place, Block], None] | Elsewhere | NotRun] = {
    "docs/adding-a-tool.md: make gen": Elsewhere("tests/contract/test_adding_a_tool.py"),
    "README.md: make run": ends_well,
    "README.md: make demo": ends_well,
    f"{GUIDES}/bookmarks.md: pilothouse pair": prints_a_secret,
    f"{GUIDES}/clients.md: make setup": ends_well,
    f"{GUIDES}/clients.md: pilothouse serve": serves,
    f"{GUIDES}/clients.md: pilothouse call status": ends_well,
    f"{GUIDES}/clients.md: claude": Elsewhere("tests/integration/test_client_configs.py"),
    f"{GUIDES}/clients.md: code": Elsewhere("tests/integration/test_client_configs.py"),
    f"{GUIDES}/clients.md: codex": Elsewhere("tests/integration/test_client_configs.py"),
    f"{GUIDES}/clients.md: gemini": Elsewhere("tests/integration/test_client_configs.py"),
    f"{GUIDES}/cloud-run.md: printf": NotRun("Google's commands, in an account of the reader's"),
    f"{GUIDES}/cloud-run.md: gcloud": NotRun("Google's commands, in an account of the reader's"),
    f"{GUIDES}/dashboard.md: pilothouse status": tells_of_a_hub,
    f"{GUIDES}/e2e.md: pilothouse --tools": Elsewhere("tests/integration/e2e/test_guide.py"),
    f"{GUIDES}/e2e.md: #!/bin/sh": Elsewhere("tests/integration/e2e/test_guide.py"),
    f"{GUIDES}/e2e.md: pilothouse wrap": Elsewhere("tests/integration/e2e/test_guide.py"),
    f"{GUIDES}/gateway.md: pilothouse serve --port": serves,
    f"{GUIDES}/gateway.md: claude mcp add": connects,
    f"{GUIDES}/gateway.md: pilothouse serve --worker": serves,
    f"{GUIDES}/gateway.md: pilothouse token": prints_a_secret,
    f"{GUIDES}/gateway.md: export": serves_others,
    f"{GUIDES}/gateway.md: pilothouse serve --host": shares_a_registry,
    f"{GUIDES}/intercept.md: pilothouse token": prints_a_secret,
    f"{GUIDES}/intercept.md: PACKET_PROXY": serves_with_a_token,
    f"{GUIDES}/observe.md: pilothouse": Elsewhere("tests/integration/observe/test_guide.py"),
    f"{GUIDES}/timeline.md: pilothouse": Elsewhere("tests/integration/timeline/test_guide.py"),
}
"""By the document and how the block begins."""


def handled_by(block: Block) -> list[str]:
    known = [key for key in HANDLED if f"{block.file}: {block.first}".startswith(key)]
    # The longest says it best: `code` begins `codex`, too.
    return [max(known, key=len)] if known else []


def test_every_block_is_looked_after_and_no_entry_is_left_over() -> None:
    ours = [block for block in BLOCKS if block.file != REFERENCE]
    assert len(ours) >= 25
    lost = [str(block) for block in ours if not handled_by(block)]
    assert lost == []
    used = Counter(key for block in ours for key in handled_by(block))
    assert HANDLED.keys() - used.keys() == set()


def test_shell_blocks_are_all_called_the_same() -> None:
    # Otherwise one could hide behind another name.
    assert [str(block) for block in all_blocks(*SHELLS) if block.kind != "sh"] == []
    for block in all_blocks("", "text"):
        assert not block.first.startswith(("pilothouse ", "make ", "$ ")), block
    assert [path for path in documents() if "~~~" in path.read_text()] == []


@pytest.mark.parametrize("key", [key for key, how in HANDLED.items() if isinstance(how, Elsewhere)])
def test_a_block_that_another_test_runs_is_known_to_that_test(key: str) -> None:
    how = HANDLED[key]
    assert isinstance(how, Elsewhere)
    text = (ROOT / how.test).read_text()
    assert f'"{Path(key.partition(":")[0]).name}"' in text
    assert "```sh" in text or "blocks(" in text


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as prepared:
        yield prepared


HERE = [
    pytest.param(
        block,
        id=str(block),
        marks=[installed] if "--worker" in block.text else [],
    )
    for block in BLOCKS
    for key in handled_by(block)
    if callable(HANDLED[key])
]


@pytest.mark.parametrize("block", HERE)
def test_a_block_works_as_it_is_written(block: Block, place: Place) -> None:
    (key,) = handled_by(block)
    how = HANDLED[key]
    assert callable(how)
    how(place, block)


INLINE = re.compile(r"`((?:pilothouse|claude mcp|make) [^`\n]+)`")


def in_running_text() -> list[tuple[str, str]]:
    """Commands outside of blocks, each with its document."""
    texts = [(path.name, re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S))
             for path in documents()]  # fmt: skip
    return [(name, line) for name, text in texts for line in INLINE.findall(text)]


def test_commands_in_running_text_are_such_as_can_be_given() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    found = in_running_text()
    assert len(found) >= 40
    for name, line in found:
        program, *words = shlex.split(line)
        if program == "make":
            assert words[0] in targets, (name, line)
        elif program == "claude":
            assert of_command([program, *words]), (name, line)
        elif words != ["--help"]:
            command = words.pop(0) if words[0] in COMMANDS else ""
            # Words of `wrap` are another command's.
            parsed = command == "wrap" or _parser(command).parse_known_args(words)[1] == []
            assert parsed, (name, line)


def test_the_calls_of_the_reference_are_read_by_a_shell_and_taken_by_their_tools() -> None:
    # Made, most would need a session each; that examples work is what each tool's own tests show.
    calls = [block for block in BLOCKS if block.file == REFERENCE]
    assert len(calls) >= 90
    for block in calls:
        program, command, name, arguments = shlex.split(block.text)
        assert (program, command) == ("pilothouse", "call"), block
        parse_args(TOOLS[name], json.loads(arguments))
