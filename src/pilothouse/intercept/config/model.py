"""The configuration in the form of PacketProxyHub: four categories, validated as a whole.

Each field says in its description what it takes, and an error repeats that. First every item is
read by itself; only if all are sound it is checked how they fit together.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pilothouse.intercept.config.items import (
    MAX_ID,
    Config,
    Item,
    ListenPort,
    Modification,
    Server,
    SslPassThrough,
)
from pilothouse.intercept.config.validate import Problem, misfits, shown, warnings_of
from pilothouse.intercept.model import BadConfig, ConfigMisfit

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CATEGORIES", "Config", "default_config", "read_config", "warnings_of"]

MAX_SHOWN_PROBLEMS = 50

_ITEMS: dict[str, type[Item]] = {
    "listenPorts": ListenPort,
    "servers": Server,
    "modifications": Modification,
    "sslPassThroughs": SslPassThrough,
}
CATEGORIES = tuple(_ITEMS)
_OLD_NAME = "sslPathThroughs"
"""Name of the last category in older exports."""


def default_config() -> Config:
    """Return the default: nothing is bound unasked, the one listener is there to be enabled."""
    listener = ListenPort(id=1, enabled=False, port=8080, type="HTTP_PROXY")
    return Config(listenPorts=[listener], servers=[], modifications=[], sslPassThroughs=[])


def read_config(raw: object, where: str = "") -> Config:
    """Return the configuration that `raw` describes, with an id for every item.

    Raises:
        BadConfig: it is not whole or not sound; the message has the first problem, details more.
            A ConfigMisfit if each item is sound by itself.
            `where` names the place it came from, if that is a file.
    """
    if isinstance(raw, dict) and _OLD_NAME in raw and "sslPassThroughs" not in raw:
        raw = {**raw, "sslPassThroughs": raw[_OLD_NAME]}
        del raw[_OLD_NAME]
    try:
        config = _numbered(Config.model_validate(raw))
    except ValidationError as error:
        found = error.errors(include_url=False)
        # A misspelt name is more often the cause than the field that it left missing.
        found.sort(key=lambda one: one["type"] != "extra_forbidden")
        problems = [_problem(one) for one in found]
        raise _refusal(problems, where) from None
    problems = list(misfits(config))
    if problems:
        raise _refusal(problems, where, ConfigMisfit)
    return config


def _refusal(
    problems: Sequence[Problem], where: str, fault: type[BadConfig] = BadConfig
) -> BadConfig:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return fault(
        f"{where and where + ': '}{first.path}: expected {first.expected},"
        f" received {first.received}{more}; nothing was changed",
        hint="get_config shows a configuration in this form; give all four categories",
        path=first.path,
        expected=first.expected,
        received=first.received,
        problem_count=len(problems),
        problems=[asdict(problem) for problem in problems[:MAX_SHOWN_PROBLEMS]],
    )


def _problem(error: Any) -> Problem:
    location = error["loc"]
    missing = error["type"] == "missing"
    received = "nothing" if missing else shown(error["input"])
    return Problem(_path(location), _expected(location), received)


def _path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"\w{1,60}", part, re.ASCII):
            path += f".{part}" if path else part
        else:
            path += f"[{shown(part)}]"
    return path or "config"


def _expected(location: Sequence[str | int]) -> str:
    """Return what a place takes, by its description; for an unknown place, those that there are."""
    category = str(location[0]) if location else ""
    if category not in _ITEMS:
        return f"{'one of' if location else 'an object with'} {', '.join(CATEGORIES)}"
    fields = _ITEMS[category].model_fields
    if len(location) == 1:
        return Config.model_fields[category].description or ""
    if len(location) == 2:
        return f"an object with {', '.join(fields)}"
    known = fields.get(str(location[2]))
    return (known and known.description) or f"one of {', '.join(fields)}"


def _numbered(config: Config) -> Config:
    """Give items without an id the next free one of their category."""
    numbered = {category: _with_ids(getattr(config, category)) for category in CATEGORIES}
    return config.model_copy(update=numbered)


def _with_ids(items: list[Item]) -> list[Item]:
    taken = {item.id for item in items if item.id is not None}
    following = chain(range(max(taken, default=0) + 1, MAX_ID + 1), count(1))
    free = (number for number in following if number not in taken)
    return [
        item if item.id is not None else item.model_copy(update={"id": next(free)})
        for item in items
    ]
