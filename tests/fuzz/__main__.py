"""`python -m tests.fuzz`: fuzz for a while, print the figures, and fail on an incident."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.judge import Figures

SECONDS = 600
VALID_SHARE = 0.5


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long (600)")
    parser.add_argument("--seed", type=int, default=None, help="draw the same again")
    parser.add_argument("--keep", action="store_true", help="write the worst inputs to corpus/")
    given = parser.parse_args(argv)
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"seed {seed}, {given.seconds:g} s", flush=True)
    root = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    try:
        _move_to(root)
        from tests.fuzz.run import run

        figures = run(given.seconds, Random(seed), keep=given.keep)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report(figures, seed)


def _move_to(root: Path) -> None:
    """Leave the user's environment, as tests do."""
    from tests.support import forkserver
    from tests.support.hermetic import guard
    from tests.support.hermetic.place import make_place, neutral_environment

    root.chmod(0o711)
    environ = neutral_environment(os.environ)
    place = make_place(root / "w")
    os.environ.clear()
    os.environ.update({**environ, **place.variables()})
    tempfile.tempdir = str(place.temp)
    forkserver.home_environ.update(os.environ)
    guard.install()


def report(figures: Figures, seed: int) -> int:
    """Print the figures; 1 when the run has failed."""
    from tests.fuzz.run import grown

    print("\ntool                      passed  failed  refused")
    for tool, counts in sorted(figures.by_tool.items()):
        row = (counts[name] for name in ("passed", "failed", "refused"))
        codes = ", ".join(f"{code} {many}" for code, many in figures.codes[tool].most_common(5))
        print(f"{tool:24}", *(f"{number:7}" for number in row), f"  {codes}")
    print("\ncalls by agent:", dict(figures.calls))
    print("resources read:", figures.resources)
    print("frames by socket:", dict(figures.frames))
    print("slowest:")
    for took, tool, arguments in figures.slowest:
        print(f"  {took:6.2f} s  {tool} {arguments}")
    for lane, sizes in figures.memory.items():
        print(f"memory of {lane}, MB:", " ".join(f"{size:.0f}" for size in sizes))
    troubles = [
        *(f"incident: {incident}" for incident in dict.fromkeys(figures.incidents)),
        *([f"{figures.hangs} calls hung"] if figures.hangs else []),
        *grown(figures.memory),
    ]
    if figures.valid_share < VALID_SHARE:
        troubles.append("less than half of the calls passed validation")
    for trouble in troubles:
        print(trouble[:4_000])
    print(
        f"\nseed {seed}: {figures.outcomes.total()} calls, {figures.valid_share:.0%} passed"
        f" validation, {figures.frames.total()} frames, {len(troubles)} troubles"
    )
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
