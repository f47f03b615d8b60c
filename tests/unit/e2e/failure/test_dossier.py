"""A dossier is as rich as its budget allows, and never larger."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.declare.fence import visible_json
from pilothouse.e2e.browser.errors import Trouble
from pilothouse.e2e.failure.causes import Evidence
from pilothouse.e2e.failure.digest import DigestExchange
from pilothouse.e2e.failure.dossier import BUDGET, LEAST, Composed, compose, next_calls, whole
from tests.support.rounds import examples

BASE = "http://localhost:3000"
AT = "2026-01-01T00:00:00.000Z"
LEAST_LINES = 40
NOT_FOUND = Trouble("not_found", "Timeout 300ms exceeded.")


def failed(number: int = 1, status: int = 500) -> DigestExchange:
    return DigestExchange(
        f"7.{number}", "GET", f"{BASE}/api/{number}", "Fetch", number, 1.0, status=status
    )


def rich(size: int, text: str = "x" * 300) -> Evidence:
    return Evidence(
        NOT_FOUND,
        selector="#buy",
        screenshot={"uri": "e2e://artifact/s/failure-1.png", "path": "/p", "capturedAt": AT},
        snapshot="\n".join(f"- text: now {n} {text}" for n in range(size)),
        baseline="\n".join(f"- text: then {n} {text}" for n in range(size)),
        overlay=text,
        console=[{"type": "error", "text": f"{n} {text}", "seq": n} for n in range(size)],
        requests=[(failed(n), text) for n in range(size)],
        has_log=True,
        server_lines=[f"line {n} {text}" for n in range(size)],
        since_step=min(2, size),
        stdout_lines=[f"said {n} {text}" for n in range(size)],
        moments=[f"-0.{n} s {text}" for n in range(size)],
        missing=["element: not in time"],
    )


def test_a_small_dossier_is_told_whole() -> None:
    composed = compose(rich(3, "short"), BASE, AT)
    made = composed.inside
    assert [entry["text"] for entry in made["console"]] == ["0 short", "1 short", "2 short"]
    assert made["console"][0]["key"] == "console:0"
    assert made["requests"][0] == {
        "request": "GET /api/0 → 500",
        "requestId": "7.0",
        "body": "short",
    }
    assert composed.beside["serverLogs"] == {
        "stderr": "line 0 short\nline 1 short\nline 2 short",
        "capturedAt": AT,
        "sinceStep": 2,
        "stdout": "said 0 short\nsaid 1 short\nsaid 2 short",
    }
    assert composed.beside["screenshot"]["capturedAt"] == AT
    assert made["missing"] == ["element: not in time"]
    assert len(made["snapshotDiff"]) == 6


def test_what_there_is_nothing_of_is_not_mentioned() -> None:
    assert compose(Evidence(NOT_FOUND), BASE, AT) == Composed({"causes": []}, {})


@given(
    size=st.integers(0, 200),
    text=st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=600),
    frame=st.integers(0, 9_000),
)
@settings(max_examples=examples(40))
def test_a_dossier_never_takes_more_than_its_room(size: int, text: str, frame: int) -> None:
    beside = {"message": "m" * frame}
    composed = compose(rich(size, text), BASE, AT, beside)
    made, logs = composed.inside, composed.beside["serverLogs"]
    shown = logs["stderr"].split("\n")
    room = max(LEAST, BUDGET - len(visible_json(beside)))
    # What is left at the barest: causes, the reference, the overlay, what is missing.
    assert len(visible_json(made)) <= room or not {"console", "requests", "timeline"} & made.keys()
    is_least = len(shown) <= LEAST_LINES and logs.get("stdout", "").count("\n") < 5
    taken = len(visible_json(made)) + len(visible_json(composed.beside))
    assert taken <= BUDGET - len(visible_json(beside)) or is_least
    assert made["causes"]
    assert composed.beside["screenshot"]


@pytest.mark.parametrize("frame", [0, 3_000, 9_000])
def test_no_dossier_leaves_out_the_newest_forty_lines_of_the_log(frame: int) -> None:
    logs = compose(rich(200), BASE, AT, {"message": "m" * frame}).beside["serverLogs"]
    shown = logs["stderr"].split("\n")
    assert len(shown) >= LEAST_LINES
    for line, number in zip(reversed(shown), range(199, 0, -1), strict=False):
        assert line.startswith(f"line {number} xx")
        assert len(line) >= 80
    assert logs["sinceStep"] == 2


def test_the_lines_of_the_step_are_never_more_than_those_that_are_shown() -> None:
    evidence = rich(100)
    evidence.since_step = 90
    logs = compose(evidence, BASE, AT).beside["serverLogs"]
    assert logs["sinceStep"] == len(logs["stderr"].split("\n")) < 90


def test_the_newest_survive_where_room_is_short() -> None:
    composed = compose(rich(200), BASE, AT)
    made = composed.inside
    assert made["console"][0]["text"].startswith("0 ")
    assert "line 199" in composed.beside["serverLogs"]["stderr"]
    assert made["timeline"][-1].startswith("-0.199 s")


def test_the_page_for_people_has_what_the_answer_has_no_room_for() -> None:
    evidence = rich(90)
    assert len(whole(evidence, BASE, AT)["console"]) == 90
    assert len(compose(evidence, BASE, AT).inside["console"]) < 90
    assert whole(evidence, BASE, AT)["serverLogs"]["stderr"].count("\n") == 89


@pytest.mark.parametrize(
    ("event", "at"),
    [
        (
            {"frames": [{"url": "a.js", "line": 1, "column": 2, "function": "buy"}]},
            ["buy (a.js:1:2)"],
        ),
        (
            {
                "frames": [
                    {
                        "url": "a.js",
                        "line": 1,
                        "column": 2,
                        "original": {"source": "src/a.ts", "line": 9, "column": 4, "name": "pay"},
                    }
                ]
            },
            ["pay (src/a.ts:9:4)"],
        ),
        ({"stack": {"url": "a.js", "line": 3, "column": 1}}, ["a.js:3:1"]),
        ({"frames": [{"function": "native"}]}, None),
        ({}, None),
    ],
)
def test_a_console_error_is_told_with_its_frames(
    event: dict[str, Any], at: list[str] | None
) -> None:
    evidence = Evidence(NOT_FOUND, console=[{"type": "error", "text": "t", "seq": 4, **event}])
    assert compose(evidence, BASE, AT).inside["console"][0].get("at") == at


@pytest.mark.parametrize(
    ("evidence", "calls"),
    [
        (Evidence(NOT_FOUND), ["snapshot"]),
        (Evidence(Trouble("timeout", ""), server_lines=["x"]), ["snapshot", "readServerLogs"]),
        (
            Evidence(Trouble("navigation", ""), server_exit={"exitCode": 1}),
            ["fix the code, then restartServer"],
        ),
        (Evidence(Trouble("other", ""), overlay="x"), ["fix the code, then waitFor(hmr"]),
        (Evidence(Trouble("script", "")), []),
    ],
)
def test_the_next_calls_fit_the_evidence(evidence: Evidence, calls: list[str]) -> None:
    found = next_calls(evidence, "")
    assert len(found) == len(calls)
    assert all(call.startswith(start) for call, start in zip(found, calls, strict=True))


def test_no_call_is_named_that_this_agent_cannot_make() -> None:
    evidence = Evidence(NOT_FOUND, requests=[(failed(), "")], server_lines=["x"])
    calls = next_calls(evidence, "T", lambda tool: not tool.startswith("cdp_"))
    assert [call.split("(")[0].split(",")[0] for call in calls] == ["snapshot", "readServerLogs"]


def test_the_body_of_the_newest_failed_request_is_a_call_away() -> None:
    fine = DigestExchange("7.9", "GET", BASE, "Fetch", 9, 1.0, status=200, ended_at=9_000)
    evidence = Evidence(NOT_FOUND, requests=[(fine, ""), (failed(), "")])
    assert "cdp_get_response_body(targetId: T, requestId: 7.1)" in next_calls(evidence, "T")
