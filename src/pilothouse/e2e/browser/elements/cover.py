"""Targets that stay covered: a call that gives no time of its own does not wait for them for long.

Playwright acts as soon as nothing is in the way, and cannot be asked meanwhile. So the page is
asked from the side, and only the wait is ended: never a press that has begun, and nothing is ever
done twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pilothouse.e2e.browser.playwright import error_name

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pilothouse.e2e.tab import Tab

STAYS_S = 5.0
LOOK_AGAIN_S = 0.5
"""Seconds between looks; a step that can be taken is over by then: no page is asked in vain."""
LOOK_MS = 1_000


class Covered(Exception):  # not an error of ours: something is in the way
    """Another element covered the target all the time; it is named by the message."""


_COVER = """
target => {
  if (window.__pilothouseAim?.begun()) return null;
  const up = node => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const has = (outer, inner) => {
    for (let node = inner; node; node = up(node)) if (node === outer) return true;
    return false;
  };
  const top = (root, x, y) => {
    let found = root.elementFromPoint(x, y);
    for (let inner; (inner = found?.shadowRoot?.elementFromPoint(x, y)) && inner !== found;)
      found = inner;
    return found;
  };
  const show = node => {
    const [tag] = node.cloneNode(false).outerHTML.split(/<\\/[^>]*>$/);
    const name = node.localName;
    return (tag.length > 160 ? `<${name}>` : tag) + (node.childNodes.length ? '…' : '') +
      `</${name}>`;
  };
  const cover = (wanted, x, y) => {
    const hit = top(wanted.ownerDocument, x, y);
    if (!hit || has(wanted, hit) || [...wanted.labels ?? []].some(label => has(label, hit)))
      return '';
    let whole = hit;
    for (let outer = up(hit); outer && !has(outer, wanted); outer = up(outer)) whole = outer;
    return show(whole);
  };
  if (target.matches(':disabled') || getComputedStyle(target).visibility !== 'visible') return '';
  const box = [...target.getClientRects()].find(one => one.width * one.height > 0);
  if (!box) return '';
  let x = box.x + box.width / 2, y = box.y + box.height / 2;
  let wanted = target.closest('button, a, [role=button], [role=link]') ?? target;
  for (;;) {
    const found = cover(wanted, x, y);
    let frame = null;
    try { frame = wanted.ownerDocument.defaultView.frameElement; } catch { /* another origin */ }
    if (found || !frame) return found;
    const outer = frame.getBoundingClientRect();
    [x, y] = [x + outer.x + frame.clientLeft, y + outer.y + frame.clientTop];
    wanted = frame;
  }
}
"""
"""Function that shows the element that would take a click on the middle of a target, as Playwright
does; empty where none does, null once the pointer has acted."""


async def unless_covered[T](tab: Tab, selector: str, doing: Awaitable[T]) -> T:
    """Act on an element, but wait no more once it has been covered for a while.

    Raises:
        Covered: it stayed so.
    """
    task = asyncio.ensure_future(doing)
    loop = asyncio.get_running_loop()
    since: float | None = loop.time()  # until the page says otherwise
    try:
        while not (await asyncio.wait((task,), timeout=LOOK_AGAIN_S))[0]:
            cover = await _cover(tab, selector)
            if cover is None:
                break
            since = (since or loop.time()) if cover else None
            if since is not None and loop.time() - since >= STAYS_S and not task.done():
                task.cancel()  # which ends the wait in Playwright, too
                await asyncio.wait((task,))
                if task.cancelled():
                    raise Covered(cover)
        return await task
    finally:
        task.cancel()


async def _cover(tab: Tab, selector: str) -> str | None:
    """Return what covers an element, in HTML; empty where nothing does, as far as is known; None
    once the pointer has acted on it."""
    if tab.dialog is not None:
        return None  # which a press has opened, or which ends the step
    try:
        async with asyncio.timeout(LOOK_MS / 1000):
            found: str | None = await tab.locator(selector).first.evaluate(_COVER, timeout=LOOK_MS)
            return found
    except TimeoutError:
        return ""
    except Exception as error:
        if not error_name(error):
            raise
        return ""  # it is not there, or its page is busy or has gone
