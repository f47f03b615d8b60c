"""What a step tells of its effects: at once, in few lines, and the rest with the next answer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.until import wait_until

if TYPE_CHECKING:
    from tests.support.driving import Driver
    from tests.support.site import Site

pytestmark = pytest.mark.browser


def clicks(shop: Driver, selector: str, **arguments: Any) -> dict[str, Any]:
    return shop.call("click", selector=selector, **arguments)


def fetches(shop: Driver, path: str) -> None:
    """Makes the idle button fetch that."""
    script = f"document.querySelector('#idle').onclick = () => {{ fetch({json.dumps(path)}) }}; 0"
    shop.call("evaluate", script=script)


def test_an_action_does_not_wait_for_the_requests_that_it_starts(shop: Driver) -> None:
    shop.visit("/")
    fetches(shop, "/api/slow?ms=60000")
    assert clicks(shop, "#idle")["requests"] == ["GET /api/slow?ms=60000 → pending"]


def test_settle_waits_for_what_comes_soon(shop: Driver) -> None:
    shop.visit("/")
    fetches(shop, "/api/slow?ms=1200")
    (line,) = clicks(shop, "#idle", settle=3_500)["requests"]
    assert re.fullmatch(r"GET /api/slow\?ms=1200 → 200 in [0-9]{4,} ms", line)


def test_a_digest_tells_requests_and_changes(shop: Driver) -> None:
    shop.visit("/")
    done = clicks(shop, "#add", settle=2_000)
    assert done["requests"] == ["POST /api/cart → 200"]
    assert done["url"] == f"{shop.url}/"
    assert "navigated" not in done
    assert done["dom"].startswith("2 added, 1 removed: ")
    assert "one more lamp" in done["dom"]


def test_a_digest_tells_errors_with_their_place_in_the_sources(shop: Driver, site: Site) -> None:
    shop.call("navigate", url=site.url("/mapped"))
    (line,) = clicks(shop, "#pay", settle=2_000)["console"]
    assert line.startswith("error: Error: no customer for an order of 12")
    assert line.endswith(f"(checkCustomer, {site.url('/mapped.js')}:11)")
    shop.visit("/")


def test_a_digest_tells_console_lines_errors_first(shop: Driver) -> None:
    shop.visit("/")
    assert clicks(shop, "#say")["console"] == [
        "error: said in anger",
        "warn: said with care",
        "log: said aloud",
    ]


def test_nothing_is_told_where_nothing_happened(shop: Driver) -> None:
    shop.visit("/")
    assert clicks(shop, "#idle") == {"success": True, "url": f"{shop.url}/"}


def test_a_click_that_leaves_the_page_says_where_it_led(shop: Driver) -> None:
    shop.visit("/")
    done = clicks(shop, "text=The second page")
    assert done["navigated"] is True
    assert done["url"] == f"{shop.url}/second.html"
    assert done["requests"] == ["GET /second.html → 200"]


def test_static_files_are_counted_and_a_flood_is_cut(shop: Driver) -> None:
    assert shop.visit("/faults.html")["requests"] == [
        "GET /faults.html → 200",
        "1 static file loaded",
    ]
    done = shop.call(
        "evaluate",
        script="async () => { for (let i = 0; i < 20; i++) {"
        " console.log('line ' + i); await (await fetch('/api/missing?' + i)).text() } }",
    )
    assert len(done["requests"]) == len(done["console"]) == 7
    assert done["requests"][0] == "GET /api/missing?0 → 404"
    assert done["requests"][-1] == done["console"][-1] == "and 14 more"


def test_later_effects_come_once_as_earlier_in_the_next_answer(shop: Driver) -> None:
    shop.visit("/")
    assert "console" not in clicks(shop, "#late")
    target = shop.call("tabs")["tabs"][0]["targetId"]
    wait_until(
        lambda: (
            "/api/missing" in str(shop.call("cdp_read_events", targetId=target, offset=0))
            and shop.call("tabs")["tabs"][0]["title"] == "late is over"
        )
    )
    done = clicks(shop, "#idle")
    assert done["earlier"][:2] == ["GET /api/missing → 404", "error: came later"]
    assert [line.split(":")[0] for line in done["earlier"][2:]] == ["dom"]  # its new title
    assert not {"console", "dom"} & done.keys()
    assert "earlier" not in clicks(shop, "#idle")


def test_what_a_dossier_has_told_is_not_told_again_as_earlier(shop: Driver) -> None:
    shop.visit("/")
    shop.fault("evaluate", script="nowhere()")  # tells of all that was before
    clicks(shop, "#late")
    error = shop.fault("waitFor", text="never", timeout=3_000)
    assert [entry["text"] for entry in error["console"]] == ["came later"]
    assert "earlier" not in clicks(shop, "#idle")


def test_what_an_answer_has_no_place_for_waits_for_one_that_has(shop: Driver) -> None:
    shop.visit("/")
    clicks(shop, "#late")
    wait_until(lambda: shop.call("tabs")["tabs"][0]["title"] == "late is over")
    for tool in ("snapshot", "screenshot", "getContent"):
        shop.call(tool)
    shop.call("exists", selector="h1")
    fields = [{"selector": "#who", "value": "Ada"}, {"selector": "#agree", "value": True}]
    done = shop.call("fillForm", fields=fields)
    assert done["earlier"][:2] == ["GET /api/missing → 404", "error: came later"]
    assert [line.split(":")[0] for line in done["earlier"][2:]] == ["dom"]  # its new title


def test_the_text_of_an_answer_is_the_json_of_its_structure(shop: Driver) -> None:
    shop.visit("/")
    result = shop.ask("click", selector="#say")
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_looking_at_a_page_is_no_change_of_it(shop: Driver) -> None:
    shop.visit("/")
    shop.call("evaluate", script="document.body.append(document.createElement('input'))")
    shop.call("screenshot")
    assert "dom" not in clicks(shop, "#idle")
    shop.fault("click", selector="#missing", timeout=300)
    assert "dom" not in clicks(shop, "#idle")


def test_a_form_that_is_redirected_keeps_the_request_that_was_sent(shop: Driver) -> None:
    shop.visit("/second.html")
    form = (
        "<form method=post action=/api/login><input name=user value=ada><button>Go</button></form>"
    )
    shop.value(f"() => {{ document.body.innerHTML = {json.dumps(form)} }}")
    done = clicks(shop, "button")
    assert done["requests"][0] == "POST /api/login → 303"
    assert done["requests"][1].startswith("GET /account → ")
