"""A run of part of the suite leaves the figures of the whole one alone."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import timing

if TYPE_CHECKING:
    from pathlib import Path

INI = """
[pytest]
testpaths = tests
addopts = -p tests.support.timing -p no:cacheprovider
"""
MANY = """
import pytest
from pathlib import Path
from tests.support import timing
timing.MANY = 3
timing.FILE = Path(__file__).parent / "kept" / "suite.json"
@pytest.mark.parametrize("number", range(3))
def test_it(number): assert number >= 0
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("chosen", "is_kept"), [((), True), (("tests",), False), (("-k", "test_it"), False)]
)
def test_figures_are_kept_of_the_whole_suite_alone(
    tmp_path: Path, chosen: tuple[str, ...], is_kept: bool
) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_many.py").write_text(MANY)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir", ".", *chosen]
    path = {"PYTHONPATH": str(timing.ROOT), "PATH": ""}
    run = subprocess.run(
        command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 tests in" in run.stdout
    assert (tmp_path / "tests" / "kept" / "suite.json").exists() == is_kept
