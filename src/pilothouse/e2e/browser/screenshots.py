"""Screenshots: as large as a model can use in an answer, whole in a file."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.browser.playwright import error_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pilothouse.e2e.tab import Tab

LONGEST_EDGE = 1568
"""Pixels of an edge; models scale a larger picture down themselves, at the price of its tokens."""
FAILURE = "failure-{}.unmasked.png"
"""Name of the picture of a failed step, by its number: nothing can be masked in a picture."""
GLANCE_MS = 2_000
THUMBNAIL_BYTES = 60_000
THUMBNAILS = ((800, 70), (800, 30), (400, 30))
"""Longest edge and quality of the picture of a failure, the best first."""


async def capture(
    tab: Tab, *, full_page: bool = False, selector: str = "", limit: float | None = None
) -> bytes:
    """Return a PNG of the viewport, of the whole page, or of one element.

    The caret stays: to hide it, the style of every field would be changed and changed back, which
    the next digest would report as the doing of its step.
    """
    if selector:
        element = tab.locator(selector)
        return await element.screenshot(scale="css", caret="initial", timeout=limit)
    return await tab.page.screenshot(
        full_page=full_page, scale="css", caret="initial", timeout=limit
    )


async def glance(tab: Tab) -> bytes:
    """Return a JPEG of the viewport for somebody who looks on; empty if it cannot be had soon."""
    try:
        return await tab.page.screenshot(
            type="jpeg", quality=60, scale="css", caret="initial", timeout=GLANCE_MS
        )
    except Exception as error:
        if not error_name(error):
            raise
        return b""  # it is busy, or has gone


async def shrunk(tab: Tab, picture: bytes, *, full_page: bool = False, selector: str = "") -> bytes:
    """Return the same picture with no edge longer than a model can use."""
    width, height = size(picture)
    longest = max(width, height)
    cdp = await tab.cdp() if longest > LONGEST_EDGE else None
    if cdp is None:
        return picture
    x, y = (0.0, 0.0) if full_page and not selector else await _place(tab, selector)
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": LONGEST_EDGE / longest}
    said: dict[str, Any] = await cdp.send(
        "Page.captureScreenshot",
        {"format": "png", "clip": clip, "captureBeyondViewport": full_page or bool(selector)},
    )
    return base64.b64decode(said["data"])


async def thumbnail(ask: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]) -> bytes:
    """Return a JPEG of the viewport with no edge over 800 px and at most 60 kB; empty if no quality
    makes it that small."""
    # Asked of the browser, not of the page, whose scripts may say anything of its size.
    metrics: dict[str, Any] = await ask("Page.getLayoutMetrics", {})
    seen = metrics["cssVisualViewport"]
    width, height = seen["clientWidth"], seen["clientHeight"]
    if not (width and height):
        return b""
    # A dense screen has several pixels to one of CSS.
    ratio = max(1.0, metrics["visualViewport"]["clientWidth"] / width)
    for edge, quality in THUMBNAILS:
        scale = min(1.0, edge / max(width, height)) / ratio
        place = {"x": seen["pageX"], "y": seen["pageY"]}
        clip = {**place, "width": width, "height": height, "scale": scale}
        asked = {"format": "jpeg", "quality": quality, "clip": clip}
        said = await ask("Page.captureScreenshot", asked)
        picture = base64.b64decode(said["data"])
        if len(picture) <= THUMBNAIL_BYTES:
            return picture
    return b""


async def _place(tab: Tab, selector: str) -> tuple[float, float]:
    """Return where in the document the viewport, or an element, begins."""
    x, y = await tab.page.evaluate("() => [scrollX, scrollY]")
    box = await tab.locator(selector).bounding_box() if selector else None
    return (x + box["x"], y + box["y"]) if box else (x, y)


def size(png: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, from its header."""
    width, height = struct.unpack(">II", png[16:24])
    return width, height
