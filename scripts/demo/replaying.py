"""The exported test: completed by what failed, and run as its new owner would run it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from subprocess import STDOUT
from typing import TYPE_CHECKING

import anyio

from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from scripts.demo.telling import DemoFailed

if TYPE_CHECKING:
    from pathlib import Path

FAILED = 1
"""Pytest's exit code when tests ran and some of them failed."""
PLUGINS = ("-p", "no:cacheprovider", "-p", "pytest_playwright.pytest_playwright")
"""What the test needs, and no more: other plugins take their time, or leave folders beside it."""
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
GUARD_S = 120.0
"""Against hanging: it takes a few seconds."""
CONFTEST = '''"""For test_shop.py: the browser that this machine has."""

import pytest


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {{**browser_type_launch_args, "executable_path": {path!r}, "args": {args!r}}}
'''
INI = """\
# So that pytest does not take up the settings of a project around this folder.
# The test needs pytest-playwright, and the shop; E2E_BASE_URL says where, if it has moved.
[pytest]
"""


@dataclass(frozen=True, slots=True)
class Replay:
    """How a run of the test went."""

    command: str
    said: str
    reproduced: bool


def with_expectation(source: str, selector: str) -> str:
    """The exported steps, and what the user expected of them.

    An export has the steps that went well; the one that failed is what the test is for.
    """
    note = "# In the session this is what failed."
    line = f"expect(page.locator({selector!r})).to_be_visible(timeout=2_000)"
    named = source.replace("import Page\n", "import Page, expect\n")
    return f"{named.rstrip()}\n    {note}\n    {line}\n"


def write_conftest(folder: Path) -> None:
    """What the test needs beside it, so that whoever has the folder can run it."""
    browser = find_browser(os.environ)
    if browser is None:
        raise DemoFailed("no browser was found; `pilothouse doctor` says what to do")
    args = ["--no-sandbox"] if needs_no_sandbox() else []
    text = CONFTEST.format(path=str(browser.path), args=args)
    (folder / "conftest.py").write_text(text, "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")


async def replay(test: Path, locator: str) -> Replay:
    """Run the test; it reproduces the failure if it fails at `locator`. Raises DemoFailed."""
    words = ["-m", "pytest", "-q", *PLUGINS, test.name]
    with anyio.move_on_after(GUARD_S):
        ran = await anyio.run_process(
            [sys.executable, *words],
            cwd=test.parent,
            check=False,
            stderr=STDOUT,
            # Chromium's sockets have short names only.
            env={**os.environ, "TMPDIR": "/tmp", **ALONE},
        )
        said = ran.stdout.decode(errors="replace")
        if ran.returncode not in (0, FAILED):
            raise DemoFailed(f"the exported test could not be run:\n{said}")
        reproduced = ran.returncode == FAILED and locator in said
        if ran.returncode == FAILED and not reproduced:
            raise DemoFailed(f"the exported test failed elsewhere:\n{said}")
        return Replay(f"python {' '.join(words)}", said, reproduced)
    raise DemoFailed(f"the exported test did not end within {GUARD_S:g} s")
