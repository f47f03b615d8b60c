"""Declaring a resource: URIs, templates, ports, and the mistakes that stop the import."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.declare.faults import Envelope
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Group
from tests.support.rounds import examples

GROUP = Group(name="observe", summary="Resources", envelope=Envelope.CODE)


class Store(Protocol):
    """Port: holds things."""


async def entry(store: Store, target: str, entry_id: str) -> str:
    """One entry of a target."""
    return ""


def test_a_template_names_its_variables_and_asks_for_its_ports() -> None:
    made = resource(GROUP, "cdp://{target}/entries/{entry_id}")(entry)
    assert made.is_template
    assert made.name == "entry"
    assert made.description == "One entry of a target."
    assert made.mime_type == "application/json"
    assert made.ports == {"store": Store}
    assert made.match("cdp://t1/entries/7") == {"target": "t1", "entry_id": "7"}


def test_a_plain_uri_matches_itself_alone() -> None:
    async def all_events(store: Store) -> str:
        """All events."""
        return ""

    made = resource(GROUP, "cdp://events.json", mime_type="text/plain")(all_events)
    assert not made.is_template
    assert made.match("cdp://events.json") == {}
    assert made.mime_type == "text/plain"
    for other in ("cdp://eventsXjson", "cdp://events.json/", "xcdp://events.json", ""):
        assert made.match(other) is None, other


@pytest.mark.parametrize(
    "uri",
    [
        "cdp://t1/entries/",
        "cdp://t1/entries",
        "cdp:///entries/7",
        "cdp://t1/more/entries/7",
        "cdp://t1/entries/7/8",
        "CDP://t1/entries/7",
    ],
)
def test_a_variable_is_one_whole_segment(uri: str) -> None:
    assert resource(GROUP, "cdp://{target}/entries/{entry_id}")(entry).match(uri) is None


@settings(max_examples=examples(100))
@given(value=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_an_encoded_value_comes_back_as_it_was(value: str) -> None:
    from urllib.parse import quote

    made = resource(GROUP, "cdp://{target}/entries/{entry_id}")(entry)
    uri = f"cdp://{quote(value, safe='')}/entries/1"
    assert made.match(uri) == {"target": value, "entry_id": "1"}


def refused(reader: Any, uri: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        resource(GROUP, uri)(reader)


def test_a_reader_without_a_docstring_is_refused() -> None:
    async def silent() -> str:
        return ""

    refused(silent, "cdp://x", "silent needs a docstring")


def test_a_variable_that_the_reader_does_not_take_is_refused_by_name() -> None:
    refused(entry, "cdp://{target}/{entry_id}/{part}", "entry takes no part")


def test_a_port_without_a_type_is_refused_like_every_other_mistake() -> None:
    async def untyped(store) -> str:  # type: ignore[no-untyped-def]  # that is the point
        """Read something."""
        return ""

    refused(untyped, "cdp://x", "store")
