"""Variables have one value per send, and what is no variable stays."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from random import Random
from uuid import UUID

from pilothouse.intercept.config.variables import fill, values

AT = 1_755_000_123_456.0


def made(index: int = 1, seed: int = 1) -> dict[str, str]:
    return values(index, AT, Random(seed))


def test_index_counts_sends_from_one() -> None:
    assert [fill("n={{index}}", made(index)) for index in (1, 2, 20)] == ["n=1", "n=2", "n=20"]


def test_timestamp_is_unix_seconds() -> None:
    assert fill("{{timestamp}}", made()) == "1755000123"


def test_random_is_eight_letters_and_digits_and_differs_between_sends() -> None:
    found = {fill("{{random}}", made(seed=seed)) for seed in range(50)}
    assert len(found) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9]{8}", one) for one in found)


def test_uuid_is_of_version_four_and_differs_between_sends() -> None:
    found = {fill("{{uuid}}", made(seed=seed)) for seed in range(50)}
    assert len(found) == 50
    assert {UUID(one).version for one in found} == {4}


def test_datetime_is_iso_8601_in_utc() -> None:
    said = fill("{{datetime}}", made())
    assert said.endswith("Z")
    assert datetime.fromisoformat(said) == datetime.fromtimestamp(AT / 1000, UTC)


def test_each_place_of_a_send_has_the_same_value() -> None:
    first, second = fill("{{uuid}} {{random}}|{{uuid}} {{random}}", made()).split("|")
    assert first == second


def test_what_is_no_variable_stays() -> None:
    text = "{{ index }} {{name}} {index} {{INDEX}} {{{{index}}}} {{index"
    assert fill(text, made(7)) == "{{ index }} {{name}} {index} {{INDEX}} {{7}} {{index"


def test_a_value_is_not_read_for_variables_again() -> None:
    assert fill("{{a}}", {"a": "{{b}}", "b": "never"}) == "{{b}}"
