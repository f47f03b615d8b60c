"""The command line as a user runs it, until it has ended."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.servers import PRODUCT, ROOT, environment
from tests.support.until import GUARD_S

if TYPE_CHECKING:
    from collections.abc import Mapping


def run(
    *args: str, module: str = PRODUCT, env: Mapping[str, str] | None = None, input: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command, by its real start."""
    return subprocess.run(
        [sys.executable, "-m", module, *args],
        capture_output=True,
        text=True,
        env=environment(dict(env or {})),
        cwd=ROOT,
        input=input,
        timeout=GUARD_S,
        check=False,
    )
