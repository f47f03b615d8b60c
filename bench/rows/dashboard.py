"""The dashboard in a browser: how soon it shows something, and how it bears a flood."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from playwright.sync_api import Browser, Page

from bench.browser import RING
from bench.driving import site
from bench.hub import hub_status
from bench.peers import PILOTHOUSE, Workshop, open_workshop
from bench.row import Bound, Noted, Row, Samplers
from bench.wire import StdioServer
from tests.support.pages import chromium

MB = 1_000_000
PER_SECOND = 1_000
SECONDS = 60
LONG_MS = 100
GUARD_MS = 180_000

FIRST_ROWS = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('[role=option]')) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => window.firstRows = performance.now()));
}).observe(document, {childList: true, subtree: true});
"""
"""Notes when the first rows have been drawn, counted from the start of the navigation."""
LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver(list => longTasks.push(...list.getEntries().map(task => task.duration)))
  .observe({type: 'longtask', buffered: true});
"""
STEADILY = """(() => {
  const began = performance.now();
  let n = 0;
  const timer = setInterval(() => {
    const due = Math.min(%d, (performance.now() - began) / 1000 * %d);
    while (n < due) console.log('line', n++, {a: n});
    if (n >= %d) clearInterval(timer);
  }, 20);
})()"""
KEPT = "many => Number(document.querySelector('[data-rows]')?.dataset.rows) >= many"


@contextmanager
def full_ring() -> Iterator[tuple[str, StdioServer]]:
    """An agent whose page has filled its ring; the dashboard's address, and the agent."""
    with open_workshop() as workshop, site() as url, workshop.start(PILOTHOUSE) as agent:
        agent.handshake()
        agent.call_tool("startSession", {"url": url})
        agent.call_tool("navigate", {"url": f"{url}/flood"})
        agent.call_tool("evaluate", {"script": f"start({RING})"})
        status = hub_status(workshop.home)
        assert status is not None
        yield status["url"], agent
        agent.call_tool("endSession", {})


def load(browser: Browser, url: str) -> float:
    """Milliseconds from the navigation to the first rows, in a browser that has cached nothing."""
    page = browser.new_page()
    page.add_init_script(FIRST_ROWS)
    page.goto(url)
    page.wait_for_function("() => window.firstRows", timeout=GUARD_MS)
    took: float = page.evaluate("window.firstRows")
    page.close()
    return took


@contextmanager
def flooded() -> Iterator[tuple[Page, dict[str, float], float]]:
    """A dashboard after its flood, its heap before that, and the events a second there were."""
    with full_ring() as (url, agent), chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(url)
        page.wait_for_function(KEPT, arg=RING, timeout=GUARD_MS)
        before = heap(page)
        page.evaluate(LONG_TASKS)
        many = PER_SECOND * SECONDS
        began = time.monotonic()
        agent.call_tool("evaluate", {"script": STEADILY % (many, PER_SECOND, many)})
        page.wait_for_function(KEPT, arg=RING + many, timeout=GUARD_MS, polling=500)
        yield page, before, many / (time.monotonic() - began)


def heap(page: Page) -> dict[str, float]:
    """What the page's heap holds after its garbage is gone."""
    session = page.context.new_cdp_session(page)
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    usage: dict[str, float] = session.send("Runtime.getHeapUsage")
    session.detach()
    return usage


def long_tasks() -> Noted:
    """How many tasks of the page took longer than a tenth of a second."""
    with flooded() as (page, _, rate):
        tasks: list[float] = page.evaluate("longTasks")
    longest = max(tasks, default=0)
    note = f"the longest took {longest:.0f} ms, at {rate:.0f} events/s"
    return Noted(sum(1 for took in tasks if took > LONG_MS), note)


def heap_growth() -> Noted:
    """Percent by which the heap grows; the bytes of rows lie beside it, and are noted."""
    with flooded() as (page, before, rate):
        after = heap(page)
    used, grown = before["usedSize"], after["usedSize"]
    beside = [one.get("backingStorageSize", 0) / MB for one in (before, after)]
    note = (
        f"from {used / MB:.1f} to {grown / MB:.1f} MB, packed rows beside it from {beside[0]:.1f}"
        f" to {beside[1]:.1f} MB, at {rate:.0f} events/s"
    )
    return Noted((grown / used - 1) * 100, note)


@contextmanager
def run_load(_: Workshop) -> Iterator[Samplers]:
    with full_ring() as (url, _agent), chromium() as browser:
        yield {PILOTHOUSE: partial(load, browser, url)}


@contextmanager
def run_once(measure: Any, _: Workshop) -> Iterator[Samplers]:
    yield {PILOTHOUSE: measure}


LOAD = Row(
    name="dashboard-load",
    title=f"Dashboard: navigation to first rows, {RING:,} events in the ring",
    subject=PILOTHOUSE,
    peers=(),
    unit="ms",
    better="lower",
    bound=Bound(500),
    run=run_load,
)

LONG = Row(
    name="dashboard-long-tasks",
    title=f"Dashboard: tasks over {LONG_MS} ms, {PER_SECOND:,} events/s for {SECONDS} s",
    subject=PILOTHOUSE,
    peers=(),
    unit="tasks",
    better="lower",
    bound=Bound(2),
    run=partial(run_once, long_tasks),
    exact=True,
)

HEAP = Row(
    name="dashboard-heap",
    title=f"Dashboard: heap growth, {PER_SECOND:,} events/s for {SECONDS} s",
    subject=PILOTHOUSE,
    peers=(),
    unit="%",
    better="lower",
    bound=Bound(10),
    run=partial(run_once, heap_growth),
    exact=True,
)
