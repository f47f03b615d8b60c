"""Draws arguments for a tool: most are valid by its own schema, the others nearly so.

Which of a model's further rules they break (one of several arguments, a known pattern) the schema
does not say; what the tool declares as examples does, so that many are drawn from these.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fuzz.values import (
    BY_NAME,
    LONG,
    NO_NUMBERS,
    NUMBERS,
    SURROGATES,
    TEXTS,
    VERY_LONG,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    type Schema = Mapping[str, Any]
    type Place = tuple[Any, Any]
    """A container and the key or index in it."""

ODD = 0.25
"""Of the drawn arguments are made invalid, or nearly so, on purpose."""
FROM_EXAMPLE = 0.5
OPTIONAL = 0.2
BY_ITS_NAME = 0.85
DEEP = 100


@dataclass(frozen=True, slots=True)
class FuzzedTool:
    """What is known of a tool before it is called."""

    name: str
    group: str
    schema: Schema
    examples: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def properties(self) -> Mapping[str, Schema]:
        known: Mapping[str, Schema] = self.schema.get("properties", {})
        return known


def declared_tools() -> list[FuzzedTool]:
    """Return every tool of the full profile, as it is declared."""
    from pilothouse.wiring.groups import GROUP_SPECS

    return [
        FuzzedTool(
            tool.name,
            tool.group.name,
            tool.listing.input_schema,
            [dict(example.args) for example in tool.examples],
        )
        for spec in GROUP_SPECS
        for tool in spec.tools
    ]


def draw(tool: FuzzedTool, random: Random) -> dict[str, Any]:
    """Return arguments for a call of this tool."""
    drawn = _valid(tool, random)
    return mutate(drawn, random) if random.random() < ODD else drawn


def _valid(tool: FuzzedTool, random: Random) -> dict[str, Any]:
    base: dict[str, Any] = {}
    if tool.examples and random.random() < FROM_EXAMPLE:
        base = copy.deepcopy(dict(random.choice(tool.examples)))
        for name, value in base.items():
            # Its ids are nobody's here.
            if name in BY_NAME and not isinstance(value, dict) and random.random() < 0.7:
                base[name] = value_of(tool.properties[name], random, name)
    required = tool.schema.get("required", ())
    for name, schema in tool.properties.items():
        if name in base:
            continue
        wanted = name in required or random.random() < _share(name)
        if wanted:
            base[name] = value_of(schema, random, name)
    return base


def _share(name: str) -> float:
    """Return how often an optional argument is given."""
    return {"access_token": 0.97, "sessionId": 0.7, "profile": 0.05, "tabId": 0.15}.get(
        name, OPTIONAL
    )


def value_of(schema: Schema, random: Random, name: str = "") -> Any:
    """Return a value that fits a schema, as far as the schema tells."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    if "anyOf" in schema:
        return value_of(random.choice(schema["anyOf"]), random, name)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = random.choice(kind)
    known = BY_NAME.get(name, ())
    match kind:
        case "array":
            return _array(schema, random, name)
        case "object":
            return _object(schema, random) if not known else random.choice(known)
        case "boolean":
            return random.random() < 0.5
        case "integer" | "number":
            fitting = [one for one in known if not isinstance(one, str) or one[:1] == "<"]
            if fitting and random.random() < BY_ITS_NAME:
                return random.choice(fitting)
            return _number(schema, random)
        case "string":
            fitting = [one for one in known if isinstance(one, str)]
            if fitting and random.random() < BY_ITS_NAME:
                return random.choice(fitting)
            return _text(schema, random)
        case _:
            return random.choice((random.choice(TEXTS), 1, None, [], {}, True, 1.5))


def _array(schema: Schema, random: Random, name: str) -> list[Any]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", 50)
    long = random.random() < 0.03
    count = most if long else min(most, max(least, random.choice((0, 1, 1, 2, 3))))
    return [value_of(schema.get("items", {}), random, name) for _ in range(count)]


def _object(schema: Schema, random: Random) -> dict[str, Any]:
    members = schema.get("properties", {})
    required = schema.get("required", ())
    made = {
        name: value_of(one, random, name)
        for name, one in members.items()
        if name in required or random.random() < 0.4
    }
    more = schema.get("additionalProperties", not members)
    if more and random.random() < 0.5:
        inner = more if isinstance(more, dict) else {}
        made.update({random.choice(TEXTS): value_of(inner, random) for _ in range(2)})
    return made


def _number(schema: Schema, random: Random) -> int | float:
    least, most = schema.get("minimum"), schema.get("maximum")
    low = least if least is not None else 0
    high = most if most is not None else max(low, 2_000)
    if random.random() < 0.3:
        return random.choice((low, high))
    return random.randint(int(low), min(int(high), int(low) + 2_000))


def _text(schema: Schema, random: Random) -> str:
    fitting = [text for text in TEXTS if len(text) <= schema.get("maxLength", VERY_LONG)]
    return random.choice(fitting)


# Nearly valid


def mutate(arguments: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return arguments with one thing wrong."""
    changed = copy.deepcopy(arguments)
    change: Callable[[dict[str, Any], Random], None] = random.choice(
        (_replace, _replace, _replace, _replace, _add, _drop)
    )
    change(changed, random)
    return changed


def _replace(arguments: dict[str, Any], random: Random) -> None:
    places = list(_places(arguments))
    if not places:
        _add(arguments, random)
        return
    container, key = random.choice(places)
    container[key] = odd_value(random, container[key])


def _add(arguments: dict[str, Any], random: Random) -> None:
    known = (*arguments, "sessionid", "__proto__", "_meta", "", "x" * 500, "\x00", "\ud800")
    name = random.choice(known)
    arguments[random.choice((name, name.upper(), f"{name} "))] = odd_value(random, "x")


def _drop(arguments: dict[str, Any], random: Random) -> None:
    if arguments:
        del arguments[random.choice(list(arguments))]


def odd_value(random: Random, before: Any) -> Any:
    """Return what should not stand where `before` stands, or hardly."""
    kind = random.randrange(12)
    if kind == 0:
        return random.choice(NUMBERS)
    if kind == 1:
        return random.choice(NO_NUMBERS)
    if kind == 2:
        return random.choice(SURROGATES)
    if kind == 3:
        return nested(random.choice((5, DEEP, 4 * DEEP)), random)
    if kind == 4:
        return random.choice(("x" * LONG, "(" * LONG, "é" * LONG, "\x00" * LONG))
    if kind == 5:
        # Rarely so much that the message itself is too large to be taken.
        return "y" * (3 * VERY_LONG if random.random() < 0.05 else VERY_LONG // 10)
    if kind == 6:
        return random.choice((None, True, False, [], {}, [[]], {"": ""}))
    if kind == 7:
        return [before] * random.choice((2, 500))
    if kind == 8:
        return {"x": before}
    if kind == 9:
        return str(before)[:LONG]
    return random.choice(TEXTS)


def nested(depth: int, random: Random) -> Any:
    """Return lists or objects within each other."""
    value: Any = 1
    in_lists = random.random() < 0.5
    for _ in range(depth):
        value = [value] if in_lists else {"a": value}
    return value


def _places(value: Any) -> Iterator[Place]:
    """Yield each place in a value at which something stands."""
    keys: Any = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
