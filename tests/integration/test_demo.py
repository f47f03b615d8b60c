"""`make demo`: it finds the fault of the shop, leaves its files, and says so when it cannot."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import psutil
import pytest

from scripts.demo.__main__ import INTERRUPTED
from scripts.demo.keeping import NOTE
from scripts.demo.story import BOOKMARK, FILES
from tests.support.pages import chromium, opened_file
from tests.support.ports import free_port
from tests.support.servers import ROOT, environment
from tests.unit.observe.har_schema import HAR_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

GUARD_S = 280
PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = ROOT / "docs" / "pictures" / "demo.png"
WIDTH = 1100


@dataclass
class Place:
    """A home and an output folder of a demo's own."""

    home: Path
    output: Path
    env: dict[str, str]

    def run(self, *words: str, module: str = "scripts.demo") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
            check=False,
        )

    def demo(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("--output", str(self.output), *words)

    def hub(self) -> dict[str, Any] | None:
        """What the hub of this home says of itself, if there is one."""
        told = self.run("status", "--json", module="pilothouse")
        return json.loads(told.stdout) if told.returncode == 0 else None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Where the demo runs that is told of below."""
    yield from _place(tmp_path_factory)


@pytest.fixture(scope="module")
def other_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Where demos run that come to no good end."""
    yield from _place(tmp_path_factory)


def _place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = Path(tempfile.mkdtemp(prefix="ph-"))
    ports = {
        "PILOTHOUSE_HTTP_PORT": "0",
        "PILOTHOUSE_CONFIG_PORT": "0",
        "PILOTHOUSE_REST_PORT": "0",
        "PILOTHOUSE_BOOKMARKS_PORT": str(free_port()),
    }
    env = environment({"PILOTHOUSE_HOME": str(home), **ports})
    made = Place(home, tmp_path_factory.mktemp("demo"), env)
    yield made
    made.demo("--stop")
    made.run("stop", module="pilothouse")
    shutil.rmtree(home, ignore_errors=True)


@dataclass
class Demo:
    """A demo that is over, and whose session is still open."""

    place: Place
    ran: subprocess.CompletedProcess[str]
    files: set[str]
    """Names of what was in its output folder when it was over."""

    def file(self, name: str) -> Path:
        return self.place.output / name


@pytest.fixture(scope="module")
def demos() -> list[Demo]:
    """Those that ran in this module."""
    return []


@pytest.fixture
def demo(place: Place, demos: list[Demo]) -> Demo:
    """A demo whose session is open: the last one, unless a test has ended it."""
    if not demos or not demos[-1].file(NOTE).exists():
        demos.append(_run(place))
    return demos[-1]


def _run(place: Place) -> Demo:
    ran = place.demo()
    return Demo(place, ran, {path.name for path in place.output.iterdir()})


def test_the_demo_goes_well_and_leaves_its_files(demo: Demo) -> None:
    assert demo.ran.returncode == 0, demo.ran.stdout + demo.ran.stderr
    assert demo.files == {*FILES, NOTE}
    for picture in demo.place.output.glob("*.png"):
        assert picture.read_bytes().startswith(PNG)


def test_it_prints_the_dossier_with_the_servers_own_error(demo: Demo) -> None:
    said = demo.ran.stdout
    assert "Likely causes" in said
    assert re.search(r"POST /api/orders answered 500; the server logged:\s+│?\s*.*KeyError", said)
    assert "orders.py" in said
    assert "KeyError: 'weight_g'" in demo.file("dossier.html").read_text().replace("&#x27;", "'")


def test_the_har_has_the_failed_order_and_the_changed_one_that_went_well(demo: Demo) -> None:
    har = json.loads(demo.file("traffic.har").read_text())
    jsonschema.validate(har, HAR_SCHEMA)
    orders = [entry for entry in har["log"]["entries"] if entry["request"]["method"] == "POST"]
    failed, again = orders
    assert failed["response"]["status"] == 500
    assert "sextant" in failed["request"]["postData"]["text"]
    assert again["response"]["status"] == 200
    assert "compass" in again["request"]["postData"]["text"]
    assert json.loads(again["response"]["content"]["text"])["receipt"]["items"]


def test_the_exported_test_repeats_the_order_and_fails_at_the_receipt(demo: Demo) -> None:
    source = demo.file("test_shop.py").read_text()
    compile(source, "test_shop.py", "exec")
    assert "Add Sextant" in source
    assert source.rstrip().splitlines()[-1].startswith("    expect(page.locator('#receipt'))")
    assert "the fault is reproduced" in demo.ran.stdout
    assert "1 failed" in demo.file("report.html").read_text()


def test_whoever_has_the_folder_can_run_its_test_whatever_project_is_around(demo: Demo) -> None:
    folder = demo.place.output
    (folder.parent / "pytest.ini").write_text("[pytest]\naddopts = -p no:playwright\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", folder.name],
        cwd=folder.parent,
        env={**demo.place.env, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "#receipt" in ran.stdout


def test_the_bookmark_is_in_the_profile_as_chrome_keeps_it(demo: Demo) -> None:
    bar = json.loads(demo.file("bookmarks.json").read_text())["roots"]["bookmark_bar"]
    (shop,) = bar["children"]
    (faults,) = shop["children"]
    (kept,) = faults["children"]
    assert (shop["name"], faults["name"], kept["name"]) == ("Shop", "Faults", BOOKMARK)
    assert kept["type"] == "url"
    assert kept["url"].startswith("http://localhost:")


def test_the_report_shows_the_whole_story_by_day_and_by_night(demo: Demo) -> None:
    text = demo.file("report.html").read_text()
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert len(pictures) == 4
    assert all(b64decode(one).startswith(PNG) for one in pictures)
    with chromium() as browser:
        light, dark = (_look(browser, demo.file("report.html"), one) for one in ("light", "dark"))
    assert light != dark
    if os.environ.get("PILOTHOUSE_WRITE_PICTURES"):
        PICTURE.write_bytes(light)


def _look(browser: Browser, page: Path, scheme: str) -> bytes:
    tab = opened_file(browser, page, scheme, WIDTH)
    assert tab.locator("ol.story > li").count() == 10
    return tab.screenshot()


def test_the_session_stays_open_until_it_is_told_to_stop_and_leaves_the_hub(demo: Demo) -> None:
    hub = demo.place.hub()
    assert hub is not None
    (seat,) = hub["seats"]
    assert seat["pid"]
    named = demo.place.run("serve", module="pilothouse")
    assert (named.returncode, named.stdout.strip()) == (0, hub["url"])
    assert f"{hub['url']}/" in demo.ran.stdout
    agent = int(demo.file(NOTE).read_text().split()[0])
    session = [*family(agent), *family(seat["pid"])]
    assert any("chrom" in process.name() for process in session)
    assert "has ended" in demo.place.demo("--stop").stdout
    assert not demo.file(NOTE).exists()
    _, left = psutil.wait_procs(session, GUARD_S)
    assert left == []
    after = demo.place.hub()
    assert after is not None
    assert (after["pid"], after["seats"]) == (hub["pid"], [])
    assert "no session" in demo.place.demo("--stop").stdout


def test_an_interrupted_demo_takes_everything_with_it(other_place: Place) -> None:
    words = [sys.executable, "-m", "scripts.demo", "--output", str(other_place.output)]
    # Who runs the tests in the background may have them ignore it, and all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        words, cwd=ROOT, env=other_place.env, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert any("The shop is open" in line for line in demo.stdout)
        hub = other_place.hub()
        assert hub is not None
        (seat,) = hub["seats"]
        session = [*family(demo.pid), *family(seat["pid"])]
        demo.send_signal(signal.SIGINT)
        assert demo.wait(GUARD_S) == INTERRUPTED
    _, left = psutil.wait_procs(session, GUARD_S)
    assert left == []
    assert not other_place.output.joinpath(NOTE).exists()


def family(pid: int) -> list[psutil.Process]:
    """A process with all below it."""
    head = psutil.Process(pid)
    return [head, *head.children(recursive=True)]


def test_a_demo_that_cannot_go_on_says_why_and_leaves_nothing(other_place: Place) -> None:
    other_place.env["PILOTHOUSE_BROWSER"] = "/nowhere/chrome"
    try:
        ran = other_place.demo()
    finally:
        del other_place.env["PILOTHOUSE_BROWSER"]
    assert ran.returncode == 1
    assert "The demo failed: startSession failed" in ran.stdout
    assert not other_place.output.joinpath("report.html").exists()
    assert not other_place.output.joinpath(NOTE).exists()
