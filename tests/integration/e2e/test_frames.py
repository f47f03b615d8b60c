"""Frames and shadow roots: what changes in them is told, and what is in them is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.driving import Driver

pytestmark = pytest.mark.browser

INNER = (
    "<label>Card <input placeholder='Your number'></label>"
    "<button onclick=\"said.append('Paid'); this.remove()\">Pay</button>"
    "<p id=said></p><p id=hint hidden>Hint</p>"
)


@pytest.fixture
def page(shop: Driver) -> Iterator[Driver]:
    shop.visit("/second.html")
    yield shop
    shop.visit("/")


def show(page: Driver, html: str) -> None:
    """Put elements into the page, and wait until its frames have loaded."""
    page.value(
        f"""async () => {{
          document.body.innerHTML = {json.dumps(html)};
          const frames = [...document.querySelectorAll('iframe')];
          await Promise.all(frames.map(one => new Promise(done => {{ one.onload = done; }})));
        }}"""
    )


def frame(html: str, name: str = "pay") -> str:
    escaped = html.replace("&", "&amp;").replace('"', "&quot;")
    return f'<iframe id={name} srcdoc="{escaped}"></iframe>'


def test_a_change_in_a_frame_is_told_and_its_text(page: Driver) -> None:
    show(page, "<h1>Shop</h1>" + frame(INNER))
    done = page.call("click", selector="text=Pay")
    assert done["dom"] == "1 added, 1 removed: Paid"


def test_another_document_in_a_frame_is_told(page: Driver) -> None:
    show(page, frame("<p>First</p>"))
    page.value("document.title")
    told = page.call(
        "evaluate",
        script="""() => new Promise(done => {
          pay.onload = () => done(1);
          pay.srcdoc = '<p>Second</p>';
        })""",
    )
    assert told["dom"].endswith(": Second")


def test_a_change_in_a_frame_of_another_origin_is_told(page: Driver) -> None:
    parts = urlsplit(page.url)
    host = "127.0.0.1" if parts.hostname == "localhost" else "localhost"
    show(page, f"<iframe src='http://{host}:{parts.port}/obstacles.html'></iframe>")
    done = page.call("click", selector="#reveal")
    assert done["dom"] == "1 added, 1 removed: reveal"
    page.call("waitForSelector", selector="#hidden")
    assert page.call("exists", selector="#hidden") == {"exists": True, "count": 1, "visible": True}


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_change_in_a_shadow_root_is_told_and_its_text(page: Driver, mode: str) -> None:
    show(page, "<div id=host></div><button id=go>Go</button>")
    page.value(
        f"""() => {{
          const root = host.attachShadow({{mode: '{mode}'}});
          go.onclick = () => {{
            const made = document.createElement('p');
            made.textContent = 'Saved';
            root.append(made);
          }};
        }}"""
    )
    assert page.call("click", selector="#go")["dom"] == "1 added: Saved"
    assert page.value("Element.prototype.attachShadow.toString()").endswith("{ [native code] }")


def test_text_in_a_frame_is_waited_for_until_it_comes_and_until_it_goes(page: Driver) -> None:
    show(page, "<h1>Shop</h1>" + frame(INNER))
    assert page.call("waitFor", text="Card")["met"] == {"text": True}
    page.value(
        "setTimeout(() => { document.querySelector('iframe').contentDocument.body.innerHTML ="
        " '<p>Done'; }, 200)"
    )
    assert page.call("waitFor", text="Done", textGone="Pay")["met"] == {
        "text": True,
        "textGone": True,
    }
    assert page.fault("waitFor", textGone="Done", timeout=300)["type"] == "timeout"
    assert page.fault("waitFor", text="Nowhere", timeout=300)["type"] == "timeout"


def test_a_frame_that_comes_later_is_looked_into(page: Driver) -> None:
    show(page, "<h1>Shop</h1>")
    page.value(
        f"() => {{ setTimeout(() => {{ document.body.innerHTML += {json.dumps(frame(INNER))}; }},"
        " 200); }"
    )
    assert page.call("click", selector="text=Pay")["success"] is True
    page.call("waitForSelector", selector="#said")


def test_text_in_the_page_and_in_a_frame_is_there_and_the_page_goes_first(page: Driver) -> None:
    show(page, '<button onclick="this.append(1)">Pay</button>' + frame(INNER))
    assert page.call("exists", selector="text=Pay")["count"] == 2
    assert page.call("waitFor", text="Pay")["met"] == {"text": True}
    assert page.call("waitForSelector", selector="text=Pay")["success"] is True
    page.call("click", selector="text=Pay")
    assert page.call("exists", selector="text=Pay1")["count"] == 1
    assert page.fault("waitFor", textGone="Pay", timeout=300)["type"] == "timeout"


def test_what_two_frames_have_is_ambiguous(page: Driver) -> None:
    show(page, frame(INNER, "one") + frame(INNER, "two"))
    assert page.call("exists", selector="text=Pay") == {
        "exists": True,
        "count": 2,
        "visible": True,
    }
    error = page.fault("click", selector="text=Pay", timeout=5_000)
    assert error["type"] == "selector_ambiguous"
    first, second = error["candidates"]
    assert first.startswith("f")
    page.call("click", selector=second.partition(" is ")[0])
    assert page.value("two.contentDocument.getElementById('said').innerText") == "Paid"


def test_a_hidden_element_of_a_frame_is_there_and_not_visible(page: Driver) -> None:
    show(page, frame(INNER))
    assert page.call("exists", selector="#hint") == {"exists": True, "count": 1, "visible": False}
    assert page.call("exists", selector="#none")["exists"] is False
    error = page.fault("click", selector="#none", timeout=1_000)
    assert (error["type"], error["selector"]) == ("element_not_found", "#none")


@pytest.mark.parametrize(
    ("selector", "html"),
    [
        ("label=Card", INNER),
        ("placeholder=your number", INNER),
        ('label="Card"', INNER + "<label>card <input></label>"),
        ("form >> label=Card", f"<label>Card <input></label><form>{INNER}</form>"),
    ],
)
@pytest.mark.parametrize("in_frame", [False, True])
def test_a_field_is_found_by_its_label_and_its_placeholder(
    page: Driver, selector: str, html: str, in_frame: bool
) -> None:
    show(page, frame(html) if in_frame else html)
    page.call("type", selector=selector, text="4242")
    found = page.call("evaluate", selector="[placeholder]", script="e => e.value")
    assert found["result"] == "4242"


def test_steps_in_frames_are_exported_with_the_way_into_them(page: Driver) -> None:
    show(page, "<h1>Shop</h1>" + frame(INNER))
    page.call("type", selector="label=Card", text="4242")
    page.call("click", selector="text=Pay")
    page.call("waitFor", text="Paid", timeout=30_000)
    source = page.resource(page.call("exportSession")["files"][0]["uri"]).decode()
    lines = source.splitlines()[-3:]
    way = 'page.locator("#pay").content_frame.'
    assert lines[0].strip() == way + 'get_by_role("textbox", name="Card").fill("4242")'
    assert lines[1].strip() == way + 'get_by_role("button", name="Pay").click()'
    paid = f'expect({way}get_by_text("Paid").first)'
    assert lines[2].strip() == paid + ".to_be_visible(timeout=30_000)"
