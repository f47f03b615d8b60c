"""Missing dependencies: recognised in a server's last words, with what installs them.

The command is that of the project's own package manager, found out from its files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pilothouse.e2e.app_server.detect import ENVIRONMENTS, Package, source_text

if TYPE_CHECKING:
    from pathlib import Path

_PYTHON = re.compile(r"No module named ['\"]?(?P<name>\w+)")
_NODE = re.compile(r"Cannot find (?:module|package) ['\"](?P<name>(?:@[\w.-]+/)?\w[\w.-]*)")
_PROGRAM = re.compile(
    r"^(?:sh|bash|/bin/sh)?:?\s*(?:line )?(?:\d+:\s*)?(?P<name>[\w.-]+): (?:command )?not found$",
    re.MULTILINE,
)
_REQUIREMENTS = ("requirements.txt", "requirements-dev.txt", "requirements.in")
_PYTHON_MANAGERS = {
    "uv.lock": ("uv sync", "uv add"),
    "poetry.lock": ("poetry install", "poetry add"),
    "Pipfile": ("pipenv install", "pipenv install"),
}


def install_hint(said: str, folder: Path) -> str:
    """Return what installs the dependency that is missing; empty where none seems to be."""
    package = Package(folder)
    manager, _ = package.manager
    if package.needs_install:
        return f"Run `{manager} install` in {folder} first: there is no node_modules folder."
    found = _NODE.search(said)
    if found and package.is_there:
        name = found["name"]
        if name in package.dependencies:
            return f"{name} is not installed: run `{manager} install` in {folder}."
        add = "install" if manager == "npm" else "add"
        return f"{name} is no dependency of package.json: run `{manager} {add} {name}` in {folder}."
    found = _PROGRAM.search(said)
    if found and package.is_there:
        return f"{found['name']} is not installed: run `{manager} install` in {folder}."
    found = _PYTHON.search(said)
    return _python_hint(found["name"], folder) if found else ""


def _python_hint(name: str, folder: Path) -> str:
    lock = next((lock for lock in _PYTHON_MANAGERS if (folder / lock).is_file()), "")
    listed = next((file for file in _REQUIREMENTS if (folder / file).is_file()), "")
    install, add = _PYTHON_MANAGERS.get(lock, (f"{_pip(folder)} -r {listed}", _pip(folder)))
    declared = _plain(
        "".join(source_text(folder / file) for file in (lock, listed, "pyproject.toml"))
    )
    if _plain(name) in declared and (lock or listed):
        return f"{name} is not installed: run `{install}` in {folder}."
    return (
        f"If {name} is a package, run `{add} {name}` in {folder}; if it is the app's own, mend it."
    )


def _pip(folder: Path) -> str:
    """Return the words that install into the app's own environment."""
    for environment in ENVIRONMENTS:
        facts = source_text(folder / environment / "pyvenv.cfg")
        if re.search(r"^uv\s*=", facts, re.MULTILINE):
            return "uv pip install"  # such an environment has no pip of its own
        if facts:
            return f"{environment}/bin/python -m pip install"
    return "python3 -m pip install"


def _plain(text: str) -> str:
    return text.lower().replace("-", "_")
