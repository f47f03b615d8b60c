"""The REST API against its own document: schemathesis with all checks, good and bad data."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.intercepting import App, Tap

GUARD_S = 200
EXAMPLES = 3


@pytest.mark.timeout(GUARD_S + 60)
def test_the_api_does_what_its_document_says(tap: Tap, shop: App, tmp_path: Path) -> None:
    for number in range(4):
        tap.get(f"{shop.url}/{number}")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{tap.rest}/openapi.json"),
            *("--header", f"Authorization: Bearer {tap.token}"),
            *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES)),
            # Its wrong tokens would lock it out; those are tried in test_rest.
            *("--exclude-checks", "ignored_auth"),
            *("--generation-deterministic", "--no-color"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "8 passed" in ran.stdout
    assert "Rate limited" not in ran.stdout
    assert tap.call("get_logs", filter="incident")["logs"] == []
