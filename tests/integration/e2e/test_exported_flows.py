"""Flows that an agent went through are exported, and their tests are run by pytest-playwright."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.driving import Driver
from tests.support.exported import run_exported
from tests.support.exported.app import running_app
from tests.support.rounds import ROUNDS
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

# The first test pays for the flows of all.
pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

MOST_ROUNDS = 10
PASSWORD = "correct-horse-battery"


def log_in(driver: Driver) -> None:
    driver.visit("/login")
    driver.call("type", selector="#user", text="ada")
    driver.call("type", selector="#password", text=PASSWORD)
    driver.call("click", selector="#go")
    driver.call("waitFor", text="Welcome")


def fill_in_a_form(driver: Driver) -> None:
    driver.visit("/form")
    for number in range(22):  # more than are asked for at once
        driver.call("type", selector="[name=name]", text=f"Ada {number}")
    fields = [
        {"selector": "label=Name", "value": "Ada"},
        {"selector": "#size", "value": "L"},
        {"selector": "#terms", "value": True},
    ]
    driver.call("fillForm", fields=fields, submit="text=Order")
    driver.call("waitFor", text="?name=Ada&size=L&terms=on", url="/done")


def upload(driver: Driver) -> None:
    (driver.files / "note.txt").write_text("a note")
    driver.visit("/upload")
    driver.call("uploadFile", selector="#file", paths=[str(driver.files / "note.txt")])
    driver.call("waitFor", text="got note.txt")


def open_a_popup(driver: Driver) -> None:
    driver.visit("/opener")
    driver.call("click", selector="text=Help")
    wait_until(lambda: len(driver.call("tabs")["tabs"]) == 2)
    driver.call("click", selector="text=Understood", tabId="t2")
    driver.call("waitFor", text="Thanks", tabId="t2")
    driver.call("tabs", action="close", tabId="t2")


def pay_in_a_frame(driver: Driver) -> None:
    driver.visit("/framed")
    tree = driver.call("snapshot")["snapshot"]
    ref = tree.split('textbox "Card" [ref=')[1].split("]")[0]
    driver.call("type", selector=ref, text="4242")
    ref = tree.split('button "Pay" [ref=')[1].split("]")[0]
    driver.call("click", selector=ref)


def download(driver: Driver) -> None:
    driver.visit("/reports")
    driver.call("click", selector="#get")
    wait_until(lambda: driver.call("getSessionStatus").get("downloads"))


def confirm(driver: Driver) -> None:
    driver.visit("/confirm")
    driver.call("click", selector="text=Delete")
    driver.call("handleDialog", accept=True)
    driver.call("waitFor", text="Deleted")


def go_through_a_single_page_app(driver: Driver) -> None:
    driver.visit("/spa")
    driver.call("click", selector="#open")
    driver.call("waitFor", text="now at /spa/items/17", url="/spa/items/")
    driver.call("goBack")
    driver.call("waitFor", text="now at /spa", url="/spa")


def drag(driver: Driver) -> None:
    driver.visit("/drag")
    driver.call("drag", **{"from": "#card", "to": "#box"})
    driver.call("waitFor", text="Dropped")


def wait_in_vain(driver: Driver) -> None:
    driver.visit("/broken")
    driver.call("click", selector="#save")
    driver.call("waitFor", text="Saving")
    assert driver.fault("waitFor", text="Saved", timeout=500)["type"] == "timeout"
    assert driver.fault("click", selector="#none", timeout=100)["type"] == "element_not_found"


FLOWS: dict[str, Callable[[Driver], None]] = {
    "login": log_in,
    "form": fill_in_a_form,
    "upload": upload,
    "popup": open_a_popup,
    "frame": pay_in_a_frame,
    "download": download,
    "confirm": confirm,
    "spa": go_through_a_single_page_app,
    "drag": drag,
    "failed_wait": wait_in_vain,
}


@dataclass
class Flow:
    """What a flow was exported as, and how its test ended in each round."""

    source: str = ""
    answer: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Flow]:
    """Every flow, taken in a session of its own; the tests run in one process for all."""
    found = {name: Flow() for name in FLOWS}
    with running_app() as origin, Driver() as driver:
        for _ in range(min(ROUNDS, MOST_ROUNDS)):
            folder = tmp_path_factory.mktemp("exported")
            for name, take in FLOWS.items():
                driver.start(url=origin)
                take(driver)
                flow = found[name]
                flow.answer = driver.call("exportSession")
                path = Path(flow.answer["files"][0]["path"])
                flow.source = path.read_text()
                shutil.copy(path, folder / f"test_{name}.py")
                driver.call("endSession")
            for case, failure in run_exported(folder, E2E_PASSWORD=PASSWORD).items():
                found[case.removeprefix("test_")].failures.append(failure)
    return found


@pytest.mark.parametrize("name", [name for name in FLOWS if name != "failed_wait"])
def test_an_exported_flow_passes(flows: dict[str, Flow], name: str) -> None:
    flow = flows[name]
    assert flow.failures == [""] * min(ROUNDS, MOST_ROUNDS), flow.source
    only_looks = "steps that only look: "
    assert [each for each in flow.answer["leftOut"] if not each.startswith(only_looks)] == []


def test_fields_have_their_roles_although_the_form_was_sent_at_once(flows: dict[str, Flow]) -> None:
    source = flows["login"].source
    assert 'get_by_role("textbox", name="User").fill("ada")' in source
    assert 'name="Password").fill(os.environ["E2E_PASSWORD"])' in source
    assert flows["login"].answer["variables"] == ["E2E_PASSWORD"]


def test_a_select_is_chosen_from_in_a_long_session_too(flows: dict[str, Flow]) -> None:
    assert '").select_option("L")' in flows["form"].source
    assert 'locator("#size")' not in flows["form"].source, flows["form"].source
    assert 'get_by_role("textbox", name="Name").fill("Ada")' in flows["form"].source


def test_a_download_is_waited_for(flows: dict[str, Flow]) -> None:
    assert "with page.expect_download():" in flows["download"].source


def test_a_wait_in_vain_fails_the_test_at_its_line_and_what_is_left_out_is_told(
    flows: dict[str, Flow],
) -> None:
    flow = flows["failed_wait"]
    assert len(flow.failures) == min(ROUNDS, MOST_ROUNDS)
    line = 'expect(page.get_by_text("Saved").first).to_be_visible()'
    assert all(f">   {' ' * 4}{line}" in failure for failure in flow.failures), flow.failures
    assert flow.answer["message"].endswith("it fails at step 4, waitFor, as the session did")
    assert flow.answer["leftOut"] == ["step 5, click #none: it failed (element_not_found)"]
