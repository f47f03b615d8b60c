"""Rows that people read: what stands in them, what is masked, and where a page reads on."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.timeline.events import SessionStarted, ToolInvocationFailed
from pilothouse.core.timeline.timeline import Moment
from pilothouse.dashboard.rows import (
    LONGEST_TEXT,
    LONGEST_URL,
    Rows,
    check_cursor,
    pack_cursor,
    packed,
    unpack_cursor,
)
from pilothouse.e2e.model import ServerLogged, StepFinished
from pilothouse.intercept.model import PacketRecorded
from pilothouse.observe.model import Seen

TAB = "tab AB12CD"


def seen(at: float = 1_000.0, **event: Any) -> Seen:
    return Seen(at, {"ts": int(at), "sessionId": "", **event})


def console(text: str, level: str = "log") -> Seen:
    return seen(kind="console", type=level, text=text, args=[text])


def row(event: Any, source: str = TAB, seq: int = 7, **more: Any) -> dict[str, Any]:
    return Rows(Redactor(), **more).row(Moment(source, seq, event))


def test_a_console_line_says_where_it_stands_and_how_grave_it_is() -> None:
    assert row(console("it broke", "error")) == {
        "id": "tab AB12CD:7",
        "key": "console:AB12CD/7",
        "lane": "console",
        "at": 1000.0,
        "level": "error",
        "text": "console error: it broke",
    }


def test_the_parts_of_an_exchange_share_its_id_and_tell_how_long_it_took() -> None:
    rows = Rows(Redactor())
    url = "http://127.0.0.1:3000/api/cart?x=1"
    known = {"requestId": "41.7", "url": url}
    events = [
        seen(1_000.0, kind="request", method="POST", resourceType="Fetch", **known),
        seen(1_250.5, kind="response", method="POST", status=503, resourceType="Fetch", **known),
        seen(1_300.0, kind="loadingFinished", **known),
    ]
    made = [rows.row(Moment(TAB, seq, event)) for seq, event in enumerate(events)]
    assert [one["phase"] for one in made] == ["request", "response", "end"]
    assert {one["req"] for one in made} == {"41.7"}
    assert {one["key"] for one in made} == {"request:41.7"}
    assert {one["lane"] for one in made} == {"network"}
    assert {one["url"] for one in made} == {url}
    assert [one.get("took") for one in made] == [None, 250.5, 300.0]
    assert made[0]["method"] == "POST"
    assert (made[1]["status"], made[1]["level"]) == (503, "error")
    assert made[1]["type"] == "Fetch"


def test_steps_server_lines_and_packets_stand_in_lanes_of_their_own() -> None:
    step = StepFinished(
        at=5, step=4, tool="click", target="#pay", ok=False, duration_ms=12.5, url="http://a/",
        session_id="0f3a21-rest",
    )  # fmt: skip
    made = row(step, "step", 0)
    assert made | {"lane": "steps", "step": 4, "took": 12.5, "app": "0f3a21-rest"} == made
    assert made["at"] == -7.5, "it stands where it began"
    assert made["level"] == "error"
    assert "url" not in made
    line = ServerLogged(
        at=6, service="app", stream="stderr", line="Traceback: it", session_id="0f3a21"
    )
    assert row(line, "server", 1) | {"lane": "server", "app": "0f3a21"} == row(line, "server", 1)
    packet = PacketRecorded(
        at=7, packet_id=77, group=76, kind="HTTP", method="GET", url="/a?token=hush-hush-1",
        server_name="shop.example", status=404,
    )  # fmt: skip
    shown = row(packet, "packets", 2)
    assert shown["key"] == "packet:77"
    assert (shown["lane"], shown["status"], shown["method"]) == ("packets", 404, "GET")
    assert "hush-hush-1" not in json.dumps(shown)


def test_the_app_of_a_tab_is_the_one_that_it_is_known_to_belong_to() -> None:
    made = Rows(Redactor()).row(Moment(TAB, 1, console("x")), "app-1")
    assert made["app"] == "app-1"
    assert "app" not in row(console("x"))


@pytest.mark.parametrize(
    "event",
    [
        console("Authorization: Bearer hush-hush-hush-1"),
        console("password=hush-hush-hush-1 was typed"),
        seen(
            kind="request", requestId="1", method="GET",
            url="http://a.example/?access_token=hush-hush-hush-1",
        ),
        seen(
            kind="loadingFailed", requestId="1", errorText="net::ERR",
            url="http://a.example/?api_key=hush-hush-hush-1",
        ),
        ToolInvocationFailed(
            at=1, tool="fill", duration_ms=1, code="timeout",
            message="could not type token=hush-hush-hush-1",
        ),
        console("x" * 400 + " and taught words such as hush-hush-hush-1"),
        console("taught words such as hush-hush-hush-1"),
    ],
)  # fmt: skip
def test_no_row_shows_a_secret(event: Any) -> None:
    redactor = Redactor()
    rows = Rows(redactor)
    rows.row(Moment(TAB, 0, event))
    redactor.teach("hush-hush-hush-1")
    made = rows.row(Moment(TAB, 0, event))
    assert "hush-hush" not in json.dumps(made)


def test_a_secret_is_masked_before_its_line_is_cut() -> None:
    redactor = Redactor()
    redactor.teach("Q" * 40)
    text = "x" * (LONGEST_TEXT - len("console log: ") - 20) + "Q" * 40
    made = Rows(redactor).row(Moment(TAB, 0, console(text)))
    assert "QQ" not in made["text"]
    assert len(made["text"]) <= LONGEST_TEXT


def test_long_and_ragged_texts_become_one_short_line() -> None:
    made = row(console("a\n\n   b\tc" + "d" * 5_000))
    assert made["text"].startswith("console log: a b c")
    assert len(made["text"]) == LONGEST_TEXT
    far = row(seen(kind="request", requestId="1", method="GET", url="http://a/" + "p" * 2_000))
    assert len(far["url"]) == LONGEST_URL


def test_an_id_by_which_a_session_could_be_entered_is_shown_under_its_name() -> None:
    started = SessionStarted(at=1, session_id="84e5e9d09fcc409c")
    made = row(started, "session", 0, names={"84e5e9d09fcc409c": "session-1"})
    assert "84e5e9d09fcc409c" not in json.dumps(made)
    assert "session-1" in made["text"]
    app = SessionStarted(at=1, session_id="another")
    assert "another" in row(app, "session", 0, names={"84e5e9d09fcc409c": "session-1"})["text"]


def test_halves_of_characters_do_not_keep_rows_from_being_sent() -> None:
    step = StepFinished(at=5, step=1, tool="fill", target="\ud83d", ok=True, duration_ms=1, url="")
    assert "\ufffd" in orjson.loads(packed([row(step, "step", 0)]))[0]["text"]


def test_a_cursor_comes_back_as_it_was() -> None:
    seqs = {"tab AB12CD": 12, "step": 0, "server": 99}
    assert unpack_cursor(pack_cursor("e1", seqs), "e1") == seqs
    assert unpack_cursor("", "e1") == {}


def test_a_cursor_of_another_timeline_begins_at_the_oldest_row() -> None:
    assert unpack_cursor(pack_cursor("e1", {"step": 50}), "e2") == {}


def coded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        "zzz", "%%%", "12", "é", "=", "A" * 9_000, coded({}), coded([]), coded(["e", {}, 1]),
        coded([1, {}]), coded(["e", []]), coded(["e", {"step": -1}]), coded(["e", {"step": "1"}]),
        coded(["e", {"step": True}]), coded(["e", {"step": 1.5}]), coded("e"),
    ],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor") as refused:
        check_cursor(cursor)
    assert "leave it out" in refused.value.hint
