"""Hot reload with real dev servers: an edit is waited for, and its error is the first cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.apps import app_folder
from tests.support.driving import Driver
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_MS = 120_000


@pytest.fixture(
    params=[("vite", "src/title.js"), ("next", "app/page.js")], ids=["vite", "next"], scope="module"
)
def app(request: pytest.FixtureRequest) -> Iterator[tuple[Driver, Path]]:
    """A session on a dev server, and the source file of its heading."""
    name, source = request.param
    with (
        app_folder(name) as folder,
        Driver(env={"PILOTHOUSE_ROOTS": str(folder)}) as driver,
    ):
        started = driver.call("startSession", cwd=str(folder), timeout=START_MS)
        driver.call("navigate", url="/", timeout=START_MS)
        driver.until_hot(started["targetId"])
        yield driver, folder / source


def test_an_edit_is_in_the_page_when_the_wait_is_over_and_its_error_is_the_first_cause(
    app: tuple[Driver, Path],
) -> None:
    """One after the other: a dev server that recovers from an error tells of several updates."""
    driver, source = app
    assert driver.text("h1").startswith("Hello from ")
    source.write_text(source.read_text().replace("Hello from ", "Goodbye from "))
    met = driver.call("waitFor", hmr=True, timeout=60_000)["met"]
    assert met["hmr"]["kind"] in ("console", "websocket")
    assert driver.text("h1").startswith("Goodbye from ")
    source.write_text("export const title = (;\n")
    driver.call("waitFor", hmr=True, timeout=60_000)
    assert wait_until(lambda: _overlay_shows(driver))
    error = wait_until(lambda: _seen_failure(driver))
    assert error["type"] == "element_not_found"
    assert error["causes"][0].startswith("the dev server shows an error in the page: "), error
    assert source.name in error["overlay"]


def _seen_failure(driver: Driver) -> dict[str, Any] | None:
    """None while the page, on a busy machine, does not answer in time, which the dossier says."""
    error = driver.fault("click", selector="#nothing-of-the-kind", timeout=2_000)
    late = any(missing.startswith("overlay") for missing in error.get("missing", []))
    return None if late else error


def _overlay_shows(driver: Driver) -> object:
    return driver.value(
        "!!document.querySelector('vite-error-overlay')"
        " || [...document.querySelectorAll('nextjs-portal')].some("
        "portal => portal.shadowRoot?.querySelector('[role=dialog]'))"
    )
