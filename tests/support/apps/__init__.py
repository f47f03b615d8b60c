"""Real web apps for tests, each in a folder of its own, with its packages installed.

Packages are installed once per lock file, into the user's cache, and stay there: a later run
copies a few source files and starts. A copy lies beside the packages, because Node and npm look
for node_modules in the folders above.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NODE_APPS = ("vite", "next")
PYTHON_APPS = ("flask", "django", "uvicorn")
INSTALL_S = 600


@contextmanager
def app_folder(name: str) -> Iterator[Path]:
    """A fresh copy of an app that can be started at once; gone when the block ends."""
    if name in NODE_APPS:
        base = _installed(HERE / name / "package-lock.json", _install_node)
    elif name in PYTHON_APPS:
        base = _installed(HERE / "requirements.lock", _install_python)
    else:
        base = None
    # Short, because some of what runs there makes sockets below it.
    with tempfile.TemporaryDirectory(prefix="a", dir=base, ignore_cleanup_errors=True) as made:
        folder = Path(made) / name
        shutil.copytree(
            HERE / name, folder, ignore=shutil.ignore_patterns("__pycache__", "package-lock.json")
        )
        if base is not None and name in PYTHON_APPS:
            (folder / ".venv").symlink_to(base / ".venv")
        yield folder


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pilothouse-tests"


def _installed(lock: Path, install: Callable[[Path, Path], None]) -> Path:
    """The folder with the packages of a lock file, made if it is missing."""
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = _cache() / digest
    _cache().mkdir(parents=True, exist_ok=True)
    # Two workers of one run come here at the same time.
    with open(_cache() / f"{digest}.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(lock, folder)
            (folder / "done").touch()
    return folder


def _install_node(lock: Path, folder: Path) -> None:
    npm = shutil.which("npm") or pytest.skip("npm is not installed: Node.js brings it")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(lock.with_name(name), folder)
    # Not `npm ci`: a registry may lack the optional packages of other systems, and the lock file
    # then lacks them too, which `npm ci` takes for a mistake.
    _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], folder)


def _install_python(lock: Path, folder: Path) -> None:
    uv = shutil.which("uv") or shutil.which(ROOT / ".tools" / "uv" / "bin" / "uv")
    python = str(folder / ".venv" / "bin" / "python")
    if uv:
        _run([uv, "venv", "--no-project", "--python", sys.executable, ".venv"], folder)
        install = [uv, "pip", "install", "--python", python]
    else:
        _run([sys.executable, "-m", "venv", ".venv"], folder)
        install = [python, "-m", "pip", "install", "--quiet"]
    _run([*install, "--require-hashes", "-r", str(lock)], folder)


def _run(command: list[str], folder: Path) -> None:
    env = dict(os.environ)
    if "PIP_INDEX_URL" in env:
        env.setdefault("UV_DEFAULT_INDEX", env["PIP_INDEX_URL"])
    ran = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INSTALL_S,
    )
    if ran.returncode != 0:
        said = ran.stdout.strip()[-500:]
        pytest.skip(f"{Path(command[0]).name} could not install the app's packages: … {said}")
