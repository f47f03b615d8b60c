"""A step waits for what the last one left to the page's timers, as a person cannot help doing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.driving import Driver

pytestmark = pytest.mark.browser

EDITOR = """
<div id=editor contenteditable style="width: 300px; height: 60px">words to style</div>
<button id=bold style="margin: 10px">Bold</button><output id=styled></output>
<script>
  const editor = document.querySelector('#editor');
  let kept = '';
  // As Quill does: what is selected is noted a moment after each key.
  for (const type of ['keyup', 'mouseup'])
    editor.addEventListener(type, () => setTimeout(() => { kept = String(getSelection()); }, 100));
  document.querySelector('#bold').onclick = () => {
    document.querySelector('#styled').textContent = `styled [${kept}]`;
  };
</script>
"""


@pytest.fixture
def page(shop: Driver) -> Iterator[Driver]:
    shop.visit("/second.html")
    yield shop
    shop.visit("/")


def show(shop: Driver, html: str) -> None:
    """Put elements into the page, and run their scripts."""
    shop.value(
        f"""() => {{
          document.body.innerHTML = {json.dumps(html)};
          for (const one of document.body.querySelectorAll('script')) (0, eval)(one.textContent);
        }}"""
    )


def style_all(shop: Driver, within: str = "") -> str:
    shop.call("click", selector=f"{within}#editor")
    shop.call("pressKey", key="Control+a")
    shop.call("click", selector=f"{within}#bold")
    return shop.text(f"{within}#styled")


def test_a_click_after_a_key_finds_the_selection_that_an_editor_notes_a_moment_later(
    page: Driver,
) -> None:
    show(page, EDITOR)
    assert style_all(page) == "styled [words to style]"
    page.call("click", selector="#editor")
    for _ in range(5):  # keys need no rest among themselves
        page.call("pressKey", key="Shift+ArrowLeft")
    page.call("pressKey", key="Control+Home")
    for _ in range(5):
        page.call("pressKey", key="Shift+ArrowRight")
    page.call("click", selector="#bold")
    assert page.text("#styled") == "styled [words]"


def test_an_editor_in_a_frame_is_waited_for_as_well(page: Driver) -> None:
    show(
        page, f"<iframe width=500 height=300 srcdoc='{EDITOR.replace(chr(39), chr(34))}'></iframe>"
    )
    assert (
        style_all(page, "iframe >> internal:control=enter-frame >> ") == "styled [words to style]"
    )


def test_a_page_that_plans_for_later_keeps_its_own_timers(page: Driver) -> None:
    show(
        page,
        '<button id=t onclick="window.same = window.setTimeout;'
        " setTimeout((a, b) => { did = a + b }, 50, 1, 2); setTimeout(() => { much = 1 }, 60000);"
        ' clearTimeout(setTimeout(() => { did = 9 }, 1))">Plan</button>'
        "<script>window.did = window.much = 0; window.before = window.setTimeout</script>",
    )
    page.call("click", selector="#t")
    page.call("click", selector="body")
    assert page.value("[did, much, String(same)]") == [3, 0, "function () { [native code] }"]
    wait_until(lambda: page.value("window.setTimeout === window.before"))
