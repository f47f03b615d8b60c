"""Modules that run as a process of their own, in a system that they have changed for themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.redirecting import CANNOT


def told_apart(module: str, *args: str, within_s: float, cannot: str) -> Any:
    """Run a module and return the JSON that it prints; `cannot` says why a test is skipped where
    the system does not let it."""
    ran = subprocess.run(
        [sys.executable, "-m", module, *args],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    if ran.returncode == CANNOT:
        pytest.skip(f"{cannot}: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
