"""What a session leaves behind: a test, a trace, a video."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.e2e.little_shop import APP, PASSWORD, canary, log_in, start
from tests.support.driving import Driver
from tests.support.exported import run_exported
from tests.support.until import wait_until

pytestmark = pytest.mark.browser


def take_a_tour(driver: Driver) -> None:
    """A step of every kind that a test can repeat."""
    driver.visit("/")
    log_in(driver)
    tree = driver.call("snapshot")["snapshot"]
    ref = tree.split('button "Buy \\"it\\" now" [ref=')[1].split("]")[0]
    driver.call("fillForm", fields=[{"selector": "#size", "value": "L"}])
    driver.call("selectOption", selector="#size", values=["S"])
    driver.call("fillForm", fields=[{"selector": "#terms", "value": True}])
    driver.call("type", selector="[name=user]", text='O\'Neil "x" \\ ü\t')
    driver.call("pressKey", selector="[name=user]", key="End")
    driver.call("route", url="/api/cart", respond={"status": 202, "body": '{"n": "it\'s"}'})
    driver.call("click", selector=ref)
    driver.call("waitForSelector", selector="li")
    assert driver.fault("click", selector="#nothing", timeout=100)["type"] == "element_not_found"
    driver.call("click", selector="#ask")
    driver.call("handleDialog", accept=True, text="Bob")
    wait_until(lambda: driver.value("document.title") == "Bob")
    driver.call("click", selector="text=help")
    wait_until(lambda: len(driver.call("tabs")["tabs"]) == 2)
    driver.call("click", selector="text=Close", tabId="t2")
    driver.call("click", selector="text=my order")
    driver.call("waitFor", text="/order/17", url="/order/")
    driver.call("goBack")


def test_the_exported_test_runs_and_fails_where_the_app_is_another(tmp_path: Path) -> None:
    with Driver() as driver:
        start(driver)
        take_a_tour(driver)
        exported = driver.call("exportSession")
        (file,) = exported["files"]
        source = driver.resource(file["uri"]).decode()
        assert Path(file["path"]).read_text() == source
        assert file["bytes"] == len(source.encode())
        assert PASSWORD not in source
        assert exported["variables"] == ["E2E_PASSWORD"]
        assert exported["leftOut"] == [
            "step 15, click #nothing: it failed (element_not_found)",
            "steps that only look: snapshot (1)",
        ]
        assert 'get_by_role("button", name="Buy \\"it\\" now").click()' in source
        # Known although the form had been sent a moment later.
        assert 'get_by_role("textbox", name="Password").fill(os.environ["E2E_PASSWORD"])' in source

        shutil.copy(file["path"], tmp_path / "test_session.py")
        assert run_exported(tmp_path, E2E_PASSWORD=PASSWORD) == {"test_session": ""}, source

        with canary() as (port, seen):
            elsewhere = {"E2E_BASE_URL": f"http://127.0.0.1:{port}", "E2E_PASSWORD": "x"}
            # Without the app there is nothing to fill in; the test must not pass.
            broken = source.replace(".fill(", ".fill(timeout=500, value=")
            (tmp_path / "test_session.py").write_text(broken)
            assert "fill" in run_exported(tmp_path, **elsewhere)["test_session"]
            assert seen


def test_a_session_without_steps_cannot_be_made_a_test() -> None:
    with Driver() as driver:
        start(driver)
        assert driver.fault("exportSession")["type"] == "invalid_input"
        for kind in ("trace", "video"):
            fault = driver.fault("exportSession", **{"as": kind})
            assert (fault["type"], fault["field"]) == ("invalid_input", "as")
            assert f'record: ["{kind}"]' in fault["suggestion"]


def test_a_trace_is_whole_and_is_followed_by_the_next() -> None:
    with Driver() as driver:
        start(driver, record=["trace"])
        driver.visit("/")
        log_in(driver)
        (first,) = driver.call("exportSession", **{"as": "trace"})["files"]
        driver.call("click", selector="#buy")
        (second,) = driver.call("exportSession", **{"as": "trace"})["files"]
        assert len(driver.resource(first["uri"])) == first["bytes"]
        contents = [_texts(Path(file["path"])) for file in (first, second)]
        assert '"method": "fill"' in contents[0]
        assert '"method": "fill"' not in contents[1]
        assert '"method": "click"' in contents[1]


def _texts(path: Path) -> str:
    with zipfile.ZipFile(path) as trace:
        assert trace.testzip() is None
        return "\n".join(trace.read(name).decode("utf-8", "replace") for name in trace.namelist())


def test_a_video_is_complete_when_the_session_has_ended() -> None:
    with Driver() as driver:
        driver.call("startSession", record=["video"], command=_command(driver))
        driver.visit("/")
        driver.call("tabs", action="new", url="/order/1")
        driver.call("tabs", action="close", tabId="t2")
        exported = driver.call("exportSession", **{"as": "video"})
        files = exported["files"]
        assert "nothing in it is masked" in exported["message"]
        names = [Path(file["path"]).name for file in files]
        assert names == ["video-1.unmasked.webm", "video-2.unmasked.webm"]
        assert sorted(file["complete"] for file in files) == [False, True]
        driver.call("endSession")
        for file in files:
            assert Path(file["path"]).read_bytes()[:4] == b"\x1aE\xdf\xa3"  # a Matroska file
            assert Path(file["path"]).stat().st_size >= file["bytes"]
            assert stat.S_IMODE(Path(file["path"]).stat().st_mode) == 0o600


def test_a_video_without_any_ffmpeg_fails_the_start_and_says_what_to_install(
    tmp_path: Path,
) -> None:
    path = _path_without("ffmpeg", tmp_path)
    with Driver(env={"PATH": path, "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path / "none")}) as driver:
        error = driver.fault("startSession", record=["video"], command=_command(driver))
    assert error["type"] == "browser_launch_failed"
    assert "apt-get install ffmpeg" in error["suggestion"]


def _path_without(program: str, folder: Path) -> str:
    """A PATH with links to everything that is on PATH, but for one program."""
    links = folder / "bin"
    links.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for one in Path(place).glob("*"):
            link = links / one.name
            if one.name != program and not link.is_symlink():
                link.symlink_to(one)
    return str(links)


def _command(driver: Driver) -> list[str]:
    (driver.files / "app.py").write_text(APP)
    return [sys.executable, str(driver.files / "app.py")]
