"""How the packages of a test's app are installed: by npm, by uv or by pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INSTALL_S = 600


class NotInstalled(Exception):
    """A package manager is missing or failed; the message has its last words."""


def install_node(lock: Path, folder: Path) -> None:
    """Install an app's node_modules as its lock file has them."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed: Node.js brings it")
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(lock.with_name(name), folder)
    # Not `npm ci`: a registry may lack the optional packages of other systems, and the lock file
    # then lacks them too, which `npm ci` takes for a mistake.
    _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"], folder)


def install_python(lock: Path, folder: Path) -> None:
    """Install a virtual environment with what a requirements file names, by hash."""
    uv = shutil.which("uv") or shutil.which(ROOT / ".tools" / "uv" / "bin" / "uv")
    python = str(folder / ".venv" / "bin" / "python")
    if uv:
        _run([uv, "venv", "--no-project", "--python", sys.executable, ".venv"], folder)
        install = [uv, "pip", "install", "--python", python]
    else:
        _run([sys.executable, "-m", "venv", ".venv"], folder)
        install = [python, "-m", "pip", "install", "--quiet"]
    # The file names all there is to be: with a package that is used without what it needs, no more.
    _run([*install, "--require-hashes", "--no-deps", "-r", str(lock)], folder)


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
        raise NotInstalled(f"{Path(command[0]).name} failed in {folder}: … {said}")
