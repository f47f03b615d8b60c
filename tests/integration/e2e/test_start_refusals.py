"""Starts that cannot be: told with what is really there, and what to do instead."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.driving import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

SERVES = json.dumps({"scripts": {"dev": "node server.js"}})


@pytest.fixture(scope="module")
def server() -> Iterator[Driver]:
    with Driver() as running:
        yield running


@pytest.fixture
def driver(server: Driver) -> Iterator[Driver]:
    """A server without a session, and without files afterwards."""
    yield server
    server.tidy_files()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"package.json": '{"scripts": {"dev": 1,}'}, "package.json is not a JSON object"),
        (
            {"package.json": json.dumps({"scripts": {"build": "tsc", "dev": "tsc --watch"}})},
            "that serves (scripts: build, dev)",
        ),
        ({"package.json": "{}"}, "that serves (scripts: none)"),
        ({"Procfile": "web: A=1 node x.js && true\n"}, "Procfile has no line `web:` that can be"),
        ({}, "no package.json, manage.py, Python app, Procfile or index.html"),
    ],
)
def test_a_folder_that_does_not_say_how_to_start_is_told_with_what_it_has(
    driver: Driver, files: dict[str, str], reason: str
) -> None:
    folder = driver.files / f"app {len(list(driver.files.iterdir()))}"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    error = driver.fault("startSession", cwd=str(folder))
    assert error["type"] == "server_start_failed"
    assert reason in error["reason"]
    assert error["reason"] in error["message"]


def test_a_repository_of_several_apps_names_their_folders(driver: Driver) -> None:
    root = driver.files / "several"
    for place, text in {
        ".": "{}",
        "packages/web": SERVES,
        "packages/lib": "{}",
        "api": SERVES,
    }.items():
        (root / place).mkdir(parents=True, exist_ok=True)
        (root / place / "package.json").write_text(text)
    error = driver.fault("startSession", cwd=str(root))
    assert error["suggestion"].startswith("pass the app's own folder as cwd (api, packages/web)")


@pytest.mark.parametrize("cdp", ["127.0.0.1:99999", "a b:9222", "[::1:9222", "127.0.0.1:٣"])
def test_an_address_that_no_browser_can_have_is_bad_input(driver: Driver, cdp: str) -> None:
    error = driver.fault("startSession", cdp=cdp)
    assert (error["type"], error["field"]) == ("invalid_input", "cdp")
