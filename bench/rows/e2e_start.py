"""Starting a session on an app that is ready, with its browser, recorded from the first request."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.driving import FLAGS, browser_path, site
from bench.peers import PILOTHOUSE, RAW_PLAYWRIGHT, Workshop
from bench.row import Bound, Row, Samplers

LAUNCH = """
import asyncio, sys, time
from playwright.async_api import async_playwright
async def main():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=sys.argv[1], args=sys.argv[2:])
        await browser.new_page()
        print("there", flush=True)
        await browser.close()
asyncio.run(main())
"""


def raw_start() -> float:
    """Driver start, launch() and new_page() in a fresh process, until the page is there."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCH, browser_path(), *FLAGS], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "there"
        took = (time.perf_counter() - began) * 1000
    return took


def session_start(workshop: Workshop, url: str) -> float:
    """The first startSession of a fresh server: nothing is warm."""
    with workshop.start(PILOTHOUSE) as server:
        server.handshake()
        began = time.perf_counter()
        server.call_tool("startSession", {"url": url})
        took = (time.perf_counter() - began) * 1000
        server.call_tool("endSession", {})
    return took


@contextmanager
def run(workshop: Workshop) -> Iterator[Samplers]:
    with site() as url:
        yield {PILOTHOUSE: partial(session_start, workshop, url), RAW_PLAYWRIGHT: raw_start}


ROW = Row(
    name="e2e-start",
    title="Start a session on an app that runs, browser included",
    subject=PILOTHOUSE,
    peers=(RAW_PLAYWRIGHT,),
    unit="ms",
    better="lower",
    bound=Bound(1.2, of=RAW_PLAYWRIGHT),
    run=run,
)
