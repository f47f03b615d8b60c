"""Logins that are saved and loaded again, over the MCP wire."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from tests.integration.e2e.little_shop import log_in, start
from tests.support.driving import Driver

pytestmark = pytest.mark.browser

OPEN = """new Promise(done => {
  const opening = indexedDB.open('notes', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore('notes');
  opening.onsuccess = () => {
    const notes = opening.result.transaction('notes', 'readwrite').objectStore('notes');
    const asked = ASK;
    asked.onsuccess = () => { opening.result.close(); done(asked.result); };
  };
})"""
STORE = OPEN.replace("ASK", "notes.put('kept', 1)")
READ = OPEN.replace("ASK", "notes.get(1)")


def test_a_saved_login_holds_in_this_session_and_in_the_next() -> None:
    with Driver() as driver:
        started = start(driver)
        driver.visit("/")
        log_in(driver)
        driver.value(STORE)
        saved = driver.call("saveState", name="ada")
        file = driver.home / "logins" / "ada.json"
        said = f"{file} holds cookies and tokens as they are, not masked; only you can read it"
        assert saved == {"name": "ada", "cookies": 1, "origins": 1, "message": said}

        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert os.listdir(file.parent) == ["ada.json"]

        driver.value("localStorage.clear(); document.cookie = 'visits=; max-age=0'")
        driver.visit("/")
        assert driver.text("#who") == "nobody;"
        assert driver.call("loadState", name="ada")["cookies"] == 1
        driver.visit("/")
        assert driver.text("#who").startswith("ada;visits=")

        url, port = started["url"], started["port"]
        command = [sys.executable, str(driver.files / "app.py")]
        driver.call("endSession")
        again = driver.start(command=command, port=port, state="ada")
        assert again["url"] == url
        driver.visit("/")
        assert driver.text("#who").startswith("ada;visits=")
        assert driver.value(READ) == "kept"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a\x00", "ä", "a" * 65])
def test_a_name_that_is_none_is_refused(app: Driver, name: str) -> None:
    for tool in ("saveState", "loadState"):
        fault = app.fault(tool, name=name)
        assert (fault["type"], fault["field"]) == ("invalid_input", "name")
    if name:
        assert app.fault("startSession", state=name, url=app.url)["type"] == "invalid_input"


def test_a_state_that_was_never_saved_is_refused_before_anything_starts(app: Driver) -> None:
    assert "no saved state nobody" in app.fault("loadState", name="nobody")["message"]
    fault = app.fault("startSession", state="nobody", command=["true"])
    assert (fault["type"], fault["field"]) == ("invalid_input", "name")


def test_an_open_dialog_is_named_instead_of_hanging(app: Driver) -> None:
    app.call("click", selector="#ask")
    assert app.fault("saveState", name="x")["type"] == "dialog_open"
    app.call("handleDialog", accept=False)
    assert app.call("saveState", name="x")["name"] == "x"
