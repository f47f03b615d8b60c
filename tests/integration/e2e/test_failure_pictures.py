"""The picture of a failure: an image that a model sees, files and data for whoever wants more."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.support.driving import PNG, Driver, size
from tests.support.until import wait_until

pytestmark = pytest.mark.browser

MOST_WIDE = 800
MOST_BYTES = 60_000
URL = "data:image/png;base64,"
NOISE = """() => {
  const canvas = document.body.appendChild(document.createElement('canvas'));
  canvas.width = innerWidth; canvas.height = innerHeight;
  canvas.style = 'position: fixed; inset: 0';
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < pixels.data.length; at++) pixels.data[at] = Math.random() * 256;
  context.putImageData(pixels, 0, 0);
}"""
"""Covers the page with what compresses worst. On a small page alone: with the whole picture of a
large one a busy machine is not done in time."""


def jpeg_size(jpeg: bytes) -> tuple[int, int]:
    """Width and height of a JPEG, from the header of its frame."""
    assert jpeg.startswith(b"\xff\xd8")
    at = 2
    while jpeg[at + 1] not in (0xC0, 0xC2):
        at += 2 + int(struct.unpack(">H", jpeg[at + 2 : at + 4])[0])
    height, width = struct.unpack(">HH", jpeg[at + 5 : at + 9])
    return width, height


def fails(shop: Driver, tool: str = "click", **arguments: Any) -> dict[str, Any]:
    """The answer of a step that fails, once all of its evidence came in time."""
    asked = arguments or {"selector": "#nothing", "timeout": 200}

    def seen() -> dict[str, Any] | None:
        result = shop.ask(tool, **asked)
        assert result["isError"], result
        return None if "missing" in result["structuredContent"]["error"] else result

    found: dict[str, Any] = wait_until(seen)
    return found


def image(result: dict[str, Any]) -> bytes:
    """The second block of an answer, which must be an image within its limits."""
    _, block = result["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/jpeg")
    shown = base64.b64decode(block["data"])
    assert len(shown) <= MOST_BYTES
    assert max(jpeg_size(shown)) <= MOST_WIDE
    return shown


def test_a_failure_is_seen_and_its_picture_is_whole_in_a_file(shop: Driver) -> None:
    shop.visit("/second.html")
    result = fails(shop)
    assert jpeg_size(image(result)) == (800, 450)
    content = result["structuredContent"]
    assert "screenshot" not in content["error"]
    shot = content["screenshot"]
    assert shot.keys() == {"uri", "path", "capturedAt"}
    whole = shop.resource(shot["uri"])
    assert whole.startswith(PNG)
    assert size(whole) == (1280, 720)
    assert Path(shot["path"]).read_bytes() == whole


def test_the_image_shows_what_is_seen_of_a_page_that_is_scrolled(shop: Driver) -> None:
    shop.visit("/second.html")
    shop.call(
        "evaluate",
        script='document.body.innerHTML = \'<div style="height: 3000px; background: red"></div>'
        '<div style="height: 3000px; background: blue"></div>\'; scrollTo(0, 4000)',
    )
    shown = base64.b64encode(image(fails(shop))).decode()
    colour = shop.value(
        f"""async () => {{
          const image = new Image();
          image.src = 'data:image/jpeg;base64,{shown}';
          await image.decode();
          const canvas = new OffscreenCanvas(image.width, image.height);
          const context = canvas.getContext('2d');
          context.drawImage(image, 0, 0);
          return [...context.getImageData(image.width / 2, 9, 1, 1).data];
        }}"""
    )
    assert colour[0] < 40
    assert colour[2] > 215


def test_the_image_does_not_lean_on_what_the_page_says_of_its_size(shop: Driver) -> None:
    shop.visit("/second.html")
    script = "window.innerWidth = 0; window.devicePixelRatio = 'none'; window.scrollY = null"
    shop.call("evaluate", script=script)
    assert jpeg_size(image(fails(shop))) == (800, 450)


@pytest.mark.parametrize(
    ("width", "height", "drawn"),
    [(2400, 900, ""), (600, 1500, ""), (500, 400, ""), (800, 600, NOISE)],
    ids=["wide", "high", "small", "noise"],
)
def test_a_page_of_any_size_is_shown_within_the_limits(
    shop: Driver, width: int, height: int, drawn: str
) -> None:
    shop.visit("/second.html")
    shop.call("resize", width=width, height=height)
    if drawn:
        shop.call("evaluate", script=drawn)
    result = fails(shop)
    shop.call("resize", width=1280, height=720)
    wide, high = jpeg_size(image(result))
    assert abs(wide / high - width / height) < 0.02
    assert wide <= width
    whole = Path(result["structuredContent"]["screenshot"]["path"]).read_bytes()
    assert size(whole) == (width, height)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("click", {"selector": "#nothing", "timeout": 200}),
        ("evaluate", {"script": "nowhere()"}),
        ("waitFor", {"text": "never", "timeout": 200}),
        ("getContent", {"selector": "e9999"}),
    ],
)
def test_with_inline_the_picture_is_in_the_structured_part_alone(
    shop: Driver, tool: str, arguments: dict[str, Any]
) -> None:
    shop.visit("/second.html")
    result = fails(shop, tool, inline=True, **arguments)
    shot = result["structuredContent"]["screenshot"]
    assert shot["data"].startswith(URL)
    assert base64.b64decode(shot["data"].removeprefix(URL)) == Path(shot["path"]).read_bytes()
    assert URL not in result["content"][0]["text"]
    assert shot["uri"] in result["content"][0]["text"]
    image(result)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exists", {"selector": "h1"}),
        ("find", {"text": "page"}),
        ("snapshot", {}),
        ("getContent", {}),
        ("evaluate", {"script": "1"}),
        ("waitFor", {"selector": "h1"}),
        ("waitForSelector", {"selector": "h1"}),
        ("hover", {"selector": "h1"}),
    ],
)
def test_inline_makes_no_difference_to_a_step_that_succeeds(
    shop: Driver, tool: str, arguments: dict[str, Any]
) -> None:
    shop.visit("/second.html")
    result = shop.ask(tool, inline=True, **arguments)
    assert not result["isError"]
    assert [block["type"] for block in result["content"]] == ["text"]
    assert "data" not in result["structuredContent"]


def test_a_screenshot_with_inline_has_its_base64_in_the_structured_part_alone(
    shop: Driver,
) -> None:
    shop.visit("/second.html")
    result = shop.ask("screenshot", inline=True)
    told = result["structuredContent"]
    assert base64.b64decode(told["data"], validate=True) == Path(told["path"]).read_bytes()
    assert told["data"][:40] not in result["content"][0]["text"]
    assert result["content"][1]["type"] == "image"
    assert "data" not in shop.call("screenshot")


@pytest.mark.parametrize(("how", "beside"), [("path", True), ("none", False)])
def test_the_image_can_be_left_out(how: str, beside: bool) -> None:
    with Driver("--failure-picture", how) as driver:
        driver.start()
        driver.visit("/second.html")
        result = fails(driver)
        assert len(result["content"]) == 1
        assert ("screenshot" in result["structuredContent"]) is beside
        asked = fails(driver, selector="#nothing", timeout=200, inline=True)
        assert len(asked["content"]) == 1
        assert asked["structuredContent"]["screenshot"]["data"].startswith(URL)
