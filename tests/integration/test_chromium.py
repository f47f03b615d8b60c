"""The test browser acts, crashes and ends as other tests rely on, and leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.chromium import Chromium
from tests.support.until import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Site


@pytest.mark.browser
def test_a_crash_ends_the_page_and_not_the_browser(site: Site) -> None:
    with Chromium() as chromium:
        tab = chromium.open(site.url("/empty"))
        chromium.wait_for_title(tab, "empty")
        chromium.crash(tab)
        other = chromium.open(site.url("/empty"))
        chromium.wait_for_title(other, "empty")
        assert chromium.evaluate(other, "Promise.resolve(6 * 7)") == 42
        with pytest.raises(RuntimeError, match="thrown here"):
            chromium.evaluate(other, "(() => { throw new Error('thrown here') })()")
        for each in (tab, other):
            chromium.close_tab(each)


@pytest.mark.browser
def test_a_killed_browser_leaves_nothing_behind(site: Site) -> None:
    with Chromium() as chromium:
        chromium.wait_for_title(chromium.open(site.url("/workers")))
        family = psutil.Process(chromium.pid).children(recursive=True)
        processes = chromium.processes()
        assert family
        assert chromium.pid in {process.pid for process in processes}
        chromium.kill()
        assert not any(running(process) for process in (*family, *processes))
        with pytest.raises(ConnectionRefusedError):
            chromium.targets()
        assert chromium.profile.exists()
    assert not chromium.profile.exists()


@pytest.mark.browser
def test_the_end_of_the_block_ends_the_browser() -> None:
    with Chromium() as chromium:
        processes = wait_until(chromium.processes, "Chromium's processes")
    assert not any(running(process) for process in processes)
    assert not chromium.profile.exists()


def test_a_browser_that_does_not_start_says_why_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken-browser"
    broken.write_text("#!/bin/sh\necho no display >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PILOTHOUSE_BROWSER", str(broken))
    chromium = Chromium()
    with pytest.raises(RuntimeError, match="no display"):
        chromium.__enter__()
    assert not chromium.profile.exists()


def running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
