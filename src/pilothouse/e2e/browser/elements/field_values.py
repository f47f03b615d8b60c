"""Values of form fields: whether one takes a text, and what it has after a step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.failure.digest import cut
from pilothouse.e2e.model import InvalidValue

if TYPE_CHECKING:
    from pilothouse.e2e.browser.playwright import Locator
    from pilothouse.e2e.failure.digest import DomChanges
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.tab import Tab

MOST_CHARACTERS = 200

_WANTED = """
(element, text) => {
  const formats = {date: 'YYYY-MM-DD', time: 'HH:MM', month: 'YYYY-MM', week: 'YYYY-Www',
    'datetime-local': 'YYYY-MM-DDTHH:MM', number: 'a number', color: '#rrggbb',
    range: `a number from ${element.min || 0} to ${element.max || 100}`};
  const format = element.localName === 'input' ? formats[element.type] : '';
  if (!format || !text) return [element.type, ''];
  const probe = element.cloneNode();
  probe.value = text;
  const corrects = element.type === 'color' || element.type === 'range';
  const takes = corrects ? probe.value === text.toLowerCase() : probe.value !== '';
  return [element.type, takes ? '' : format];
}
"""
"""The type of a field, and the format that it wants where it does not take a text. Fields of some
types throw away what they do not take, with what they had."""

_HAS_PICKY = """
(() => {
  const picky = ['date', 'time', 'month', 'week', 'datetime-local', 'number', 'color', 'range']
    .map(type => `input[type="${type}" i]`).join();
  const has = tree => tree.querySelector(picky) !== null ||
    [...tree.querySelectorAll('*')].some(node => node.shadowRoot && has(node.shadowRoot));
  return has(document);
})()
"""
"""Expression that is true if a page has fields that throw away what they do not take."""
_ASK_S = 1.0

_VALUE = """
field => field.type === 'password' ? null : String(field.value ?? field.innerText).slice(0, 2000)
"""


_HAS_TEXT = "field => Boolean(field.value ?? field.textContent)"


async def may_refuse(tab: Tab) -> bool:
    """Tell whether a page may have fields that do not take every text. To ask the field itself
    takes as long as typing into it; the observer's way to the page is a tenth of that."""
    if tab.recording is None or len(tab.page.frames) > 1:
        return True
    try:
        async with asyncio.timeout(_ASK_S):
            return await tab.recording.value(_HAS_PICKY) is not False
    except TimeoutError:
        return True


async def check_value(field: Locator, text: str, selector: str, limit: float) -> str:
    """Return the type of a field that takes a text, such as `password` or `select-one`.

    Raises:
        InvalidValue: it does not.
    """
    kind, wanted = await field.evaluate(_WANTED, text, timeout=limit)
    if wanted:
        raise InvalidValue(
            f'"{selector}" is a {kind} field, which does not take "{cut(text, 80)}"',
            hint=f"pass {wanted}",
            selector=selector,
            format=wanted,
            value=cut(text, 80),
        )
    return str(kind)


async def clear(field: Locator, limit: float) -> None:
    """Clear a field, unless it is empty; what is no field takes keys as it likes."""
    if not await field.evaluate(_HAS_TEXT, timeout=limit):
        return  # emptying it would press a key that nobody asked for
    try:
        await field.fill("", timeout=limit)
    except Exception as error:
        if not error_name(error) or "Element is not an <input>" not in str(error):
            raise


async def value_after(field: Locator, changes: DomChanges | None, limit: float) -> str | None:
    """Return what a field has now, asking it only where the page's watcher could not tell, which
    sees no frames; None of a password."""
    if changes is not None and (changes.value is not None or changes.password):
        return changes.value
    try:
        found: str | None = await field.evaluate(_VALUE, timeout=limit)
        return found
    except Exception as error:
        if not error_name(error):
            raise
        return None  # it has gone with what it was given


def shown(session: E2eSession, value: str | None) -> str | None:
    """Return a value as an answer has it: masked before it is cut; None if it is not known."""
    if value is None:
        return None
    text = str(session.mask(value))
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
