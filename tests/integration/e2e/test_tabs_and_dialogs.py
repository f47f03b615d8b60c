"""Tabs, popups, dialogs and downloads, over the wire."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.e2e.test_acting import MINIMAL
from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.driving import Driver

pytestmark = pytest.mark.browser


def tabs(shop: Driver) -> dict[str, dict[str, Any]]:
    return {tab["id"]: tab for tab in shop.call("tabs")["tabs"]}


# Tabs


def test_a_new_tab_becomes_the_current_one_until_another_is_selected(shop: Driver) -> None:
    shop.visit("/")
    opened = shop.call("tabs", action="new", url="/second.html")["tabs"]
    assert [tab["current"] for tab in opened] == [False, True]
    assert opened[1]["title"] == "The second page"
    assert shop.text("h1") == "The second page"
    assert shop.call("getContent", selector="h1", tabId="t1")["content"] == "<h1>The shop</h1>"
    shop.call("tabs", action="select", tabId="t1")
    assert shop.text("h1") == "The shop"
    assert opened[0]["targetId"] != opened[1]["targetId"]


def test_the_id_of_a_closed_tab_is_never_used_again(shop: Driver) -> None:
    seen = set(tabs(shop))
    for _ in range(3):
        opened = shop.call("tabs", action="new")["tabs"][-1]["id"]
        assert opened not in seen
        seen.add(opened)
        left = shop.call("tabs", action="close", tabId=opened)["tabs"]
        assert [tab["id"] for tab in left] == ["t1"]
        assert left[0]["current"]
        assert shop.fault("click", selector="h1", tabId=opened)["type"] == "tab_not_found"


@pytest.mark.parametrize("action", ["select", "close"])
def test_an_action_on_a_tab_needs_one_that_is_open(shop: Driver, action: str) -> None:
    without = shop.fault("tabs", action=action)
    assert (without["type"], without["field"]) == ("invalid_input", "tabId")
    assert shop.fault("tabs", action=action, tabId="t777")["type"] == "tab_not_found"


def test_a_new_tab_at_a_forbidden_address_is_url_not_allowed_and_opens_nothing(
    shop: Driver,
) -> None:
    before = tabs(shop)
    error = shop.fault("tabs", action="new", url="http://169.254.169.254/")
    assert error["type"] == "url_not_allowed"
    assert tabs(shop) == before


@pytest.mark.parametrize("trigger", ["#popup", "#blank"])
def test_a_popup_becomes_a_tab_but_never_the_current_one(shop: Driver, trigger: str) -> None:
    shop.visit("/dialogs.html")
    told = shop.call("click", selector=trigger)["browser"]
    popups = wait_until(lambda: [t for t in tabs(shop).values() if t["opener"] == "t1"])
    assert len(popups) == 1
    popup = popups[0]["id"]
    assert not popups[0]["current"]
    assert shop.text("h1") == "Dialogs"
    assert any(line.startswith(f"tab opened: {popup} by t1") for line in told)
    shop.call("waitFor", text="The second page", tabId=popup)
    assert shop.call("click", selector="h1", tabId=popup)["url"].endswith("/second.html")


def requests(shop: Driver, target: str) -> list[dict[str, Any]]:
    """Return those that were recorded; the driver may tell of the page a moment before."""
    read = shop.call("cdp_read_events", targetId=target, kinds=["request"])
    events: list[dict[str, Any]] = read["events"]
    return events


@pytest.mark.parametrize("features", ["", "noopener"])
def test_a_popup_is_recorded_from_its_first_request_on(shop: Driver, features: str) -> None:
    shop.visit("/dialogs.html")
    shop.call("evaluate", script=f"window.open('/second.html?{features}', '_blank', '{features}')")
    popup = wait_until(lambda: [t for t in tabs(shop).values() if "second" in t["url"]])[0]
    shop.call("waitFor", text="The second page", tabId=popup["id"])
    first = wait_until(lambda: requests(shop, popup["targetId"]))[0]
    assert first["url"].rsplit("/", 1)[1] == f"second.html?{features}"


def test_a_tab_is_observed_from_its_first_request(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("click", selector="#popup")
    popup = wait_until(lambda: [t for t in tabs(shop).values() if t["opener"]])[0]
    shop.call("waitFor", text="The second page", tabId=popup["id"])
    mine = shop.call("tabs", action="new", url="/second.html")["tabs"][-1]
    first = wait_until(lambda: requests(shop, mine["targetId"]))[0]
    assert first["url"].endswith("/second.html")
    assert shop.call("cdp_read_events", targetId=popup["targetId"])["state"] == "observing"


def test_an_element_in_a_frame_can_be_found_and_clicked_by_its_ref(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    found = shop.call("find", text="Inner button")["matches"][0]
    ref = found.split("[ref=")[1].split("]")[0]
    assert ref.startswith("f")
    shop.call("click", selector=ref)
    assert shop.call("find", text="pressed")["matched"] == 1


# Dialogs


def test_a_click_that_opens_a_dialog_returns_at_once_and_tells_of_it(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    done = shop.call("click", selector="#alert")
    assert done["dialog"] == {
        "type": "alert",
        "message": "mind the gap",
        "default": "",
        "holdsUp": "click #alert: handleDialog says if it was not done",
    }
    assert done["browser"] == ["dialog: alert in t1: mind the gap"]
    handled = shop.call("handleDialog", accept=True)
    assert (handled["handled"], handled["type"]) == (True, "alert")
    shop.call("waitFor", text="alerted")


@pytest.mark.parametrize(
    ("button", "answer", "said"),
    [
        ("#confirm", {"accept": True}, "confirmed true"),
        ("#confirm", {"accept": False}, "confirmed false"),
        ("#prompt", {"accept": True, "text": "Ada"}, "prompted Ada"),
        ("#prompt", {"accept": True, "text": ""}, "prompted"),
        ("#prompt", {"accept": False}, "prompted null"),
    ],
)
def test_a_dialog_is_answered_as_told(
    shop: Driver, button: str, answer: dict[str, Any], said: str
) -> None:
    shop.visit("/dialogs.html")
    assert shop.call("click", selector=button)["dialog"]["type"] == button.removeprefix("#")
    shop.call("handleDialog", **answer)
    wait_until(lambda: shop.text("#said").strip() == said)


def test_the_answer_to_a_dialog_tells_what_it_caused(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    order = (
        "if (confirm('really?')) { show('ordered'); fetch('/api/slow?ms=1', {method: 'POST'}); }"
        " else show('kept')"
    )
    button = f'<button id=order onclick="{order}">Order</button>'
    shop.value(f"void document.body.insertAdjacentHTML('beforeend', `{button}`)")
    assert shop.call("click", selector="#order")["dialog"]["message"] == "really?"
    done = shop.call("handleDialog", accept=True)
    assert (done["success"], done["handled"]) == (True, True)
    assert "ordered" in done["dom"]
    assert any(line.startswith("POST /api/slow?ms=1") for line in done["requests"])
    assert "navigated" not in done
    shop.call("click", selector="#order")
    done = shop.call("handleDialog", accept=False)
    assert "kept" in done["dom"]
    assert "requests" not in done


def test_every_step_in_a_tab_with_a_dialog_is_dialog_open(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("click", selector="#alert")
    for tool in MINIMAL.keys() - {"handleDialog", "tabs"}:
        error = shop.fault(tool, **MINIMAL[tool])
        assert (tool, error["type"]) == (tool, "dialog_open")
        assert error["dialog"]["message"] == "mind the gap"
        assert "handleDialog" in error["suggestion"]
    assert tabs(shop)["t1"]["url"].endswith("/dialogs.html")
    shop.call("handleDialog", accept=True)
    assert shop.text("h1") == "Dialogs"


def test_a_dialog_in_one_tab_leaves_the_others_free(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    other = shop.call("tabs", action="new", url="/second.html")["tabs"][-1]["id"]
    shop.call("click", selector="#alert", tabId="t1")
    assert shop.call("click", selector="h1", tabId=other)["success"] is True
    assert shop.fault("handleDialog", accept=True, tabId=other)["type"] == "invalid_input"
    shop.call("handleDialog", accept=True, tabId="t1")


def test_the_answer_to_a_dialog_tells_of_the_next_one(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("evaluate", script="alert('first'); alert('second')")
    then = shop.call("handleDialog", accept=True)
    assert (then["message"], then["dialog"]["message"]) == ("first", "second")
    last = shop.call("handleDialog", accept=True)
    assert last["message"] == "second"
    assert not last.keys() & {"dialog", "step"}


def test_a_step_that_a_dialog_held_up_is_told_if_it_is_not_done(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("evaluate", script="void setTimeout(() => alert('in between'), 200)")
    assert shop.call("click", selector="#nothing", timeout=1_000)["dialog"]
    answered = shop.call("handleDialog", accept=True)
    assert answered["step"].startswith("click #nothing was not done: Timeout 1000ms")


def test_who_may_leave_a_page_has_left_it_when_the_dialog_is_answered(shop: Driver) -> None:
    shop.visit("/")
    shop.visit("/dialogs.html")
    here = shop.value("onbeforeunload = event => event.preventDefault(), location.href")
    shop.call("click", selector="h1")  # a page that nobody has touched is left without a word
    held = shop.visit("/second.html")
    assert (held["success"], held["url"], held["dialog"]["type"]) == (False, here, "beforeunload")
    assert held["dialog"]["holdsUp"].startswith("navigate /second.html: the page asks before it is")
    stayed = shop.call("handleDialog", accept=False)
    assert (stayed["url"], stayed["step"]) == (
        here,
        "navigate /second.html was not done: net::ERR_ABORTED",
    )
    held = shop.call("goBack")
    assert (held["success"], held["dialog"]["type"]) == (False, "beforeunload")
    left = shop.call("handleDialog", accept=True)
    assert (left["url"], left["navigated"]) == (f"{shop.url}/", True)
    assert shop.value("location.pathname") == "/"


def test_without_a_dialog_there_is_nothing_to_handle(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    error = shop.fault("handleDialog", accept=True)
    assert error["type"] == "invalid_input"
    assert "no dialog is open in t1" in error["message"]


def test_a_page_that_asks_before_it_is_left_is_left_only_when_told(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    shop.call("click", selector="#guard")
    assert shop.call("click", selector="#away")["dialog"]["type"] == "beforeunload"
    shop.call("handleDialog", accept=False)
    assert shop.text("h1") == "Dialogs"
    shop.call("click", selector="#away")
    shop.call("handleDialog", accept=True)
    shop.call("waitFor", text="The second page")


def test_what_an_earlier_step_set_off_is_not_told_as_caused_by_the_next(shop: Driver) -> None:
    shop.visit("/second.html")
    later = "window.open('/second.html?popup'); document.body.append('came by itself')"
    shop.value(
        "() => { document.body.innerHTML = '<button id=t>Plan</button>';"
        f" document.querySelector('#t').onclick = () => setTimeout(() => {{ {later} }}, 800) }}"
    )
    first = shop.call("click", selector="#t")
    assert not {"browser", "dom"} & first.keys()
    wait_until(lambda: [t for t in tabs(shop).values() if "popup" in t["url"]])
    done = shop.call("hover", selector="body")
    assert not {"browser", "dom"} & done.keys()
    (opened,) = [line for line in done["earlier"] if line.startswith("tab opened")]
    assert "?popup" in opened
    assert "dom: 1 added: came by itself" in done["earlier"]


def test_a_file_that_a_plain_link_leads_to_is_told_as_a_download(shop: Driver) -> None:
    shop.visit("/second.html")
    shop.value("() => { document.body.innerHTML = '<a id=t href=/report.csv>The report</a>' }")
    done = shop.call("click", selector="#t")
    assert done["browser"][0].startswith("download: report.csv ")
    assert done["requests"] == ["GET /report.csv → download"]


# Downloads


def test_a_download_is_saved_and_reported(shop: Driver) -> None:
    shop.visit("/dialogs.html")
    done = shop.call("click", selector="#download")
    saved = shop.call("getSessionStatus")["downloads"][-1]
    name = f"download: report.csv (saved|is being saved) as {re.escape(saved['path'])}"
    assert re.fullmatch(name, done["browser"][0])
    assert "cancelled" not in str(done)
    wait_until(Path(saved["path"]).is_file)
    assert saved["name"] == "report.csv"
    assert Path(saved["path"]).read_text() == "item,price\nlamp,12\n"
    assert Path(saved["path"]).is_relative_to(shop.home)
