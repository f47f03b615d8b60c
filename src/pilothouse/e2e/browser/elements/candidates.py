"""The elements that an ambiguous selector finds, each with what tells it from the others."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from pilothouse.e2e.browser.elements.selectors import for_playwright

if TYPE_CHECKING:
    from pilothouse.e2e.browser.playwright import Locator
    from pilothouse.e2e.tab import Tab

MOST = 8
EACH_S = 0.5
_REF = re.compile(r"\[ref=((?:f\d+)?e\d+)\]")

DESCRIBE = """
elements => elements.slice(0, 8).map(element => {
  const text = node => (node.innerText ?? node.textContent ?? '').trim().replace(/\\s+/g, ' ');
  const outer = node => node.parentElement ?? node.getRootNode().host ?? null;
  const own = text(element);
  let around = outer(element);
  while (around && around !== document.body && text(around) === own) around = outer(around);
  const tag = element.cloneNode(false).outerHTML.replace(/<\\/[^>]*>$/, '').slice(0, 80);
  const name = around?.id ? `#${around.id}` : '';
  const near = around ? text(around) : '';
  return [tag + own.slice(0, 40),
    near && near !== own ? `${around.tagName.toLowerCase()}${name} "${near.slice(0, 80)}"` : ''];
})
"""


async def candidates(tab: Tab, selector: str) -> list[str]:
    """Return a line for each of the first few: a selector of its own, its ref, what is around it.

    A page snapshot has to be taken afterwards: the refs of only the newest one work.
    """
    wanted = for_playwright(selector)
    frames = tab.page.frames if selector in tab.in_any_frame else tab.page.frames[:1]
    found: list[tuple[Locator, str, str]] = []
    holders = 0
    for frame in frames:
        described = await frame.locator(wanted).evaluate_all(DESCRIBE)
        holders += bool(described)
        for number, (element, around) in enumerate(described[: MOST - len(found)]):
            near = f", in {around}" if around else ""
            found.append((frame.locator(wanted).nth(number), element, near))
    refs = await asyncio.gather(*(_ref(locator) for locator, _, _ in found))
    lines = []
    for number, ((_, element, near), ref) in enumerate(zip(found, refs, strict=True)):
        # One that several frames have is named by its ref alone.
        name = f"{selector} >> nth={number}" if holders == 1 else ref
        shown = f" [ref={ref}]" if ref else ""
        lines.append(f"{name} is {element}{shown}{near}")
    return lines


async def _ref(element: Locator) -> str:
    tree = await element.aria_snapshot(mode="ai", depth=1, timeout=EACH_S * 1000)
    match = _REF.search(tree.partition("\n")[0])
    return match[1] if match else ""
