"""`make demo`: an agent finds a planted fault, from its start to the last file of its story."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Row, Samplers

PROMISED_S = 60
"""As the README says."""


def demo(workshop: Workshop) -> float:
    """Seconds from its start to its end; the session that it leaves open is not counted."""
    own = {f"PILOTHOUSE_{name}_PORT": "0" for name in ("HTTP", "CONFIG", "REST", "BOOKMARKS")}
    env = {**os.environ, "PILOTHOUSE_HOME": str(workshop.home), **own}
    output = workshop.home.with_name("demo-output")
    run = partial(subprocess.run, env=env, check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-m", "scripts.demo", "--output", str(output)]
    began = time.perf_counter()
    run(command)
    took_s = time.perf_counter() - began
    run([*command, "--stop"])
    return took_s


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    yield {PILOTHOUSE: partial(demo, workshop)}


ROW = Row(
    name="demo",
    title="`make demo`, from its start to its last file",
    subject=PILOTHOUSE,
    peers=(),
    unit="s",
    better="lower",
    bound=Bound(PROMISED_S),
    run=run,
    exact=True,
)
