"""Large answers that travel round the SDK arrive as if they had not."""

import json

from pilothouse.server.mcp.sdk_bypass import MOST_HELD, SdkBypass


def line_of(ticket: str) -> str:
    return json.dumps(
        {"result": {"content": [{"text": ticket}], "structuredContent": {ticket: 1}}},
        separators=(",", ":"),
    )


def test_content_stands_in_both_places_of_its_ticket() -> None:
    bypass = SdkBypass()
    text = json.dumps({"events": ['a "quoted" line\n', "\u202e ü"]}, ensure_ascii=False)
    result = json.loads(bypass.deliver(line_of(bypass.hold(text))))["result"]
    assert result["structuredContent"] == json.loads(text)
    assert result["content"][0]["text"] == text


def test_content_that_names_a_ticket_is_left_as_it_is() -> None:
    bypass = SdkBypass()
    first = bypass.hold('{"a":1}')
    text = json.dumps({"said": f'{{"{first}":1}}'})
    result = json.loads(bypass.deliver(line_of(bypass.hold(text))))["result"]
    assert result["structuredContent"] == json.loads(text)
    assert json.loads(bypass.deliver(line_of(first)))["result"]["structuredContent"] == {"a": 1}


def test_lines_without_a_ticket_pass_unchanged() -> None:
    bypass = SdkBypass()
    bypass.hold("{}")
    assert bypass.deliver('{"result":"ü"}') == '{"result":"ü"}'.encode()


def test_answers_that_nobody_collects_are_not_kept_for_ever() -> None:
    bypass = SdkBypass()
    for _ in range(MOST_HELD * 3):
        bypass.hold("{}")
    assert len(bypass._held) == MOST_HELD
