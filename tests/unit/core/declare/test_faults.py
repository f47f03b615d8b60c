"""The three error forms, and what a fault may not change in them."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.declare import faults
from pilothouse.core.declare.faults import COMMON, Envelope, Fault, Internal, InvalidInput


class Missing(Fault):
    """Nothing is stored under that name."""

    code = "target_not_found"
    number = -32003
    status = 404


FAULT = Missing("No target 7", hint="call cdp_list_targets", port=9222, host=None)
CONTEXT = {"timestamp": "2026-11-15T00:00:00.000Z", "context": {"tool": "x"}}


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (
            Envelope.CODE,
            {
                "code": "TARGET_NOT_FOUND",
                "message": "No target 7",
                "details": {"hint": "call cdp_list_targets", "port": 9222},
            },
        ),
        (
            Envelope.TYPE,
            {
                "type": "target_not_found",
                "message": "No target 7",
                "suggestion": "call cdp_list_targets",
                "port": 9222,
                **CONTEXT,
            },
        ),
        (
            Envelope.NUMBER,
            {
                "code": -32003,
                "message": "No target 7",
                "data": {"details": "No target 7", "hint": "call cdp_list_targets", "port": 9222},
            },
        ),
    ],
)
def test_a_fault_has_the_form_of_its_spec(envelope: Envelope, error: dict[str, Any]) -> None:
    assert FAULT.render(envelope, CONTEXT) == error


@pytest.mark.parametrize("envelope", Envelope)
def test_no_hint_means_no_empty_one(envelope: Envelope) -> None:
    shown = str(Missing("gone").render(envelope))
    assert "hint" not in shown
    assert "suggestion" not in shown


@pytest.mark.parametrize("fact", ["type", "suggestion", "timestamp", "context"])
def test_a_fact_cannot_take_the_place_of_a_part_of_the_form(fact: str) -> None:
    error = Missing("gone", hint="look elsewhere", **{fact: "forged"}).render(
        Envelope.TYPE, CONTEXT
    )
    assert error["type"] == "target_not_found"
    assert error["suggestion"] == "look elsewhere"
    assert error["timestamp"] == CONTEXT["timestamp"]
    assert error["context"] == CONTEXT["context"]


def test_a_fault_is_an_exception_with_its_message() -> None:
    assert str(FAULT) == FAULT.message == "No target 7"
    assert isinstance(FAULT, Exception)


def test_an_internal_error_is_spelt_as_the_observers_spec_has_it() -> None:
    internal = Internal("failed", incident="ab12")
    assert internal.render(Envelope.CODE)["code"] == "INTERNAL_ERROR"
    assert internal.render(Envelope.TYPE)["type"] == "internal"
    assert internal.render(Envelope.NUMBER)["code"] == -32603


def test_every_common_fault_says_what_it_means() -> None:
    assert InvalidInput in COMMON
    for kind in Fault.__subclasses__():
        if kind.__module__ == faults.__name__:
            assert kind.code, kind
            assert kind.__doc__, kind
            assert 400 <= kind.status < 600
            assert f"{kind.__name__} " in str(faults.__doc__), "the tree in the docstring is whole"
