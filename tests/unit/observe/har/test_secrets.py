"""HAR of hostile traffic: what is secret is masked, what is malformed neither raises nor shows."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from pilothouse.observe.model import Body
from tests.support.rounds import examples
from tests.unit.observe.har_tape import VALIDATOR, Tape, busy_tape, everything, header

LEARNED = "corr3ct-h0rse+battery/staple"


@pytest.fixture
def tape() -> Tape:
    return Tape()


def test_no_planted_secret_is_anywhere_in_the_archive() -> None:
    planted = "pl4nted-Secret-0987654321"
    tape = busy_tape(planted)
    assert planted in everything(tape.har(Redactor(reveal=True)))
    masked = tape.har()
    assert planted not in everything(masked)
    assert MASK in everything(masked)


def test_a_learned_secret_is_masked_also_where_no_name_gives_it_away(tape: Tape) -> None:
    redactor = Redactor().learn(LEARNED)
    odd = b64encode(f"note: {LEARNED}".encode()).decode()
    headers = {"X-Note": LEARNED, "Content-Type": "text/plain"}
    tape.request("1", f"https://a.example/{LEARNED}?q={LEARNED}#{LEARNED}", headers=headers)
    tape.response("1", f"https://a.example/{LEARNED}", statusText=LEARNED, mimeType="image/png")
    tape.bodies["1"] = Body("image/png", odd, encoded=True)
    tape.navigate(f"https://a.example/{LEARNED}", 100.5)
    tape.socket()
    tape.frame(107.0, "Sent", f"say {LEARNED}")
    tape.frame(107.1, "Received", odd, opcode=2)
    assert LEARNED not in everything(tape.har(redactor))
    assert LEARNED in everything(tape.har())


def test_masking_keeps_the_structure() -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shape(inner) for name, inner in value.items() if name != "encoding"}
        return [shape(inner) for inner in value] if isinstance(value, list) else type(value)

    tape = busy_tape("pl4nted-Secret-0987654321")
    assert shape(tape.har()) == shape(tape.har(Redactor(reveal=True)))


def test_secret_values_of_query_cookies_and_form_are_masked_by_name() -> None:
    entries = {e["_requestId"]: e for e in busy_tape("pl4nted-Secret-0987654321").entries()}
    form = entries["P1"]["request"]
    assert {"name": "api_key", "value": MASK} in form["queryString"]
    assert {"name": "sid", "value": MASK} in form["cookies"]
    assert form["postData"]["params"] == [
        {"name": "user", "value": "ada"},
        {"name": "password", "value": MASK},
    ]
    assert header(form, "authorization") == [f"Bearer {MASK}"]


# What no browser should send


def test_the_schema_rejects_what_is_not_har(tape: Tape) -> None:
    tape.load("1", "https://a.example/")
    made = tape.har()
    made["log"]["entries"][0]["timings"]["send"] = -1
    assert not VALIDATOR.is_valid(made)
    made = tape.har()
    made["log"]["entries"][0]["request"]["querystring"] = []
    assert not VALIDATOR.is_valid(made)


JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 10**30, -1e300, 1e17, float("inf"), float("nan")]),
    st.text(max_size=5),
    st.sampled_from([[], {}, [1], {"a": [None]}, "http://[", "=;,%ZZ", "\ud800"]),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    return [path] * bool(path) + [p for key, item in inner for p in paths(item, (*path, key))]


@settings(max_examples=examples(60))
@given(st.data())
def test_missing_and_malformed_fields_never_raise_and_stay_valid(data: st.DataObject) -> None:
    tape = busy_tape("secret-1234567")
    one_in = data.draw(st.sampled_from([1, 2, 5]), label="kept: one event in")
    tape.events = tape.events[::one_in]
    places = [(n, path) for n, (_, event) in enumerate(tape.events) for path in paths(event)]
    chosen = data.draw(st.lists(st.sampled_from(places), max_size=40), label="broken")
    for place, path in chosen:
        holder: Any = tape.events[place][1]
        for key in path[:-1]:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            if data.draw(st.booleans()):
                holder.pop(path[-1], None)
            else:
                holder[path[-1]] = data.draw(JUNK)
    made = tape.har()
    json.dumps(made, allow_nan=False)
    assert all(entry["pageref"] for entry in made["log"]["entries"])


@pytest.mark.parametrize("field", ["kind", "requestId", "url", "headers", "ts", "type"])
def test_a_field_missing_from_every_event_leaves_a_valid_archive(field: str) -> None:
    tape = busy_tape("secret-1234567")
    whole = len(tape.entries())
    for _, event in tape.events:
        event.pop(field, None)
    # What has no address is no entry that others could read; the archive says how many there are.
    assert len(tape.entries()) == (0 if field in ("kind", "requestId", "url") else whole)
