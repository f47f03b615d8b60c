"""The page that says how a tool is added, followed to the letter in a copy of the project."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.documents import ROOT
from tests.support.servers import environment

if TYPE_CHECKING:
    from pathlib import Path

PAGE = (ROOT / "docs" / "adding-a-tool.md").read_text()
_FILE = re.compile(r"^(?:Create|In) `([^`]+)`:$")
_LEFT = shutil.ignore_patterns("__pycache__", "node_modules")
_COPIED = ("src", "scripts", "docs", "web", "extension")


def follow(page: str, folder: Path) -> list[str]:
    """Do in a folder what a page says of files, and return the commands of its ```sh blocks."""
    path = folder
    commands: list[str] = []
    parts = re.split(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    for text, kind, block in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        if named := [match[1] for line in text.splitlines() if (match := _FILE.match(line))]:
            path = folder / named[-1]
        if kind == "python":
            path.write_text(block)
        elif kind == "diff":
            lines = block.splitlines(keepends=True)
            before, after = (
                "".join(one[1:] for one in lines if one[0] in (" ", sign)) for sign in "-+"
            )
            whole = path.read_text()
            assert whole.count(before) == 1, before
            path.write_text(whole.replace(before, after))
        elif kind == "sh":
            commands += block.splitlines()
    return commands


@pytest.mark.process
def test_a_tool_that_is_added_as_the_page_says_is_generated_and_answers(tmp_path: Path) -> None:
    for name in _COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=_LEFT)
    shutil.copy(ROOT / "README.md", tmp_path)
    commands = follow(PAGE, tmp_path)
    source = environment({"PYTHONPATH": str(tmp_path / "src")})

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=source, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert commands[0] == "make gen"
    run("scripts/gen.py")
    assert "### `count_moments`" in (tmp_path / "docs" / "reference" / "tools.md").read_text()
    program, *arguments = re.findall(r"'[^']*'|\S+", commands[1])
    assert program == ".venv/bin/pilothouse"
    told = run("-m", "pilothouse", *(one.strip("'") for one in arguments))
    assert re.search(r"^session: \d+$", told, re.MULTILINE), told
