"""Guides that are followed by tests: calls in JSON blocks, each with the answer below it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.agent import Agent

BLOCK = re.compile(r"```json\n(.+?)\n```", re.S)


@dataclass(frozen=True)
class Exchange:
    """A call of a guide, and as much of the answer as it tells."""

    tool: str
    arguments: str
    told: dict[str, Any]


def exchanges(text: str) -> list[Exchange]:
    """The calls of a part of a guide, each with the answer below it."""
    blocks = [json.loads(block) for block in BLOCK.findall(text)]
    calls, answers = blocks[::2], blocks[1::2]
    assert len(calls) == len(answers)
    assert all(call.keys() == {"name", "arguments"} for call in calls)
    return [
        Exchange(call["name"], json.dumps(call["arguments"]), answer)
        for call, answer in zip(calls, answers, strict=True)
    ]


def fits(told: Any, got: Any) -> bool:
    """Whether an answer is as told: `…` is any text, and what is not told may be anything."""
    if isinstance(told, dict):
        return isinstance(got, dict) and all(fits(told[name], got.get(name)) for name in told)
    if isinstance(told, list):
        wanted = [each for each in told if each != "…"]
        return all(any(fits(each, one) for one in got) for each in wanted) and bool(told or not got)
    if isinstance(told, str):
        pattern = ".*".join(re.escape(part) for part in told.split("…"))
        return isinstance(got, str) and re.fullmatch(pattern, got, re.S) is not None
    return bool(told == got)


def follow(
    agent: Agent, exchange: Exchange, words: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a call of a guide with some of its words replaced; the result, and what it answers."""
    text = exchange.arguments
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    result = agent.ask(exchange.tool, **json.loads(text))
    answer: dict[str, Any] = result["structuredContent"]
    assert result["isError"] is ("error" in exchange.told), answer
    assert fits(exchange.told, answer), (exchange, answer)
    return result, answer
