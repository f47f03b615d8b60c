"""docs/guides/coming-from.md: all of their tools are there, and ours are as they are declared."""

from __future__ import annotations

import re

import pytest

from pilothouse.wiring.groups import GROUP_SPECS
from tests.support.client_configs import Known
from tests.support.npm import PEERS
from tests.support.peers import DEVTOOLS, installed
from tests.support.servers import ROOT, environment

COMING_FROM = (ROOT / "docs" / "guides" / "coming-from.md").read_text()
TOOLS = {tool.name: tool for spec in GROUP_SPECS for tool in spec.tools}
CALL = re.compile(r"`(\w+)\(([\w, ]*)\)`(\*?)")
"""One of our tools with some of its arguments; a star for the full profile."""


def rows(server: str) -> list[tuple[set[str], str]]:
    """Their tools, each line's together, and what stands in the column of ours."""
    section = COMING_FROM.split(f"## From {server}\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (`.+?) \| (.+?) \| (.*?)\|$", section, re.M)
    return [(set(re.findall(r"`(\w+)`", theirs)), ours) for theirs, ours, _ in found]


def theirs(server: str) -> list[str]:
    return sorted(name for names, _ in rows(server) for name in names)


@pytest.mark.parametrize("server", ["playwright-mcp", "chrome-devtools-mcp", "PacketProxy"])
def test_each_of_their_tools_has_one_of_ours_or_a_dash(server: str) -> None:
    for names, ours in rows(server):
        assert names
        assert ours == "–" or CALL.fullmatch(ours), (names, ours)


def test_our_tools_and_their_arguments_are_as_declared() -> None:
    calls = CALL.findall(COMING_FROM)
    assert len(calls) >= 100
    for name, arguments, star in calls:
        assert name in TOOLS, name
        known = TOOLS[name].input_schema.get("properties", {})
        given = [one.strip() for one in arguments.split(",") if one.strip()]
        assert set(given) <= known.keys(), (name, set(given) - known.keys())
        assert (star == "*") is (TOOLS[name].profile == "full"), name


@installed
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("server", "argv"),
    [
        (
            "playwright-mcp",
            (
                str(PEERS / "node_modules/@playwright/mcp/cli.js"),
                "--isolated",
                "--caps=vision,pdf,devtools,network,storage,testing,config",
            ),
        ),
        (
            "chrome-devtools-mcp",
            (
                str(DEVTOOLS),
                "--isolated",
                "--no-usage-statistics",
                "--experimentalVision",
                "--memoryDebugging",
                "--categoryExtensions",
                "--categoryPwa",
            ),
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
async def test_the_page_has_all_tools_of_the_real_server(
    server: str, argv: tuple[str, ...]
) -> None:
    env = environment({"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"})
    assert theirs(server) == sorted(await Known(("node", *argv)).tools(env))


def test_the_page_has_the_tools_of_packetproxy() -> None:
    names = "get_history get_packet_detail get_logs get_config update_config restore_config"
    more = "resend_packet bulk_send get_job_status call_vulcheck_helper"
    assert theirs("PacketProxy") == sorted(f"{names} {more}".split())
