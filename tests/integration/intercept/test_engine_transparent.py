"""Transparent proxies, with connections that the kernel really redirects."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.redirecting import CANNOT

if TYPE_CHECKING:
    from pathlib import Path

GUARD_S = 100


def test_redirected_connections_are_recorded_and_reach_their_servers(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.redirecting", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    if ran.returncode == CANNOT:
        pytest.skip(f"connections cannot be redirected here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    came = json.loads(ran.stdout)
    assert all(answer.endswith("hello, world") for answer in came["answers"])
    plain, secure = came["ports"]
    assert came["rows"] == [
        *[["http", plain, "/hello", 200]] * 2,
        *[["https", secure, "/hello", 200]] * 2,
    ]
