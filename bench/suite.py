"""How long `make test` takes, and where the time goes: `make bench ARGS=suite`.

The suite writes its figures by itself (tests/support/timing.py); here they are kept.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from bench.machine import machine_facts

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / ".cache" / "suite.json"
KEPT = ROOT / "bench" / "results" / "suite.json"
NAME = "suite"


def measure_suite() -> int:
    """Run every test and keep the figures; the exit code is that of `make test`."""
    FIGURES.unlink(missing_ok=True)
    # ARGS is emptied: make hands that of `make bench ARGS=suite` on, as the choice of tests.
    code = subprocess.run(["make", "test", "ARGS="], cwd=ROOT, check=False).returncode
    if code == 0:
        measured = json.loads(FIGURES.read_bytes())
        about = {"date": datetime.now(UTC).date().isoformat(), "machine": machine_facts()}
        KEPT.write_text(json.dumps({**about, **measured}, indent=1) + "\n")
    return code
