"""What holds for every tool of the group: tokens first, and how arguments and errors look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.faults import Envelope, Fault, InvalidInput
from pilothouse.intercept.asking import ABSENT, MOST_ID, packet
from pilothouse.intercept.model import PacketNotFound, ReadOnly, TokenRefused
from pilothouse.intercept.tools import RESOURCES, TOOLS
from pilothouse.server.call import parse_args
from tests.support.fake_interceptor import TOKEN, FakeInterceptor, call, exchange

if TYPE_CHECKING:
    from pilothouse.core.tool import Tool

pytestmark = pytest.mark.anyio

NEEDED: dict[str, dict[str, Any]] = {
    "get_packet_detail": {"packet_id": 1},
    "filter_explain": {"filter": "method == GET"},
    "update_config": {
        "config_json": {
            "listenPorts": [],
            "servers": [],
            "modifications": [],
            "sslPassThroughs": [],
        }
    },
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
"""Arguments with which a call can succeed, and with which a tool that writes does write."""

WRITERS = {
    "update_config",
    "restore_config",
    "resend_packet",
    "bulk_send",
    "get_job_status",
    "mock_rules",
    "breakpoints",
    "release_packet",
}

each_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def interceptor(**changes: Any) -> FakeInterceptor:
    fake = FakeInterceptor(details={1: exchange(1)}, running_jobs={"j1": {"job_id": "j1"}})
    fake.hold("h1", b"GET / HTTP/1.1\r\n\r\n", b"")
    for name, value in changes.items():
        setattr(fake, name, value)
    return fake


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


@each_tool
async def test_with_the_token_it_answers(tool: Tool) -> None:
    await call(tool, interceptor(), **NEEDED.get(tool.name, {}))


@each_tool
async def test_an_absent_token_is_filled_from_the_setting(tool: Tool) -> None:
    await call(tool, interceptor(), access_token=ABSENT, **NEEDED.get(tool.name, {}))


@each_tool
@pytest.mark.parametrize(
    "token",
    [None, "", " ", TOKEN[:-1], TOKEN + "x", TOKEN.lower(), 1, True, [TOKEN], {"token": TOKEN}],
    ids=repr,
)
async def test_any_other_token_is_refused_alike_and_nothing_is_done(tool: Tool, token: Any) -> None:
    fake = interceptor()
    with pytest.raises(TokenRefused) as refused:
        await call(tool, fake, access_token=token, **NEEDED.get(tool.name, {}))
    assert refused.value.number == -32005
    assert fake.asked == []


async def test_an_empty_token_in_place_of_an_absent_one_is_not_filled() -> None:
    assert ABSENT == ""  # so whoever compares by value refuses it
    with pytest.raises(TokenRefused):
        await call(TOOLS[0], interceptor(), access_token="")


@each_tool
async def test_read_only_refuses_what_changes_or_sends(tool: Tool) -> None:
    fake = interceptor(read_only=True)
    if tool.name in WRITERS:
        with pytest.raises(ReadOnly) as refused:
            await call(tool, fake, **NEEDED.get(tool.name, {}))
        assert refused.value.number == -32005
        assert fake.asked == []
    else:
        await call(tool, fake, **NEEDED.get(tool.name, {}))


@pytest.mark.parametrize("name", ["mock_rules", "breakpoints", "get_job_status"])
async def test_read_only_lets_rules_and_jobs_be_looked_at(name: str) -> None:
    (tool,) = [tool for tool in TOOLS if tool.name == name]
    await call(tool, interceptor(read_only=True))


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
async def test_a_number_that_can_be_no_packet_is_not_found(packet_id: int) -> None:
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
