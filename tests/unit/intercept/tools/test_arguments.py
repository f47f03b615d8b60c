"""Arguments of the tools: what is refused and how, and the plans that sending makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from pilothouse.intercept.replay.plan import bulk_plan, resend_plan
from pilothouse.intercept.tools.config import get_config, unmasked, update_config
from pilothouse.intercept.tools.history import get_history, get_logs
from pilothouse.intercept.tools.resend import bulk_send, resend_packet
from pilothouse.intercept.tools.rules import breakpoints, mock_rules
from pilothouse.server.call import parse_args

if TYPE_CHECKING:
    from pilothouse.core.declare.tool import Tool

SPEC = {
    "packet_id": 1,
    "count": 20,
    "interval_ms": 100,
    "modifications": [
        {
            "target": "request",
            "type": "regex_replace",
            "pattern": "sessionId=\\w+",
            "replacement": "sessionId=modified_{{index}}",
        },
        {"type": "header_add", "name": "X-Test-Counter", "value": "{{timestamp}}"},
    ],
    "async": False,
    "allow_duplicate_headers": False,
}
"""The call that the spec shows."""
RULE = {
    "id": 1,
    "enabled": True,
    "server_id": -1,
    "direction": "CLIENT_REQUEST",
    "pattern": "Authorization: .*",
    "method": "REGEX",
    "replaced": "Authorization: Bearer hunter2222",
}


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        *((get_history, {"limit": limit}, "integer, 1 to 1000") for limit in (0, 1_001, "x", 1.5)),
        (get_logs, {"level": "fatal"}, "one of debug, info, warn, error"),
        (
            get_config,
            {"categories": "filters"},
            "a list, each one of listenPorts, servers, modifications, sslPassThroughs",
        ),
    ],
)
def test_what_is_refused_says_what_was_expected(
    tool: Tool, args: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_args(tool, args)
    assert refused.value.number == -32602
    assert refused.value.details["expected"] == expected


@pytest.mark.parametrize(
    ("tool", "args", "field", "expected"),
    [
        (
            get_config,
            {"categories": ["servers", "filters"]},
            "categories.1",
            "one of listenPorts, servers, modifications, sslPassThroughs",
        ),
        (bulk_send, {"packet_ids": [1, "one"]}, "packet_ids.1", "integer"),
        (
            mock_rules,
            {"rules": [{"url": "/a", "status": 99}]},
            "rules.0.status",
            "integer, 200 to 599",
        ),
        (mock_rules, {"rules": [{}]}, "rules.0.url", "string"),
    ],
)
def test_what_is_refused_within_a_list_says_what_was_expected_there(
    tool: Tool, args: dict[str, Any], field: str, expected: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_args(tool, args)
    details = refused.value.details
    assert (details["field"], details["expected"]) == (field, expected)
    assert f"again with {field} as {expected}" in refused.value.hint


def test_a_name_that_is_misspelt_within_a_list_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_args(mock_rules, {"rules": [{"url": "/a", "statsu": 200}]})
    assert refused.value.message == "mock_rules has no argument 'rules.0.statsu'"
    assert refused.value.hint == "did you mean 'status'?"


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (update_config, {"config_json": None}),
        (update_config, {"config_json": []}),
        (update_config, {"config_json": "{}"}),
        *((bulk_send, {"packet_ids": ids}) for ids in ([], list(range(101)), ["one"], None)),
        (resend_packet, {"packet_id": 1, "count": 0}),
        (resend_packet, {"packet_id": 1, "count": 1_001}),
        (resend_packet, {"packet_id": 1, "interval_ms": -1}),
        (resend_packet, {"packet_id": 1, "interval_ms": 60_001}),
        (resend_packet, {"packet_id": 1, "async_": True}),
        (resend_packet, {"packet_id": 1, "modifications": [{"type": "delete"}]}),
        (resend_packet, {"packet_id": 1, "modifications": [{"pattern": "x"}]}),
        (resend_packet, {"packet_id": 1, "modifications": "all"}),
        (mock_rules, {"rules": [{}]}),
        (mock_rules, {"rules": [{"url": ""}]}),
        (mock_rules, {"rules": [{"url": "/a", "status": 199}]}),
        (mock_rules, {"rules": [{"url": "/a", "status": 600}]}),
        (mock_rules, {"rules": [{"url": "/a", "delay_ms": 60_001}]}),
        (mock_rules, {"rules": [{"url": "/a", "times": 0}]}),
        (mock_rules, {"rules": [{"url": "/a", "code": 200}]}),
        (breakpoints, {"rules": [{"url": "/a", "on": "never"}]}),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is(
    tool: Tool, args: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        parse_args(tool, args)


def plan(tool: Tool, **args: Any) -> dict[str, Any]:
    read: Any = parse_args(tool, {"access_token": "secret", **args})
    made: dict[str, Any] = read.plan()
    return made


def test_the_call_of_the_spec_is_the_plan_that_is_sent() -> None:
    made = plan(resend_packet, **SPEC)
    assert made == SPEC
    assert resend_plan(made).total == 20


def test_a_plan_is_never_told_the_token() -> None:
    assert "access_token" not in plan(resend_packet, packet_id=1)
    assert "access_token" not in plan(bulk_send, packet_ids=[1])


def test_defaults_are_one_send_at_once() -> None:
    read = resend_plan(plan(resend_packet, packet_id=1))
    assert (read.count, read.interval_ms, read.edits, read.is_async) == (1, 0, (), False)


def test_several_packets_go_in_parallel_by_default() -> None:
    read = bulk_plan(plan(bulk_send, packet_ids=[1, 1, 2], count=2))
    assert (read.is_parallel, read.packet_ids, read.timeout_ms) == (True, (1, 1, 2), 30_000)


def test_single_packets_of_many_can_be_edited() -> None:
    param = {"pattern": "id=\\d+", "value_template": "id={{index}}", "packet_index": 1}
    read = bulk_plan(plan(bulk_send, packet_ids=[1, 2], regex_params=[param]))
    assert [len(read.edits_for(place)) for place in (0, 1)] == [0, 1]


@pytest.mark.parametrize(
    "config",
    [
        {"modifications": "none"},
        {"modifications": [1, None, {}]},
        {"modifications": [{"id": 9, "replaced": f"Authorization: Bearer {MASK}"}]},
        {"other": [{"id": 1}]},
    ],
    ids=repr,
)
def test_what_does_not_stem_from_the_shown_is_left_alone(config: dict[str, Any]) -> None:
    assert unmasked(config, {"modifications": [RULE]}, Redactor()) == config
