"""A step of the pointer is a success only if its target took it, and says so where it did not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.driving import Driver

pytestmark = pytest.mark.browser

LANE = "position: absolute; left: 300px; top: 200px; width: 200px; height: 90px"
BOX = "position: absolute; left: 40px; top: 40px; width: 120px; height: 40px"


@pytest.fixture
def page(shop: Driver) -> Iterator[Driver]:
    shop.visit("/second.html")
    yield shop
    shop.visit("/")


def show(shop: Driver, html: str) -> None:
    """Put elements into the page, with their handlers; what they do is counted in `did`."""
    shop.value(f"() => {{ window.did = []; document.body.innerHTML = {json.dumps(html)}; }}")


def did(shop: Driver) -> list[int]:
    found: list[int] = shop.value("window.did")
    return found


HITS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": (f'<button id=t style="{BOX}" onclick="did.push(1)">Buy</button>', "#t", {}),
    "a descendant": (
        f'<button id=t style="{BOX}" onclick="did.push(1)"><i>Buy</i></button>',
        "#t",
        {},
    ),
    "its label": (
        '<label style="display: block; width: 200px">Terms'
        ' <input type=checkbox id=t onclick="did.push(1)"></label>',
        "#t",
        {},
    ),
    "prevented mousedown": (
        f'<button id=t style="{BOX}" onmousedown="event.preventDefault()" onclick="did.push(1)">'
        "Buy</button>",
        "#t",
        {},
    ),
    "svg": (
        '<svg width=200 height=100><rect id=t width=100 height=50 onclick="did.push(1)"/></svg>',
        "#t",
        {},
    ),
    "right": (
        f'<div id=t style="{BOX}" oncontextmenu="did.push(1)">Menu</div>',
        "#t",
        {"button": "right"},
    ),
    "middle": (
        f'<div id=t style="{BOX}" onauxclick="did.push(1)">Open</div>',
        "#t",
        {"button": "middle"},
    ),
    "double": (
        f'<div id=t style="{BOX}" ondblclick="did.push(1)">Edit</div>',
        "#t",
        {"double": True},
    ),
    "taken out by its own click": (
        f'<button id=t style="{BOX}" onclick="did.push(1); this.remove()">Gone</button>',
        "#t",
        {},
    ),
    "changed by its own mousedown": (
        f'<button id=t style="{BOX}" onmousedown="this.title = 1" onclick="did.push(1)">B</button>',
        "#t",
        {},
    ),
}


@pytest.mark.parametrize("case", HITS)
def test_what_reaches_its_target_is_a_plain_success(page: Driver, case: str) -> None:
    html, selector, more = HITS[case]
    show(page, html)
    done = page.call("click", selector=selector, **more)
    assert not {"landed", "retried"} & done.keys(), done
    assert did(page) == [1]


def test_a_click_in_a_closed_shadow_root_and_in_a_frame_is_a_plain_success(page: Driver) -> None:
    show(
        page,
        f'<div id=t style="{BOX}"></div><iframe srcdoc="<button id=f>In it</button>"></iframe>',
    )
    page.value(
        "document.querySelector('#t').attachShadow({mode: 'closed'}).innerHTML ="
        " '<button style=\"width: 120px; height: 40px\">Deep</button>'"
    )
    assert not {"landed", "retried"} & page.call("click", selector="#t").keys()
    inner = "iframe >> internal:control=enter-frame >> #f"
    assert not {"landed", "retried"} & page.call("click", selector=inner).keys()


def test_a_menu_that_acts_on_mousedown_is_a_success_that_says_what_took_the_click(
    page: Driver,
) -> None:
    menu = "document.body.insertAdjacentHTML('beforeend', this.dataset.menu)"
    show(
        page,
        f'<button id=t style="{BOX}" onmousedown="{menu}"'
        " data-menu='<div id=veil style=\"position: fixed; inset: 0\">A B C</div>'>Choose</button>",
    )
    done = page.call("click", selector="#t")
    assert done["landed"]
    assert "retried" not in done


SHIFTING = """
  const sheet = new CSSStyleSheet(), target = document.querySelector('#t');
  document.adoptedStyleSheets = [sheet];
  target.onclick = () => did.push(1);
  target.addEventListener('mousedown',
    () => sheet.replaceSync('#t { left: 400px !important }'), {once: ONCE});
  addEventListener('mouseup', () => sheet.replaceSync(''));
"""
"""A target that moves away while it is pressed, without any change of the document."""


def test_a_target_that_slips_away_once_is_clicked_again_and_the_answer_says_so(
    page: Driver,
) -> None:
    show(page, f'<button id=t style="{BOX}">Buy</button>')
    page.value(f"() => {{ {SHIFTING.replace('ONCE', 'true')} }}")
    done = page.call("click", selector="#t")
    assert did(page) == [1]
    assert (done["retried"], done["landed"].split()[0]) == (True, "html")


def test_a_click_that_something_else_takes_both_times_is_an_error_that_names_it(
    page: Driver,
) -> None:
    show(
        page, f'<main><div style="{BOX}">under</div><button id=t style="{BOX}">Buy</button></main>'
    )
    page.value(f"() => {{ {SHIFTING.replace('ONCE', 'false')} }}")
    failed = page.failure("click", selector="#t")
    error = failed["error"]
    assert (error["type"], error["selector"]) == ("click_missed", "#t")
    assert error["tookIt"].startswith("main")
    assert error["tookIt"] in error["message"]
    assert error["tookIt"] in error["causes"][0]
    assert failed["screenshot"]["path"]
    assert did(page) == []


def test_a_hover_and_a_drag_that_reach_their_target_are_plain_successes(page: Driver) -> None:
    show(
        page,
        f'<div id=t style="{BOX}" onmouseover="did.push(1)">Menu</div>'
        '<div id=card draggable=true style="position: absolute; left: 20px; top: 200px">Card</div>'
        '<div id=lane ondragover="event.preventDefault()" ondrop="did.push(2)"'
        f' style="{LANE}">Lane</div>',
    )
    assert "landed" not in page.call("hover", selector="#t")
    assert "landed" not in page.call("drag", **{"from": "#card", "to": "#lane"})
    assert did(page) == [1, 2]


def test_a_drop_that_nobody_takes_is_an_error(page: Driver) -> None:
    show(
        page,
        '<div id=card draggable=true style="position: absolute; left: 20px; top: 200px">Card</div>'
        f'<div id=lane style="{LANE}">Lane</div>',
    )
    error = page.fault("drag", **{"from": "#card", "to": "#lane"})
    assert error["type"] == "click_missed"


def ref_of(shop: Driver, text: str) -> str:
    found: str = shop.call("find", text=text)["matches"][0]
    return found.split("[ref=")[1].split("]")[0]


def test_a_ref_in_a_frame_is_judged_by_what_took_the_click_there(page: Driver) -> None:
    show(page, '<iframe id=inner style="width: 600px; height: 300px"></iframe>')
    inner = f'<main><div style="{BOX}">under</div><button id=t style="{BOX}">Buy</button></main>'
    page.value(f"() => {{ inner.contentDocument.body.innerHTML = {json.dumps(inner)}; }}")
    ref = ref_of(page, "Buy")
    assert ref.startswith("f")
    assert not {"landed", "retried"} & page.call("click", selector=ref).keys()
    shifting = SHIFTING.replace("did.push(1)", "0").replace("ONCE", "false")
    page.value(f"void inner.contentWindow.eval({json.dumps(shifting)})")
    error = page.fault("click", selector=ref)
    assert (error["type"], error["selector"]) == ("click_missed", ref)
    assert error["tookIt"].startswith("main")


MUI_LIKE = """
  <div id=t role=combobox style="BOX">None</div>
  <script type=text/plain>
    t.onmousedown = () => {
      document.body.insertAdjacentHTML('beforeend', `<div id=popover style="position: fixed;
        inset: 0"><ul style="margin: 150px 20px"><li id=ten>Ten</li><li>Twenty</li></ul></div>`);
      popover.onclick = event => {
        if (event.target.localName === 'li') { t.textContent = 'Ten'; did.push(1); }
        popover.remove();
      };
    };
  </script>
"""
RADIX_LIKE = """
  <button id=t role=combobox style="BOX">None</button>
  <script type=text/plain>
    t.onpointerdown = event => {
      event.preventDefault();
      document.body.style.pointerEvents = 'none';
      document.body.insertAdjacentHTML('beforeend', `<div id=popover style="pointer-events: auto;
        position: fixed; left: 40px; top: 150px"><div id=ten role=option>Ten</div></div>`);
      ten.onpointerup = () => {
        t.textContent = 'Ten';
        did.push(1);
        popover.remove();
        document.body.style.pointerEvents = '';
      };
    };
  </script>
"""
SELECTS = {"like MUI's": MUI_LIKE, "like Radix's": RADIX_LIKE}


@pytest.mark.parametrize("kind", SELECTS)
def test_a_select_that_opens_when_it_is_pressed_and_its_option_are_successes(
    page: Driver, kind: str
) -> None:
    show(page, SELECTS[kind].replace("BOX", BOX))
    page.value("void (0, eval)(document.querySelector('script').textContent)")
    for selector in ("#t", "#ten"):
        done = page.call("click", selector=selector)
        assert done["success"]
        assert "retried" not in done
    assert (page.text("#t"), did(page)) == ("Ten", [1])
