"""What is drawn for tools: by a seed, mostly valid, harmless, and odd all the same."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.server.call import parse_args
from pilothouse.wiring.groups import GROUP_SPECS
from tests.fuzz.arguments import ODD, declared_tools, draw
from tests.fuzz.harmless import COMMANDS, CONTRACT, harmless
from tests.fuzz.values import Known

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAWN = 4_000
STARTS = 1_000
TOOLS = declared_tools()
KNOWN = {"packet": 1, "free": 1, "hostile": 1, "config": {}}


def drawn(seed: int, count: int = DRAWN) -> Iterator[tuple[str, dict[str, Any]]]:
    random = Random(seed)
    for _ in range(count):
        tool = random.choice(TOOLS)
        yield tool.name, harmless(tool.name, draw(tool, random), random)


def test_the_same_seed_draws_the_same() -> None:
    assert [json.dumps(one) for one in drawn(7, 300)] == [json.dumps(one) for one in drawn(7, 300)]
    assert [json.dumps(one) for one in drawn(7, 300)] != [json.dumps(one) for one in drawn(8, 300)]


def test_most_of_what_is_drawn_is_valid_and_much_is_not() -> None:
    models = {tool.name: tool for spec in GROUP_SPECS for tool in spec.tools}
    known = Known(**KNOWN)
    valid: set[str] = set()
    refused = 0
    for name, arguments in drawn(1):
        try:
            parse_args(models[name], known.fill(arguments))
        except InvalidInput:
            refused += 1
        else:
            valid.add(name)
    assert ODD / 2 < refused / DRAWN < 0.5
    assert valid == set(models)


def test_nothing_but_the_listed_commands_is_ever_drawn() -> None:
    (tool,) = (one for one in TOOLS if one.name == "startSession")
    random = Random(2)
    for _ in range(STARTS):
        arguments = harmless(tool.name, draw(tool, random), random)
        services = arguments.get("services")
        listed = services if isinstance(services, list) else []
        for place in [arguments, *(one for one in listed if isinstance(one, dict))]:
            command = place.get("command")
            if isinstance(command, list) and all(isinstance(word, str) for word in command):
                assert command in COMMANDS
        if isinstance(arguments.get("commandPath"), str):
            assert arguments["commandPath"] in CONTRACT


@pytest.mark.parametrize("host", ["example.com", "10.0.0.1", "user@example.com:80", "127.0.0.1.x"])
def test_addresses_of_other_machines_are_left_out(host: str) -> None:
    given = {"url": f"http://{host}/a", "deep": [{"x": f"see wss://{host}"}]}
    told = json.dumps(harmless("navigate", given, Random(1)))
    assert host not in told
    assert "nobody.invalid" in told
