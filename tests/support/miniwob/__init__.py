"""MiniWoB++: small tasks for agents in pages that nobody here wrote, each drawn from a seed.

The pages come with a package, which the set-up for tests installs (tests/support/apps) without what
it needs to run: nothing but its pages is used.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support import apps
from tests.support.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER = """
import os, sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

pages = partial(SimpleHTTPRequestHandler, directory=sys.argv[1])
ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), pages).serve_forever()
"""


def pages() -> Path:
    """Return the folder of the pages."""
    environment = apps.python_of(apps.MINIWOB_LOCK).parents[1]
    (found,) = environment.glob("lib/python*/site-packages/miniwob/html")
    return found


@contextmanager
def tasks() -> Iterator[Driver]:
    """Open a session on the pages."""
    with Driver() as driver:
        driver.start(command=[sys.executable, "-c", SERVER, str(pages())])
        yield driver


def begin(driver: Driver, task: str, seed: int) -> str:
    """Begin a task, which has all the time it needs; return what is to be done."""
    driver.visit(f"/miniwob/{task}.html")
    drawn = f"core.EPISODE_MAX_TIME = 1e6; Math.seedrandom({json.dumps(seed)})"
    asked: str = driver.value(
        f"() => {{ {drawn}; core.startEpisodeReal();"
        " return document.querySelector('#query').textContent }"
    )
    return asked


def is_done(driver: Driver) -> bool:
    """Tell whether the task was done, and as it should be."""
    return bool(driver.value("WOB_DONE_GLOBAL && WOB_RAW_REWARD_GLOBAL === 1"))
