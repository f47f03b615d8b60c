"""What holds for every tool of the group: the token comes first, and how faults look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pilothouse.core.declare.faults import Envelope, Fault, InvalidInput
from pilothouse.intercept.model import PacketNotFound, ReadOnly, TokenRefused
from pilothouse.intercept.tools.listing import RESOURCES, TOOLS
from pilothouse.intercept.tools.shared import ABSENT, MOST_ID, packet
from pilothouse.server.call import parse_args

if TYPE_CHECKING:
    from pilothouse.core.declare.tool import Tool

TOKEN = "RightTokenOfTwenty"
EMPTY: dict[str, list[Any]] = {
    "listenPorts": [],
    "servers": [],
    "modifications": [],
    "sslPassThroughs": [],
}
NEEDED: dict[str, dict[str, Any]] = {
    "get_packet_detail": {"packet_id": 1},
    "filter_explain": {"filter": "method == GET"},
    "update_config": {"config_json": EMPTY},
    "restore_config": {"backup_id": "backup_20250804_120000"},
    "resend_packet": {"packet_id": 1},
    "bulk_send": {"packet_ids": [1]},
    "get_job_status": {"job_id": "j1", "stop": True},
    "export_curl": {"packet_id": 1},
    "diff_packets": {"a": 1, "b": 1},
    "mock_rules": {"rules": []},
    "breakpoints": {"rules": []},
    "release_packet": {"held_id": "h1"},
}
"""Arguments with which a tool that writes does write."""

each_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


class Shut:
    """A proxy that lets nobody in, and has nothing else that could be asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, bool]] = []

    async def admit(self, token: str | None, *, writes: bool = False) -> NoReturn:
        self.asked.append((token, writes))
        raise TokenRefused("the access token is missing or wrong")

    async def admit_to_history(self, token: str | None) -> NoReturn:
        await self.admit(token)


def test_all_tools_of_the_group_are_listed() -> None:
    assert [tool.name for tool in TOOLS] == [
        "get_history",
        "get_packet_detail",
        "filter_explain",
        "get_logs",
        "get_config",
        "update_config",
        "restore_config",
        "list_backups",
        "resend_packet",
        "bulk_send",
        "get_job_status",
        "export_har",
        "export_curl",
        "diff_packets",
        "mock_rules",
        "breakpoints",
        "held_packets",
        "release_packet",
    ]
    assert RESOURCES == ()


@pytest.mark.anyio
@each_tool
@pytest.mark.parametrize(
    ("given", "judged"),
    [
        (TOKEN, TOKEN),
        ("", ""),
        (None, None),
        (1, None),
        (True, None),
        ([TOKEN], None),
        ({"token": TOKEN}, None),
    ],
    ids=repr,
)
async def test_it_asks_for_nothing_before_the_token_is_judged(
    tool: Tool, given: Any, judged: str | None
) -> None:
    shut = Shut()
    args = parse_args(tool, {"access_token": given, **NEEDED.get(tool.name, {})})
    with pytest.raises(TokenRefused):
        await tool.handler(args, shut)
    assert shut.asked == [(judged, tool.effect != "read")]
    assert shut.asked[0][0] is not ABSENT


@pytest.mark.anyio
@each_tool
async def test_an_absent_token_is_told_from_an_empty_one(tool: Tool) -> None:
    shut = Shut()
    with pytest.raises(TokenRefused):
        await tool.handler(parse_args(tool, NEEDED.get(tool.name, {})), shut)
    assert shut.asked[0][0] is ABSENT
    assert ABSENT == ""  # so whoever compares by value refuses it


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["mock_rules", "breakpoints", "get_job_status"])
async def test_to_look_at_rules_and_jobs_is_not_to_write(name: str) -> None:
    (tool,) = [tool for tool in TOOLS if tool.name == name]
    shut = Shut()
    with pytest.raises(TokenRefused):
        await tool.handler(parse_args(tool, {"access_token": TOKEN}), shut)
    assert shut.asked == [(TOKEN, False)]


@each_tool
def test_the_token_is_described_and_not_required(tool: Tool) -> None:
    schema = tool.input_schema
    assert schema["properties"]["access_token"]["type"] == "string"
    assert "access_token" not in schema.get("required", [])


@each_tool
def test_every_fault_has_a_number_of_the_spec(tool: Tool) -> None:
    numbers = {fault.number for fault in tool.raises}
    assert numbers <= {-32001, -32002, -32003, -32004, -32005, -32602}
    assert {-32001, -32005} <= numbers
    assert (ReadOnly in tool.raises) == (tool.effect != "read")


@pytest.mark.parametrize("packet_id", [0, -1, MOST_ID + 1, 10**400])
def test_a_number_that_can_be_no_packet_is_not_found(packet_id: int) -> None:
    with pytest.raises(PacketNotFound) as refused:
        packet(packet_id)
    error = refused.value.render(Envelope.NUMBER)
    assert error["code"] == -32003
    assert len(str(error)) < 400


def test_a_missing_argument_is_named_as_the_spec_has_it() -> None:
    (tool,) = [tool for tool in TOOLS if tool.name == "get_packet_detail"]
    with pytest.raises(InvalidInput) as refused:
        parse_args(tool, {"access_token": TOKEN})
    fault: Fault = refused.value
    assert fault.render(Envelope.NUMBER)["code"] == -32602
    assert "packet_id: " in fault.message
    assert "is required" in fault.message
