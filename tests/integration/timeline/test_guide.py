"""The guide to the timeline, followed to the letter: each call is made, each answer compared."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.timeline.conditions import parse
from tests.support.guides import exchanges, fits, follow
from tests.support.intercepting import Tap
from tests.support.servers import ROOT
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

GUIDE = (ROOT / "docs" / "guides" / "timeline.md").read_text()
LAMPSHOP = ROOT / "tests" / "support" / "lampshop"


def news_of(result: dict[str, Any]) -> list[Any]:
    return list(result.get("_meta", {}).get("pilothouse/watches", []))


def test_the_guide_works_from_the_start_to_the_end(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    shop = shutil.copytree(LAMPSHOP, tmp_path / "shop")
    (command,) = re.findall(r"```sh\n(pilothouse .+)\n```", GUIDE)
    words = {'"shop"': json.dumps(str(shop))}
    footers: list[Any] = []
    with Tap(env={"PILOTHOUSE_ROOTS": str(tmp_path)}) as tap:
        started = tap.process.args
        assert isinstance(started, list)
        assert {*shlex.split(command)} <= {*started}

        def is_as_told(told: dict[str, Any]) -> bool:
            result = tap.ask("timeline", around="step:3")
            footers.extend(news_of(result))
            return fits(told, result["structuredContent"])

        for exchange in exchanges(GUIDE):
            if exchange.tool == "timeline":  # packets are written by a process of their own
                wait_until(partial(is_as_told, exchange.told))
            result, answer = follow(tap, exchange, words)
            footers += news_of(result)
            if exchange.tool == "timeline":
                console = [m for m in answer["moments"] if "order failed" in m["text"]]
                words["CONSOLE"] = console[0]["key"]
    (told,) = footers
    assert (told["id"], told["count"]) == ("w1", 1)
    assert "/api/order" in told["first"]["text"]


@pytest.mark.parametrize("when", re.findall(r"^\| `([^`]+)` \| ", GUIDE, re.M)[1:])
def test_each_condition_of_the_table_is_one(when: str) -> None:
    parse(when)
