"""The guide to e2e sessions, followed to the letter: each call is made, each answer compared."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.apps import app_folder
from tests.support.driving import GUARD_S, Driver, size
from tests.support.guides import exchanges, follow
from tests.support.pages import chromium, opened_file
from tests.support.servers import ROOT, environment
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

GUIDE = (ROOT / "docs" / "guides" / "e2e.md").read_text()
PICTURE = ROOT / "docs" / "pictures" / "dossier.png"
LAMPSHOP = ROOT / "tests" / "support" / "lampshop"
WIDTH = 1100
"""Of the picture."""
ROW = re.compile(r"\| `(startSession) (\{.+\})` \|")
# The guide's commands say `pilothouse`, and so do the scripts that it has people write.
TOOLS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def section(title: str) -> str:
    found = re.search(rf"^## \d+\. {title}\n(.*?)(?=^## |\Z)", GUIDE, re.M | re.S)
    assert found is not None, title
    return found[1]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A copy of the app, whose fault is mended on the way."""
    return Path(shutil.copytree(LAMPSHOP, tmp_path / "shop"))


def in_place(text: str, shop: Path) -> str:
    """The guide's paths as they are here."""
    return text.replace("/path/to/shop", str(shop)).replace('"shop"', json.dumps(str(shop)))


def mend(shop: Path) -> None:
    stock = shop / "stock.js"
    sound = stock.read_text().replace('"paper', '"desk-lamp": { left: 2 }, "paper')
    stock.write_text(sound)


def test_the_guide_works_from_the_start_to_the_end_of_a_session(shop: Path) -> None:
    told = GUIDE[: GUIDE.index("## 9.")].replace(section("Hot reload"), "")
    (command,) = re.findall(r"```sh\n(pilothouse .+)\n```", section("A server for your client"))
    words = {'"shop"': json.dumps(str(shop))}
    followed = []
    env = {"PILOTHOUSE_ROOTS": str(shop.parent), "PATH": TOOLS}
    with Driver(env=env, joins_hub=True) as driver:
        started = driver.process.args
        assert isinstance(started, list)
        assert started[started.index("pilothouse") :] == shlex.split(command)
        for exchange in exchanges(told):
            if exchange.tool == "restartServer":
                mend(shop)
            _, answer = follow(driver, exchange, words)
            followed.append(exchange.tool)
            if "#order" in exchange.arguments and "restartServer" not in followed:
                # The error of the order came with its click: it is not of the next step.
                wait_until(partial(has_logged, driver.home, "stock.js"))
            if "targetId" in answer:
                words["TARGET"] = answer["targetId"]
            if "dossier" in answer.get("error", {}) and "requests" in answer["error"]:
                look_at(Path(answer["error"]["dossier"]["path"]))
                check_files(Path(answer["error"]["dossier"]["path"]).parent)
            if exchange.tool == "exportSession":
                written = Path(answer["files"][0]["path"]).read_text()
                assert "Add desk lamp" in written
                assert "correct horse" not in written
    assert {"click", "readServerLogs", "saveState", "route", "endSession"} <= {*followed}


def has_logged(home: Path, text: str) -> bool:
    """Tell whether what an app wrote to its stderr has come to its log."""
    return any(text in log.read_text() for log in home.rglob("app.stderr.log"))


def check_files(folder: Path) -> None:
    """The files that the last section lists, as far as they are there by then."""
    listed = re.findall(r"`([^`]+)`", section("Where the files are"))
    names = {re.sub(r"\d+", "N", path.name) for path in folder.iterdir()}
    assert {"app.stderr.log", "failure-N.unmasked.png", "dossier-N.html"} <= names
    assert names <= {*listed}, names


def look_at(page: Path) -> None:
    """Open a dossier as a person would, by day and by night."""
    with chromium() as browser:
        light, dark = (_picture(browser, page, scheme) for scheme in ("light", "dark"))
    assert size(light) == size(dark)
    assert light != dark
    if os.environ.get("PILOTHOUSE_WRITE_PICTURES"):
        PICTURE.write_bytes(light)


def _picture(browser: Browser, page: Path, scheme: str) -> bytes:
    """What a dossier looks like: it shows itself whole, and asks for nothing."""
    tab = opened_file(browser, page, scheme, WIDTH)
    assert tab.title() == "waitForSelector #receipt: element_not_found"
    assert tab.locator("h2").first.inner_text() == "Likely causes"
    assert tab.locator("img").evaluate("image => image.naturalWidth") == 1280
    assert "stock.js:5:8" in tab.locator("main").inner_text()
    return tab.screenshot()


def test_the_picture_in_the_guide_is_there_and_readable() -> None:
    assert "](../pictures/dossier.png)" in GUIDE
    assert size(PICTURE.read_bytes())[0] == WIDTH


def test_the_wait_for_a_hot_update_works_with_vite() -> None:
    (exchange,) = exchanges(section("Hot reload"))
    with app_folder("vite") as folder, Driver(env={"PILOTHOUSE_ROOTS": str(folder)}) as driver:
        started = driver.call("startSession", cwd=str(folder), timeout=120_000)
        driver.call("navigate", url="/", timeout=120_000)
        driver.until_hot(started["targetId"])
        source = folder / "src" / "title.js"
        source.write_text(source.read_text().replace("Hello", "Goodbye"))
        follow(driver, exchange, {})
        assert driver.text("h1") == "Goodbye from Vite"


@contextmanager
def running(argv: list[str], sign: str, shop: Path, **env: str) -> Iterator[str]:
    """A process of the test's own, and what it printed after a sign; its output is kept."""
    log = shop / "dev.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(env),
            cwd=shop,
        )
    try:
        yield _said(process, log, re.compile(sign))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(GUARD_S)


def _said(process: subprocess.Popen[bytes], log: Path, sign: re.Pattern[str]) -> str:
    def found() -> re.Match[str] | None:
        said = sign.search(log.read_text())
        assert said or process.poll() is None, log.read_text()
        return said

    return wait_until(found, log.read_text, GUARD_S)[1]


@pytest.mark.leaves_files  # `pilothouse wrap` leaves its logs to be read
def test_every_other_way_to_start_leads_to_the_shop(shop: Path) -> None:
    mend(shop)
    ways = [in_place(text, shop) for _, text in ROW.findall(section("Other ways to start"))]
    script = re.search(r"```sh\n(#!/bin/sh\n.+?)\n```", GUIDE, re.S)
    assert script is not None
    (shop / "serve").write_text(script[1] + "\n")
    (shop / "serve").chmod(0o755)
    seen = set()
    with Driver(env={"PILOTHOUSE_ROOTS": str(shop.parent), "PATH": TOOLS}) as driver:
        driver.call("startSession", cwd=str(shop))
        driver.visit("/")
        login = next(e for e in exchanges(section("Keep and change things")))
        follow(driver, login, {})
        driver.call("saveState", name="ada")
        driver.call("endSession")
        for text in ways:
            arguments = json.loads(text)
            seen |= arguments.keys()
            with _as_needed(arguments, shop, driver.home):
                driver.call("startSession", **arguments)
                assert driver.visit("/")["title"] == "Lamps"
                who = driver.value("fetch('/api/me').then(a => a.json()).then(me => me.user)")
                assert who == ("ada" if "state" in arguments else "")
                assert driver.call("endSession")["success"]
    assert {"command", "services", "url", "commandPath", "cdp", "state"} <= seen


@contextmanager
def _as_needed(arguments: dict[str, Any], shop: Path, home: Path) -> Iterator[None]:
    """What must run before: the app itself, or a browser of the user's own."""
    if "url" in arguments:
        node = shutil.which("node") or pytest.skip("node is not installed")
        with running([node, "server.js"], r"(http://localhost:\d+)", shop, PORT="0") as url:
            arguments["url"] = url
            yield
    elif "cdp" in arguments:
        chrome = [sys.executable, "-m", "pilothouse", "chrome", "--headless", "--port", "0"]
        with running(chrome, r"(127\.0\.0\.1:\d+)", shop, PILOTHOUSE_HOME=str(home)) as where:
            arguments["cdp"] = where
            yield
    else:
        yield


@pytest.mark.leaves_files  # `pilothouse wrap` leaves its logs to be read
def test_wrap_answers_by_hand_as_the_contract_says(shop: Path) -> None:
    (block,) = re.findall(r"```sh\n(pilothouse wrap .+?)\n```", GUIDE, re.S)
    commands = block.splitlines()
    with tempfile.TemporaryDirectory(prefix="ph-") as home:

        def said(command: str) -> str:
            ran = subprocess.run(
                [sys.executable, "-m", *shlex.split(command)],
                cwd=shop,
                env=environment({"PILOTHOUSE_HOME": home, "PATH": TOOLS}),
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
            status: str = json.loads(ran.stdout)["status"]
            return status

        try:
            assert [said(command) for command in commands] == ["ready", "running", "stopped"]
        finally:
            said(commands[-1])
