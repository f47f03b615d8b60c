"""Says at the end of a run where its time went: the slowest tests, and the time per folder.

Those of the whole suite are also written to `.cache/suite.json`, with those of every module, for
`make bench ARGS=suite`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / ".cache" / "suite.json"
SLOWEST = 20
MANY = 1_000
"""Tests from which on it is worth saying where the time went."""

_began = time.monotonic()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the figures as the last lines of a run of many tests."""
    spent: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            nodeid, duration = getattr(report, "nodeid", ""), getattr(report, "duration", None)
            if nodeid and duration is not None:
                spent[nodeid] += duration
                modules[nodeid.partition("::")[0]] += duration
    if len(spent) < MANY:
        return
    for name, seconds in modules.items():
        folders["/".join(name.split("/")[:3])] += seconds
    wall = time.monotonic() - _began
    figures = {
        "wall_s": round(wall, 1),
        "workers": config.getoption("numprocesses", None) or 1,
        "tests": len(spent),
        "folders_s": {name: round(s, 1) for name, s in folders.most_common()},
        "modules_s": {name: round(s, 1) for name, s in modules.most_common()},
        "slowest_s": {name: round(s, 1) for name, s in spent.most_common(SLOWEST)},
    }
    _print(terminalreporter, figures)
    # Part of the suite says nothing of the other modules, and the order of a run goes by it.
    if config.args_source is not pytest.Config.ArgsSource.ARGS and not config.option.keyword:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(figures, indent=1) + "\n")


def _print(reporter: pytest.TerminalReporter, figures: dict[str, Any]) -> None:
    reporter.section("where the time went (seconds of one worker)")
    for name, seconds in figures["folders_s"].items():
        reporter.write_line(f"{seconds:8.1f}  {name}")
    reporter.write_line("")
    for name, seconds in figures["slowest_s"].items():
        reporter.write_line(f"{seconds:8.1f}  {name}")
    reporter.write_line(
        f"{figures['tests']} tests in {figures['wall_s']} s by {figures['workers']} workers"
    )
