"""Packages of npm that tests and benchmarks use, from pinned lock files.

    python -m tests.support.npm        installs those that the tests use
    python -m tests.support.npm web    installs what the dashboard's page is built with

Each set is described by a folder of the project, and installed in the ignored folder `.peers/`,
without running any script of its packages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"
TYPESCRIPT = ROOT / "tests" / "support" / "typescript"
WEB = ROOT / "web"
SETS = {ROOT / "bench": PEERS, TYPESCRIPT: PEERS / "typescript", WEB: PEERS / "web"}
"""What the tests use: where it is described, and where it is installed."""
LOCK = "package-lock.json"


class NotInstalled(Exception):
    """A set of packages could not be installed; the message says what would help."""


def is_installed(described: Path, target: Path) -> bool:
    """Whether exactly what the lock file says is there."""
    # npm writes this file last, so its presence means that an installation went through.
    finished = target / "node_modules" / f".{LOCK}"
    same = finished.exists() and (target / LOCK).is_file()
    return same and (target / LOCK).read_bytes() == (described / LOCK).read_bytes()


def install(described: Path, target: Path) -> Path:
    """The folder of the packages, installed unless they are there. Raises NotInstalled."""
    modules = target / "node_modules"
    if is_installed(described, target):
        return modules
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not on PATH: install Node.js 20.19 or newer, with npm")
    target.mkdir(parents=True, exist_ok=True)
    (modules / f".{LOCK}").unlink(missing_ok=True)
    for name in ("package.json", LOCK, ".npmrc"):
        shutil.copyfile(described / name, target / name)
    done = subprocess.run(
        [npm, "ci", "--ignore-scripts"], cwd=target, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = done.stderr.strip()[-600:]
        raise NotInstalled(f"`npm ci --ignore-scripts` in {target} failed:\n{said}")
    return modules


def link_web() -> None:
    """Tools look for packages beside the sources; an own `npm ci` there is left alone."""
    here = WEB / "node_modules"
    if here.is_symlink() or not here.exists():
        here.unlink(missing_ok=True)
        here.symlink_to(Path("..", SETS[WEB].relative_to(ROOT), "node_modules"))


def main(*names: str) -> int:
    try:
        for described, target in SETS.items():
            if not names or described.name in names:
                install(described, target)
        link_web()
    except NotInstalled as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
