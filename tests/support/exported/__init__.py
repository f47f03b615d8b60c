"""Exported tests, run as their new owner would: by pytest-playwright, in an environment of its own.

The environment is installed by the set-up for tests (tests/support/apps), from the lock file here.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from pilothouse.e2e.browser.flags import feature_flag
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from tests.support import apps

if TYPE_CHECKING:
    from pathlib import Path

GUARD_S = 300

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {{**browser_type_launch_args, "executable_path": {path!r}, "args": {args!r}}}
"""


def run_exported(folder: Path, **env: str) -> dict[str, str]:
    """Run the tests in a folder; return file → what its test failed with, empty if it passed."""
    browser = find_browser(os.environ)
    assert browser is not None
    # One argument of a browser's start in the test's place, so that half of its time is not spent
    # on pages that nobody sees.
    args = [feature_flag(), *(["--no-sandbox"] if needs_no_sandbox() else [])]
    (folder / "conftest.py").write_text(CONFTEST.format(path=str(browser.path), args=args))
    (folder / "pytest.ini").write_text("[pytest]\n")
    report = folder / "report.xml"
    python = str(apps.python_of(apps.EXPORTED_LOCK))
    ran = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"],
        cwd=folder,
        # Chromium's sockets have short names only.
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout[-3000:] + ran.stderr[-3000:]
    return {
        case.attrib["classname"]: "\n".join(found.text or "" for found in case)
        for case in ElementTree.parse(report).iter("testcase")
    }
