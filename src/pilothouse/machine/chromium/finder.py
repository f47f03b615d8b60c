"""Finding the Chrome, Chromium or Edge that is on this machine.

The one that was named wins; without a name, what is installed comes before what Playwright
downloaded, because it is the browser that the user keeps up to date.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pilothouse.machine.folders import home_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VARIABLE = "PILOTHOUSE_BROWSER"

PROGRAMS = (
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "chromium-browser",
    "microsoft-edge",
    "microsoft-edge-stable",
)
MAC_APPS = ("Google Chrome", "Chromium", "Microsoft Edge")

# With --remote-debugging-pipe Chromium reads descriptor 3 and exits at its end. Given our child's
# stdin as that descriptor, the end comes when we go away, however we do: no browser outlives us.
# Popen cannot renumber descriptors; a shell can.
WITH_LIFELINE = ("/bin/sh", "-c", 'exec "$0" "$@" 3<&0 4>/dev/null')

type Source = Literal["named", "PATH", "application", "Playwright"]


@dataclass(frozen=True, slots=True)
class InstalledBrowser:
    """A browser that can be run, and how it was found."""

    path: Path
    source: Source


def find_browser(environ: Mapping[str, str], explicit: str = "") -> InstalledBrowser | None:
    """Return the browser to start, or None.

    A browser that is named, by `explicit` or else by the variable, is never replaced by another
    one: whoever names one wants to be told that it is missing.
    """
    named = explicit or environ.get(VARIABLE, "")
    if named:
        # which() takes paths as well as names, and refuses what is not executable.
        path = shutil.which(_expand(named, environ), path=_search_path(environ))
        return InstalledBrowser(Path(path).absolute(), "named") if path else None
    return next(_candidates(environ), None)


def needs_no_sandbox() -> bool:
    """Tell whether Chromium starts only with --no-sandbox, because we are root on Linux."""
    return sys.platform.startswith("linux") and os.geteuid() == 0


def lend_ffmpeg(environ: Mapping[str, str], make_folder: Callable[[], Path]) -> dict[str, str]:
    """Return the variables by which Playwright's driver finds an ffmpeg to record videos with.

    Empty where it has downloaded its own, or where there is no other. The system's is linked to
    where the driver looks, in a folder of ours, beside links to all that Playwright downloaded.

    Raises:
        OSError: the folder cannot be written.
    """
    looked_for = _ffmpeg_download()
    downloads = next(_playwright_folders(environ, home_folder(environ)), None)
    if looked_for is None or (downloads and (downloads / looked_for).exists()):
        return {}
    program = shutil.which("ffmpeg", path=_search_path(environ))
    if program is None:
        return {}
    folder = make_folder()
    if downloads and downloads.is_dir():
        for download in downloads.iterdir():
            if download.name != looked_for.parent.name:
                _link(folder / download.name, download)
    (folder / looked_for.parent).mkdir(exist_ok=True)
    _link(folder / looked_for, Path(program))
    return {"PLAYWRIGHT_BROWSERS_PATH": str(folder)}


def _ffmpeg_download() -> Path | None:
    """Return where Playwright has its ffmpeg, below the folder of its downloads."""
    spec = importlib.util.find_spec("playwright")
    for package in (spec and spec.submodule_search_locations) or ():
        listed = json.loads((Path(package) / "driver" / "package" / "browsers.json").read_bytes())
        for one in listed["browsers"]:
            if one["name"] == "ffmpeg":
                system = "mac" if sys.platform == "darwin" else "linux"
                return Path(f"ffmpeg-{one['revision']}") / f"ffmpeg-{system}"
    return None


def _link(path: Path, target: Path) -> None:
    """Make or renew a link; another worker of the same home may do the same at this moment."""
    if path.is_symlink() and path.readlink() == target:
        return
    made = path.with_name(f".{path.name}.{os.getpid()}")
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    made.replace(path)


def _candidates(environ: Mapping[str, str]) -> Iterator[InstalledBrowser]:
    for program in PROGRAMS:
        path = shutil.which(program, path=_search_path(environ))
        if path:
            yield InstalledBrowser(Path(path).absolute(), "PATH")
    home = home_folder(environ)
    if sys.platform == "darwin":
        for applications in (Path("/Applications"), home / "Applications"):
            for app in MAC_APPS:
                path_in_app = applications / f"{app}.app" / "Contents" / "MacOS" / app
                if _runnable(path_in_app):
                    yield InstalledBrowser(path_in_app, "application")
    for downloads in _playwright_folders(environ, home):
        yield from (InstalledBrowser(path, "Playwright") for path in _downloaded(downloads))


def _playwright_folders(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    chosen = environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if chosen == "0":  # Playwright's own spelling of "inside the package"
        spec = importlib.util.find_spec("playwright")
        for package in (spec and spec.submodule_search_locations) or ():
            yield Path(package) / "driver" / "package" / ".local-browsers"
    elif chosen:
        yield Path(chosen)
    elif sys.platform == "darwin":
        yield home / "Library" / "Caches" / "ms-playwright"
    else:
        yield Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "ms-playwright"


def _downloaded(folder: Path) -> list[Path]:
    """Return the Chromiums that Playwright keeps in a folder, the newest revision first."""
    if sys.platform == "darwin":
        found = folder.glob("chromium-*/chrome-mac*/*.app/Contents/MacOS/*")
    else:
        found = folder.glob("chromium-*/chrome-linux*/chrome")

    def revision(path: Path) -> int:
        digits = re.match(r"chromium-(\d+)", path.relative_to(folder).parts[0])
        return int(digits.group(1)) if digits else 0

    return sorted(filter(_runnable, found), key=revision, reverse=True)


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _search_path(environ: Mapping[str, str]) -> str:
    return environ.get("PATH", os.defpath)


def _expand(path: str, environ: Mapping[str, str]) -> str:
    """Expand `~/…` as a shell does; a variable set in a client's JSON never saw one."""
    return str(home_folder(environ) / path[2:]) if path.startswith("~/") else path
