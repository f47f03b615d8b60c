"""The order in which tests run: module by module, the slowest first.

A worker takes the next module when it is nearly done with its own, so that the quick ones fill the
gaps at the end, when otherwise one worker would be alone with the slow ones. `--order reverse` and
`--order random:SEED` find tests that need another one before them.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "bench" / "results" / "suite.json"
"""Figures of an earlier run: `make bench ARGS=suite`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--order",
        default="slowest",
        metavar="slowest|reverse|random:SEED",
        help="order of the modules, and of the tests in them (default: slowest module first)",
    )


def pytest_configure(config: pytest.Config) -> None:
    order = config.getoption("order")
    kind, _, seed = order.partition(":")
    if kind not in ("slowest", "reverse", "random") or (kind == "random") != bool(seed):
        raise pytest.UsageError(f"--order takes slowest, reverse or random:SEED, not {order!r}")


# Last: pytest itself puts tests with the same parameters of a wide fixture side by side.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    by_nodeid = {item.nodeid: item for item in items}
    seconds = json.loads(KEPT.read_bytes())["modules_s"] if KEPT.exists() else {}
    items[:] = [by_nodeid[one] for one in arranged(by_nodeid, seconds, config.getoption("order"))]


def arranged(nodeids: Iterable[str], seconds: Mapping[str, float], order: str) -> list[str]:
    """Return the tests in their order, those of a module always side by side.

    Args:
        nodeids: The tests as they were collected.
        seconds: Time of each module in an earlier run; one that it lacks is taken for slow.
        order: `slowest`, `reverse` or `random:SEED`.
    """
    modules: dict[str, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        modules[nodeid.partition("::")[0]].append(nodeid)
    slowest = sorted(modules, key=lambda name: -seconds.get(name, float("inf")))
    kind, _, seed = order.partition(":")
    if kind == "random":
        dice = random.Random(seed)
        return [one for name in _shuffled(slowest, dice) for one in _shuffled(modules[name], dice)]
    found = [one for name in slowest for one in modules[name]]
    return found[::-1] if kind == "reverse" else found


def _shuffled[T](things: Sequence[T], dice: random.Random) -> list[T]:
    return dice.sample(things, len(things))
