"""How a watch is written, and what is said of one that is written wrongly."""

from __future__ import annotations

import pytest

from pilothouse.timeline.conditions import ConsoleError, Gone, Logged, Slow, StatusIs, parse
from pilothouse.timeline.model import BadWatch


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("console.error", ConsoleError()),
        ("  console.error  ", ConsoleError()),
        ("status >= 500", StatusIs(">=", 500)),
        ("status>=500", StatusIs(">=", 500)),
        ("status == 404", StatusIs("==", 404)),
        ("slow > 1000 ms", Slow(1_000)),
        ("slow > 1000", Slow(1_000)),
        ("slow >= 1.5 s", Slow(1_500)),
        ("selector gone #cart .item", Gone("#cart .item")),
        ("selector #cart .item gone", Gone("#cart .item")),
        ("selector gone gone", Gone("gone")),
    ],
)
def test_each_form_is_read(text: str, condition: object) -> None:
    assert parse(text) == condition


def test_a_pattern_is_re2_and_keeps_its_spaces() -> None:
    condition = parse("log =~ no  shelf|(?i)sold OUT")
    assert isinstance(condition, Logged)
    assert condition.pattern.search("he is sold out now")
    assert not condition.pattern.search("no shelf")


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "console.error"),
        ("  clicks", 2, "console.error"),
        ("console.warn", 0, "console.error"),
        ("console.error now", 14, "nothing more"),
        ("status", 6, ">="),
        ("status 500", 7, ">="),
        ("status =~ 5", 7, ">="),
        ("status >= many", 10, "a status such as 500"),
        ("status >= 500 ms", 14, "nothing more"),
        ("slow < 5", 5, "> or >="),
        ("slow > ", 7, "a time"),
        ("slow > 5 min", 9, "nothing more"),
        ("selector #a", 9, "gone and a CSS selector"),
        ("selector gone", 9, "gone and a CSS selector"),
        ("log == x", 4, "=~"),
        ("log =~ ", 7, "a pattern"),
        ("log =~ (x", 7, "an RE2 pattern"),
        ("log =~ (?=x)", 7, "an RE2 pattern"),
    ],
)
def test_a_mistake_is_told_with_its_position(text: str, position: int, expected: str) -> None:
    with pytest.raises(BadWatch) as caught:
        parse(text)
    fault = caught.value
    assert fault.details["position"] == position
    assert expected in str(fault.details["expected"])
    assert f"position {position}" in fault.message
    assert "slow > 1000 ms" in fault.hint


@pytest.mark.parametrize(
    ("sign", "fits"),
    [
        (">=", (500, 501)),
        (">", (501,)),
        ("==", (500,)),
        ("!=", (499, 501)),
        ("<", (499,)),
        ("<=", (499, 500)),
    ],
)
def test_a_status_is_compared_as_it_says(sign: str, fits: tuple[int, ...]) -> None:
    status = parse(f"status {sign} 500")
    assert isinstance(status, StatusIs)
    assert tuple(number for number in (499, 500, 501) if status.fits(number)) == fits
