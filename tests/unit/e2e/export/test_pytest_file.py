"""A test written from steps: it is Python, it says what was done, and it holds no secret."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.e2e.browser.elements.selectors import literal
from pilothouse.e2e.export.pytest_file import WrittenTest, write_test
from pilothouse.e2e.export.source_code import is_locator, url_part, within
from pilothouse.e2e.step import Step
from tests.support.rounds import examples

BASE = "http://localhost:3000"
SECRET = "hunter2-hunter2"
ANY_TEXT = st.text(st.characters(), max_size=40)


def step(tool: str, target: str = "", tab: str = "t1", **fields: Any) -> Step:
    """A step that went well; what is no field of a step is an argument of its tool."""
    known = {k: fields.pop(k) for k in ("at", "locators", "kind", "ok", "fault") if k in fields}
    made = Step(1, tool, target, fields, tab, 1.0, 0)
    made.ok, made.url = known.get("ok", True), known.get("at", f"{BASE}/")
    made.locators, made.kind = known.get("locators", {}), known.get("kind", "")
    made.ended_at, made.fault = 2.0, known.get("fault", "")
    return made


def write(*steps: Step, **more: Any) -> WrittenTest:
    for number, each in enumerate(steps, start=1):
        each.number, each.began_at = number, float(number * 10)
    opened = more.pop("opened", {"t1": ("", 0.0)})
    return write_test(
        steps, base=BASE, opened=opened, is_secret=lambda text: SECRET in text, **more
    )


def body(written: WrittenTest) -> list[str]:
    """The lines of the test itself."""
    ast.parse(written.source)
    after = written.source.split("def test_session(page: Page) -> None:\n")[1]
    return [line[4:] for line in after.splitlines()]


def lines(*steps: Step, **more: Any) -> list[str]:
    """The same, after the first page has been opened."""
    return body(write(step("navigate", "/", url="/"), *steps, **more))[1:]


def test_each_acting_step_is_a_line_in_the_order_it_was_taken() -> None:
    assert lines(
        step("click", "#buy", selector="#buy", locators={"#buy": 'get_by_role("button")'}),
        step("click", "#b", selector="#b", button="right", double=True, modifiers=["Shift"]),
        step("type", "#name", selector="#name", text="Ada", submit=True),
        step("type", "#name", selector="#name", text="Ada", slowly=True),
        step("selectOption", "#size", selector="#size", values=["L", "M"]),
        step("hover", "#menu", selector="#menu"),
        step("pressKey", "Escape", key="Escape"),
        step("pressKey", "#a", key="Enter", selector="#a"),
        step("drag", "#a", **{"from": "#a", "to": "#b"}),
        step("uploadFile", "#f", selector="#f", paths=["cat.png"]),
        step("evaluate", script="1 + 1"),
        step("resize", width=390, height=844),
        step("emulate", colorScheme="dark", latitude=1.5, longitude=2),
        step("goBack"),
        step("goBack", forward=True),
    ) == [
        'page.get_by_role("button").click()',
        'page.locator("#b").dblclick(button="right", modifiers=["Shift"])',
        'page.locator("#name").fill("Ada")',
        'page.locator("#name").press("Enter")',
        'page.locator("#name").press_sequentially("Ada")',
        'page.locator("#size").select_option(["L", "M"])',
        'page.locator("#menu").hover()',
        'page.keyboard.press("Escape")',
        'page.locator("#a").press("Enter")',
        'page.locator("#a").drag_to(page.locator("#b"))',
        'page.locator("#f").set_input_files(["cat.png"])',
        'page.evaluate("1 + 1")',
        'page.set_viewport_size({"width": 390, "height": 844})',
        'page.emulate_media(color_scheme="dark")',
        'page.context.grant_permissions(["geolocation"])',
        'page.context.set_geolocation({"latitude": 1.5, "longitude": 2})',
        "page.go_back()",
        "page.go_forward()",
    ]


def test_failed_and_merely_looking_steps_are_left_out_aloud() -> None:
    written = write(
        step("navigate", url="/"),
        step("click", "#x", selector="#x", ok=False, fault="click_missed"),
        step("snapshot"),
        step("find", ok=False),
        step("snapshot"),
    )
    assert written.steps == 1
    assert written.left_out == (
        "step 2, click #x: it failed (click_missed)",
        "steps that only look: find (1), snapshot (2)",
    )
    assert "# Left out: step 2, click #x" in written.source


def test_steps_that_are_not_kept_any_more_are_told_of() -> None:
    old = Step(7, "navigate", "/", {"url": "/"}, "t1", 1.0, 0, ended_at=2.0, ok=True)
    written = write_test([old], base=BASE, opened={"t1": ("", 0.0)}, is_secret=lambda _: False)
    assert written.left_out == ("steps 1 to 6: they are not kept any more",)


def test_a_wait_in_vain_is_an_assertion_unless_it_came_later_or_was_a_mistake() -> None:
    vain: dict[str, Any] = {"ok": False, "fault": "timeout"}
    written = write(
        step("navigate", url="/"),
        step("waitFor", text="Soon", timeout=100, **vain),
        step("snapshot"),
        step("waitFor", text="Soon", timeout=9_000),
        step("waitForSelector", "#a", selector="#a", ok=False, fault="element_not_found"),
        step("click", "#again", selector="#again"),
        step("waitForSelector", "#a", selector="#a"),
        step("waitForSelector", "#b[", selector="#b[", ok=False, fault="invalid_input"),
        step("waitFor", text="Thanks", url="/done", **vain),
    )
    assert body(written)[-7:] == [
        'page.goto("/")',
        'expect(page.get_by_text("Soon").first).to_be_visible(timeout=9_000)',
        'expect(page.locator("#a").first).to_be_visible(timeout=30_000)',
        'page.locator("#again").click()',
        'expect(page.locator("#a").first).to_be_visible(timeout=30_000)',
        'expect(page.get_by_text("Thanks").first).to_be_visible(timeout=30_000)',
        'expect(page).to_have_url(re.compile(re.escape("/done")), timeout=30_000)',
    ]
    assert written.fails_at == "step 5, waitForSelector"
    assert [reason.split(": ")[0] for reason in written.left_out] == [
        "step 2, waitFor",
        "step 8, waitForSelector #b[",
        "steps that only look",
    ]


def test_a_wait_is_for_the_selector_itself_in_the_frame_where_it_was_seen() -> None:
    code = 'locator("#pay").content_frame.get_by_role("heading", name="Card")'
    assert lines(
        step("waitForSelector", "h2", selector="h2", locators={"h2": code}, timeout=100),
        step("waitFor", text="Card", locators={"Card": code}, timeout=100),
    ) == [
        'expect(page.locator("#pay").content_frame.locator("h2").first).to_be_visible()',
        'expect(page.locator("#pay").content_frame.get_by_text("Card").first).to_be_visible()',
    ]


def test_a_field_by_its_label_is_found_by_it_in_the_test() -> None:
    assert lines(
        step("type", "label=Name", selector="label=Name", text="Ada"),
        step("type", "x", selector='form >> placeholder="Your town"', text="Rome"),
    ) == [
        'page.get_by_label("Name").fill("Ada")',
        'page.locator("form").get_by_placeholder("Your town", exact=True).fill("Rome")',
    ]


def test_a_download_and_a_dialog_are_of_the_step_before_and_of_none_that_is_left_out() -> None:
    written = write(
        step("navigate", url="/"),
        step("click", "#get", selector="#get"),
        step("download", name="report.csv"),
        step("navigate", "/file", url="/file", ok=False, fault="navigation_failed"),
        step("download", name="file"),
    )
    assert body(written)[-3:] == [
        'page.goto("/")',
        "with page.expect_download():",
        '    page.locator("#get").click()',
    ]
    assert written.left_out[-1].endswith("the step that brought it about is left out")


def test_a_closed_tab_and_a_rule_that_was_taken_out_are_so_in_the_test() -> None:
    assert lines(
        step("route", at="", url="/ads", block="failed"),
        step("click", "#pop", selector="#pop"),
        step("tabs", tab="t2", at="", action="close"),
        step("unroute", at="", urls=["/ads"]),
        opened={"t1": ("", 0.0), "t2": ("t1", 35.0)},
    ) == [
        'page.context.route(re.compile(r"/ads"), lambda route: route.abort("failed"))',
        "with page.expect_popup() as page_2_opened:",
        '    page.locator("#pop").click()',
        "page_2 = page_2_opened.value",
        "page_2.close()",
        'page.context.unroute(re.compile(r"/ads"))',
    ]


def test_each_field_of_a_form_is_filled_in_its_own_way() -> None:
    fields = [
        {"selector": "#n", "value": "Ada"},
        {"selector": "#s", "value": "L"},
        {"selector": "#m", "value": ["a", "b"]},
        {"selector": "#t", "value": True},
        {"selector": "#p", "value": "pw"},
    ]
    kinds = {"#n": "text", "#s": "select-one", "#p": "password"}
    taken = [
        step("fillForm", target, fields=fields, submit="#go", kind=kinds.get(target, ""))
        for target in ("#n", "#s", "#m", "#t", "#p", "#go")
    ]
    assert lines(*taken) == [
        'page.locator("#n").fill("Ada")',
        'page.locator("#s").select_option("L")',
        'page.locator("#m").select_option(["a", "b"])',
        'page.locator("#t").set_checked(True)',
        'page.locator("#p").fill(os.environ["E2E_P"])',
        'page.locator("#go").click()',
    ]


def test_a_ref_becomes_its_locator_and_without_one_the_step_is_left_out_aloud() -> None:
    known = step("click", "e12", selector="e12", locators={"e12": 'get_by_text("Buy")'})
    written = write(known, step("click", "e13", selector="e13"))
    assert 'page.get_by_text("Buy").click()' in written.source
    assert "e12" not in written.source
    assert written.steps == 1
    assert written.left_out == ("step 2, click e13: what its ref stood for is not known any more",)
    assert "# Left out: step 2, click e13" in written.source


@pytest.mark.parametrize(
    "code",
    [
        'get_by_role("button", name="Buy")',
        'locator("iframe").content_frame.get_by_label("Name").first',
        'get_by_role("row").nth(2)',
        'get_by_text("Say \\"hi\\"", exact=True)',
    ],
)
def test_a_chain_of_calls_is_a_locator(code: str) -> None:
    assert is_locator(code)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "page",
        'get_by_text("x"), print(1)',
        'get_by_text(open("/etc/passwd"))',
        'get_by_text("x")\nimport os',
        'get_by_text("x" + "y")',
        'get_by_text(f"{x}")',
        'get_by_text("x") or exit()',
        'get_by_text("x',
        '__import__("os").system("x") if 1 else 2',
        "(lambda: 1)()",
        "[x for x in y]",
    ],
)
def test_what_is_more_than_a_chain_of_calls_never_gets_into_a_test(code: str) -> None:
    assert not is_locator(code)
    assert lines(step("click", "#a", selector="#a", locators={"#a": code})) == [
        'page.locator("#a").click()'
    ]


@settings(max_examples=examples(200))
@given(ANY_TEXT)
def test_every_text_comes_back_from_its_literal(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text
    assert literal(text).isprintable()


@settings(max_examples=examples(60))
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_whatever_was_typed_the_test_is_python_that_types_it(
    text: str, selector: str, url: str
) -> None:
    written = write(
        step("navigate", url="/" + url),
        step("type", selector, selector=selector or "#a", text=text),
        step("waitFor", text=text or "x", url=url or "x", request=url or "x", console=text or "x"),
        step("unknown " + text, url),
        title=text,
    )
    nodes = ast.walk(ast.parse(written.source))
    constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert {text, selector or "#a", url or "x"} <= constants


def test_secrets_are_read_from_the_environment_and_stand_nowhere() -> None:
    password = 'get_by_role("textbox", name="Password")'
    written = write(
        step("navigate", url="/"),
        step("type", "#pw", selector="#pw", text=SECRET, locators={"#pw": password}),
        step("type", "#pw", selector="#pw", text="short", secret=True, locators={"#pw": password}),
        step("type", "#x", selector="#x", text="typed", kind="password"),
        step("type", "#again", selector="#again", text=SECRET),
        step("evaluate", script=f"login('{SECRET}')"),
        step("click", f"text={SECRET}", selector=f"text={SECRET}"),
        step("click", "#a", selector="#a", locators={"#a": f'get_by_text("{SECRET}")'}),
        step("waitFor", text=f"Hello {SECRET}"),
        step("click", "#a", selector="#a", at=f"{BASE}/{SECRET}"),
    )
    for hidden in (SECRET, "short", "typed"):
        assert hidden not in written.source
        assert hidden not in str(written.left_out)
    assert written.variables == ("E2E_PASSWORD", "E2E_PASSWORD_2", "E2E_X", "E2E_TEXT")
    assert body(written).count('page.locator("#again").fill(os.environ["E2E_PASSWORD"])') == 1
    assert len(written.left_out) == 3  # the page that was led to, too


def test_a_page_that_a_step_led_to_is_waited_for() -> None:
    assert lines(
        step("click", "#a", selector="#a", at=f"{BASE}/order/8812?token=1"),
        step("click", "#b", selector="#b", at=f"{BASE}/order/8812"),
        step("click", "#c", selector="#c", at="https://pay.example/start"),
        step("click", "#d", selector="#d", at="chrome-error://chromewebdata/"),
    ) == [
        'page.locator("#a").click()',
        'page.wait_for_url(re.compile(r"//[^/]+/order/[^/?#]+(?:[?#]|$)"))',
        'page.locator("#b").click()',
        'page.locator("#c").click()',
        'page.wait_for_url(re.compile(r"//pay\\.example/start(?:[?#]|$)"))',
        'page.locator("#d").click()',
    ]


def test_an_address_that_redirects_is_waited_for_and_another_is_not() -> None:
    went = [
        step("navigate", url="/account", at=f"{BASE}/login?next=account"),
        step("navigate", url=f"{BASE}/two", at=f"{BASE}/two"),
        step("navigate", url=BASE, at=f"{BASE}/"),
        step("navigate", url="http://localhost:30001/x", at="http://localhost:30001/x"),
    ]
    assert body(write(*went)) == [
        'page.goto("/account")',
        'page.wait_for_url(re.compile(r"//[^/]+/login(?:[?#]|$)"))',
        'page.goto("/two")',
        'page.goto("/")',
        'page.goto("http://localhost:30001/x")',
    ]


@pytest.mark.parametrize(
    ("seen", "later", "fits"),
    [
        ("/order/17", "/order/18?x", True),
        ("/order/17", "/order/17/edit", False),
        (
            "/u/6f1c2d3e-0000-4000-aabbccddeeff",
            "/u/0f1c2d3e-0000-4000-aabbccddeef0",
            True,
        ),
        ("/settings", "/settings#top", True),
        ("/settings", "/setting", False),
        ("/", "/two", False),
    ],
)
def test_ids_in_an_address_may_be_others(seen: str, later: str, fits: bool) -> None:
    pattern = url_part(BASE + seen, BASE)
    assert bool(re.search(pattern, "http://127.0.0.1:8000" + later)) == fits


def test_an_address_is_the_apps_own_only_as_a_whole() -> None:
    assert within(f"{BASE}/x", BASE)
    assert within(BASE, BASE)
    assert not within("http://localhost:30001/", BASE)
    assert not within("http://elsewhere/", "")


def test_what_was_waited_for_is_expected_where_it_came_from() -> None:
    assert lines(
        step("click", "#buy", selector="#buy"),
        step("waitFor", request="/api/cart", console="saved", text="Thanks", timeout=2_000),
        step("waitForSelector", "li", selector="li", timeout=30_000, locators={"li": 'x("1")'}),
        step("waitForSelector", ".busy", selector=".busy", state="hidden", timeout=100),
        step("waitFor", textGone="Busy", url="/two", idle=True),
    ) == [
        'with page.expect_response(lambda response: "/api/cart" in response.url):',
        '    with page.expect_console_message(lambda message: "saved" in message.text):',
        '        page.locator("#buy").click()',
        'expect(page.get_by_text("Thanks").first).to_be_visible()',
        'expect(page.locator("li").first).to_be_visible(timeout=30_000)',
        'expect(page.locator(".busy")).to_be_hidden()',
        'expect(page.get_by_text("Busy").first).to_be_hidden(timeout=30_000)',
        'expect(page).to_have_url(re.compile(re.escape("/two")), timeout=30_000)',
        'page.wait_for_load_state("networkidle")',
    ]


def test_a_wait_for_what_no_step_brings_about_is_left_out_aloud() -> None:
    written = write(step("waitFor", request="/api"), step("waitFor", hmr=True))
    assert written.steps == 0
    assert len(written.left_out) == 2
    assert body(written)[-1] == "pass"


def test_a_dialog_is_answered_by_who_was_told_before() -> None:
    assert lines(
        step("click", "#ask", selector="#ask"),
        step("handleDialog", accept=True, text="Bob"),
        step("click", "#sure", selector="#sure"),
        step("handleDialog", accept=False),
    ) == [
        'page.once("dialog", lambda dialog: dialog.accept("Bob"))',
        'page.locator("#ask").click()',
        'page.once("dialog", lambda dialog: dialog.dismiss())',
        'page.locator("#sure").click()',
    ]


def test_dialogs_of_one_step_are_answered_one_after_the_other() -> None:
    assert lines(
        step("click", "#ask", selector="#ask"),
        step("handleDialog", accept=True),
        step("handleDialog", accept=False),
    ) == [
        'page.once("dialog", lambda dialog: (page.once("dialog", lambda dialog: dialog.dismiss()),'
        " dialog.accept()))",
        'page.locator("#ask").click()',
    ]


def test_a_popup_is_caught_by_the_step_that_opened_it() -> None:
    assert lines(
        step("click", "#pop", selector="#pop"),
        step("click", "#other", selector="#other"),
        step("click", "#in", "t2", selector="#in"),
        step("click", "#mine", "t3", selector="#mine"),
        opened={"t1": ("", 0.0), "t2": ("t1", 25.0), "t3": ("", 45.0)},
    ) == [
        "with page.expect_popup() as page_2_opened:",
        '    page.locator("#pop").click()',
        "page_2 = page_2_opened.value",
        'page.locator("#other").click()',
        'page_2.locator("#in").click()',
        'page_2.wait_for_url(re.compile(r"//[^/]+/(?:[?#]|$)"))',
        "page_3 = page.context.new_page()",
        'page_3.locator("#mine").click()',
        'page_3.wait_for_url(re.compile(r"//[^/]+/(?:[?#]|$)"))',
    ]


def test_rules_and_saved_states_hold_for_the_whole_test() -> None:
    written = write(
        step("loadState", at="", name="admin"),
        step("route", at="", url="/api/*", respond={"status": 404, "body": "{}"}, times=2),
        step("route", at="", url="/ads", block="failed"),
        step("route", at="", url="/x", edit={"status": 500}),
        step("navigate", url="/"),
    )
    assert body(written)[1:] == [
        'page.context.set_storage_state(os.environ["E2E_STATE_ADMIN"])',
        'page.context.route(re.compile(r"/api/[^/]*$"), lambda route: route.fulfill('
        'status=404, body="{}", content_type="application/json"), times=2)',
        'page.context.route(re.compile(r"/ads"), lambda route: route.abort("failed"))',
        'page.goto("/")',
    ]
    assert written.left_out == ("step 4, route: only a plain respond or block can be written down",)


def test_a_viewport_of_its_own_is_set_first() -> None:
    written = write(step("navigate", url="/"), viewport=(390, 844))
    assert body(written) == [
        'page.set_viewport_size({"width": 390, "height": 844})',
        'page.goto("/")',
    ]


def test_only_what_is_used_is_imported() -> None:
    plain = write(step("navigate", url="/")).source
    assert "import re\n" not in plain
    assert "import Page\n" in plain
    assert f'os.environ.get("E2E_BASE_URL", "{BASE}")' in plain
