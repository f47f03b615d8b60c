"""Real web apps for tests, each in a folder of its own, with its packages installed.

    python -m tests.support.apps            installs the packages of all apps
    python -m tests.support.apps --check    exits 1 if some are missing

The environment for exported tests (tests/support/exported) and the pages of MiniWoB++
(tests/support/miniwob) are installed with them.

Packages are installed once per lock file, by the set-up for tests, below the ignored folder
`.peers/`; a test copies a few source files and starts. The copy lies beside the packages, because
Node and npm look for node_modules in the folders above.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.apps.install import install_node, install_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
INSTALLED = ROOT / ".peers" / "apps"
NODE_APPS = ("vite", "react", "next")
PYTHON_APPS = ("flask", "django", "uvicorn")
EXPORTED_LOCK = HERE.parent / "exported" / "requirements.lock"
"""What the tests that a session is exported as are run with."""
MINIWOB_LOCK = HERE.parent / "miniwob" / "requirements.lock"

type Install = Callable[[Path, Path], None]


@contextmanager
def app_folder(name: str) -> Iterator[Path]:
    """Make a fresh copy of an app that can be started at once; gone when the block ends."""
    lock = _lock_of(name)
    base = _folder_of(lock) if lock else None
    assert base is None or _is_done(base), "the apps' packages are missing: scripts/setup --tests"
    # Short, because some of what runs there makes sockets below it.
    with tempfile.TemporaryDirectory(prefix="a", dir=base, ignore_cleanup_errors=True) as made:
        folder = Path(made) / name
        shutil.copytree(
            HERE / name, folder, ignore=shutil.ignore_patterns("__pycache__", "package-lock.json")
        )
        if base is not None and name in PYTHON_APPS:
            (folder / ".venv").symlink_to(base / ".venv")
        yield folder


def python_of(lock: Path) -> Path:
    """Return the interpreter of the environment that a requirements file describes."""
    base = _folder_of(lock)
    assert _is_done(base), f"the packages of {lock} are missing: scripts/setup --tests"
    return base / ".venv" / "bin" / "python"


def are_installed() -> bool:
    """Tell whether the packages of every app are there."""
    return all(_is_done(_folder_of(lock)) for lock in _installers())


def install_all() -> None:
    """Install what is missing.

    Raises:
        NotInstalled: a package manager is missing or failed.
    """
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for lock, install in _installers().items():
        folder = _folder_of(lock)
        with open(folder.with_suffix(".lock"), "w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if not _is_done(folder):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                install(lock, folder)
                (folder / "done").touch()


def _installers() -> dict[Path, Install]:
    node: dict[Path, Install] = {
        HERE / name / "package-lock.json": install_node for name in NODE_APPS
    }
    python = (HERE / "requirements.lock", EXPORTED_LOCK, MINIWOB_LOCK)
    return {**node, **dict.fromkeys(python, install_python)}


def _lock_of(name: str) -> Path | None:
    if name in PYTHON_APPS:
        return HERE / "requirements.lock"
    return HERE / name / "package-lock.json" if name in NODE_APPS else None


def _folder_of(lock: Path) -> Path:
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return INSTALLED / digest


def _is_done(folder: Path) -> bool:
    return (folder / "done").exists()
