"""The facts about this machine and the measured versions that a result is worth nothing without."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from bench import peers
from pilothouse.machine.chromium.finder import find_browser


def machine_facts() -> dict[str, str | int]:
    """To be read before measuring: the load is what others did to the machine, not the bench."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cpus": os.cpu_count() or 1,
        "memory_mib": _memory_mib(),
        "python": platform.python_version(),
        "node": _node_version(),
        "browser": _browser_version(),
        "load_1min": f"{os.getloadavg()[0]:.2f}",
    }


def contender_versions() -> dict[str, str]:
    contenders = (
        peers.PILOTHOUSE,
        peers.BARE_SDK,
        peers.BARE_WEBSOCKET,
        peers.PLAYWRIGHT,
        peers.DEVTOOLS,
    )
    return {name: peers.version(name) for name in contenders}


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")


def _node_version() -> str:
    return _version_told_by(shutil.which("node"))


def _browser_version() -> str:
    browser = find_browser(os.environ)
    return _version_told_by(None if browser is None else str(browser.path))


def _version_told_by(program: str | None) -> str:
    if program is None:
        return "not installed"
    told = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    # Debian's Chromium adds where it was built.
    return told.partition(" built on ")[0].strip()
