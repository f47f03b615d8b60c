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

KEPT_FOR_THE_TRACK = "this.parentElement.setPointerCapture(event.pointerId)"


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


def show_slipping(shop: Driver, attributes: str = "") -> None:
    """Put a button into the page that is never where it was pressed."""
    show(
        shop,
        f'<main><div style="{BOX}">under</div>'
        f'<button id=t style="{BOX}" {attributes}>Buy</button></main>',
    )
    shop.value(f"() => {{ {SHIFTING.replace('ONCE', 'false')} }}")


def test_a_click_that_something_else_takes_both_times_is_an_error_that_names_it(
    page: Driver,
) -> None:
    show_slipping(page)
    failed = page.failure("click", selector="#t")
    error = failed["error"]
    assert (error["type"], error["selector"]) == ("click_missed", "#t")
    assert error["tookIt"].startswith("main")
    assert error["tookIt"] in error["message"]
    assert error["tookIt"] in error["causes"][0]
    assert failed["screenshot"]["path"]
    assert did(page) == []


@pytest.mark.parametrize("more", [{"button": "right"}, {"button": "middle"}, {"double": True}])
def test_other_buttons_and_a_double_click_can_miss_as_well(
    page: Driver, more: dict[str, Any]
) -> None:
    show_slipping(page)
    error = page.fault("click", selector="#t", **more)
    assert (error["type"], error["tookIt"].split()[0]) == ("click_missed", "main")


def test_only_what_changes_between_press_and_click_explains_a_miss(page: Driver) -> None:
    """Neither what hovering changed before, nor what the click changed where it went."""
    show_slipping(page, 'onmouseover="this.title += 1"')
    page.value("void document.addEventListener('click', () => { document.title += 1 })")
    assert page.fault("click", selector="#t")["type"] == "click_missed"
    assert did(page) == []


def test_a_change_in_the_shadow_root_of_the_target_explains_a_miss(page: Driver) -> None:
    show(page, "<div id=host></div>")
    page.value(
        f"""() => {{
          const root = host.attachShadow({{mode: 'open'}});
          root.innerHTML = '<button id=t style="{BOX}">Buy</button>';
          root.firstChild.onmousedown = event => {{ event.target.style.left = '400px' }};
        }}"""
    )
    done = page.call("click", selector="#t")
    assert done["landed"]
    assert "retried" not in done


def test_a_press_that_the_page_keeps_for_another_element_is_no_miss(page: Driver) -> None:
    show(
        page,
        f'<div id=track style="{BOX}" onclick="did.push(1)">'
        f'<div id=t onpointerdown="{KEPT_FOR_THE_TRACK}">thumb</div></div>',
    )
    done = page.call("click", selector="#t")
    assert (done["landed"].split()[0], did(page)) == ("div#track", [1])
    assert "retried" not in done


def test_a_miss_in_a_document_that_was_written_anew_is_told(page: Driver) -> None:
    html = f'<main><div style="{BOX}">under</div><button id=t style="{BOX}">Buy</button></main>'
    page.value(f"() => {{ document.open(); document.write({json.dumps(html)}); did = []; }}")
    page.value(f"() => {{ document.close(); {SHIFTING.replace('ONCE', 'false')} }}")
    assert page.fault("click", selector="#t")["type"] == "click_missed"


def test_the_button_of_a_form_that_slips_away_once_is_told_of(page: Driver) -> None:
    show(page, f'<input id=who><button id=t style="{BOX}">Buy</button>')
    page.value(f"() => {{ {SHIFTING.replace('ONCE', 'true')} }}")
    done = page.call("fillForm", fields=[{"selector": "#who", "value": "Ada"}], submit="#t")
    assert (done["value"], did(page)) == (["Ada"], [1])
    assert (done["retried"], done["landed"].split()[0]) == (True, "html")


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


def show_lane(shop: Driver, card: str, lane: str = "") -> None:
    """Put a card into the page that can be dragged, and where it is dragged to."""
    show(
        shop,
        f"<div id=card draggable=true {card} style='position: absolute; left: 20px; top: 200px'>"
        f'Card</div><div id=lane {lane} style="{LANE}">Lane</div>',
    )


@pytest.mark.parametrize("card", ["", 'ondragstart="this.className = 1"'])
def test_a_drop_that_nobody_takes_is_an_error(page: Driver, card: str) -> None:
    show_lane(page, card)
    error = page.fault("drag", **{"from": "#card", "to": "#lane"})
    assert error["type"] == "click_missed"


def test_a_list_that_is_sorted_while_something_is_over_it_needs_no_drop(page: Driver) -> None:
    show_lane(page, "", 'ondragenter="this.append(card)"')
    assert page.call("drag", **{"from": "#card", "to": "#lane"})["landed"]
    assert page.value("card.parentElement.id") == "lane"


def test_a_card_that_stays_under_the_pointer_is_dragged_there(page: Driver) -> None:
    show_lane(page, "")
    page.value(
        """() => {
          card.draggable = false;
          card.style.zIndex = 1;
          card.onmousedown = () => { onmousemove = event => {
            card.style.left = `${event.clientX - 9}px`;
            card.style.top = `${event.clientY - 9}px`;
          } };
          onmouseup = () => { onmousemove = null; did.push(1); };
        }"""
    )
    done = page.call("drag", **{"from": "#card", "to": "#lane"})
    assert (done["landed"].split()[0], did(page)) == ("div#card", [1])


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
