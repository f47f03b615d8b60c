"""The command `python -m scripts.demo`, behind `make demo`.

The agent is a process of its own that stays for a while when the demo is over: while its client is
connected its session lives, and the dashboard has something to show.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from scripts.demo.keeping import end_former

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

KEEP_S = 600
"""As long as a browser session may be idle."""
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything went as it should; the agent may still be there then."""
    options = _parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    was_there = end_former(options.output)
    if options.stop:
        print("the demo's session has ended" if was_there else "no session of the demo is open")
        return 0
    told, tell = os.pipe()
    words = [str(options.output), str(options.keep), str(tell)]
    agent = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo.running", *words],
        pass_fds=(tell,),
        # Whoever interrupts the demo reaches the agent through it, and not both at once.
        start_new_session=True,
    )
    os.close(tell)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        went_well = os.read(told, 1)
        return 0 if went_well else agent.wait() or 1
    except KeyboardInterrupt:
        agent.terminate()
        agent.wait()
        return INTERRUPTED


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m scripts.demo",
        description="An agent finds a planted fault in the shop of examples/shop.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="FOLDER",
        help="where the files go (default: %(default)s)",
    )
    parser.add_argument(
        "--keep",
        type=float,
        default=KEEP_S,
        metavar="SECONDS",
        help="how long the session stays open for the dashboard (default: %(default)s)",
    )
    parser.add_argument("--stop", action="store_true", help="end the session of the last demo")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
