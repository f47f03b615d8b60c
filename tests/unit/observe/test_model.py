"""Kept events and filters: packed without loss, judged as the spec says."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.observe import model
from pilothouse.observe.model import KINDS, NETWORK_KINDS, Filters, Kind, Seen, pack
from tests.support.rounds import examples

RESPONSE = {
    "kind": "response",
    "url": "http://a.test/",
    "method": "GET",
    "requestId": "1.1",
    "status": 404,
    "headers": {"A": "b"},
}


def test_an_event_keeps_beside_its_json_what_filters_look_at() -> None:
    seen = Seen(5.5, RESPONSE)
    assert (seen.at, seen.kind, seen.url, seen.method) == (5.5, "response", "http://a.test/", "GET")
    assert (seen.request_id, seen.status, seen.level) == ("1.1", 404, "")
    assert seen.unpack() == RESPONSE
    assert seen.keys == {"request:1.1"}


def test_only_console_lines_and_log_entries_have_a_level() -> None:
    assert Seen(0, {"kind": "console", "type": "warn"}).level == "warn"
    assert Seen(0, {"kind": "log", "type": "error"}).level == "error"
    assert Seen(0, {"kind": "other", "type": "navigated"}).level == ""
    assert Seen(0, {"kind": "other", "type": "navigated"}).keys == frozenset()


def test_a_stored_event_comes_back_as_it_was() -> None:
    seen = Seen(5.5, RESPONSE)
    back = Seen.stored(**{name: getattr(seen, name) for name in Seen.__slots__})
    assert all(getattr(back, name) == getattr(seen, name) for name in Seen.__slots__)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_past_tense_name_on_the_timeline(kind: Kind) -> None:
    name = Seen(0, {"kind": kind, "type": "log"}).name
    assert name.isalpha()
    assert name[0].isupper()


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ("\ud800", "\ufffd"),
        ("a\udfffb", "a\ufffdb"),
        (10**30, str(10**30)),
        (-(10**30), str(-(10**30))),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (math.nan, None),
        (math.inf, None),
        (True, True),
        ({"k\ud800": ["\udc00", 10**30]}, {"k\ufffd": ["\ufffd", str(10**30)]}),
    ],
)
def test_what_json_cannot_hold_is_replaced_when_packed(value: Any, back: Any) -> None:
    packed = pack({"kind": "console", "value": value})
    assert json.loads(packed.decode()) == {"kind": "console", "value": back}


@pytest.mark.parametrize("depth", [200, 300, 900])
def test_a_deeply_nested_event_is_packed_or_refused_as_malformed(depth: int) -> None:
    value: Any = "bottom"
    for _ in range(depth):
        value = {"a": value}
    try:
        packed = pack({"kind": "console", "value": value})
    except (TypeError, ValueError):
        assert depth > 250  # the documented errors: the caller counts it and goes on
    else:
        assert json.loads(packed)["kind"] == "console"


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)
ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=8)


@settings(max_examples=examples(100))
@given(event=st.dictionaries(ANY_TEXT, st.one_of(VALUES, ANY_TEXT), max_size=5))
def test_packed_json_always_parses(event: dict[str, Any]) -> None:
    parsed = json.loads(pack(event).decode("utf-8"))
    assert isinstance(parsed, dict)
    assert len(parsed) <= len(event)


PARTS = st.sampled_from(["a", "b", "/api/", "x"])
LISTS = st.lists(PARTS, max_size=2).map(tuple)


@settings(max_examples=examples(200))
@given(
    kind=st.sampled_from(KINDS),
    url=st.lists(PARTS, max_size=3).map("".join),
    groups=st.sets(st.sampled_from(["console", "log", "network"])).map(tuple),
    allow=LISTS,
    block=LISTS,
)
def test_filters_block_first_then_allow_traffic_and_never_hide_the_page(
    kind: str, url: str, groups: tuple[str, ...], allow: tuple[str, ...], block: tuple[str, ...]
) -> None:
    def expected() -> bool:
        is_traffic = kind in NETWORK_KINDS
        if groups and kind != "other" and ("network" if is_traffic else kind) not in groups:
            return False
        if any(part in url for part in block):
            return False
        if url and is_traffic and allow:
            return any(part in url for part in allow)
        return True

    assert Filters(groups, allow, block).admits(kind, url) is expected()


@pytest.mark.parametrize(
    "code",
    [
        "BROWSER_UNREACHABLE",
        "TARGET_NOT_FOUND",
        "ALREADY_OBSERVING",
        "NOT_OBSERVING",
        "BODY_NOT_AVAILABLE",
        "SECURITY_BLOCKED",
    ],
)
def test_every_fault_of_the_spec_renders_its_code_and_hint(code: str) -> None:
    name = "".join(word.capitalize() for word in code.split("_"))
    fault: Fault = getattr(model, name)("what", hint="do this", targetId="T")
    assert fault.render(Envelope.CODE) == {
        "code": code,
        "message": "what",
        "details": {"hint": "do this", "targetId": "T"},
    }
