"""Finding the Chrome, Chromium or Edge that is on this machine.

The one that was named wins; without a name, what is installed comes before what Playwright
downloaded, because it is the browser that the user keeps up to date.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pilothouse.folders import home_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
class Browser:
    """A browser that can be run, and how it was found."""

    path: Path
    source: Source


def find_browser(environ: Mapping[str, str], explicit: str = "") -> Browser | None:
    """The browser to start, or None.

    A browser that is named, by `explicit` or else by the variable, is never replaced by another
    one: whoever names one wants to be told that it is missing.
    """
    named = explicit or environ.get(VARIABLE, "")
    if named:
        # which() takes paths as well as names, and refuses what is not executable.
        path = shutil.which(_expand(named, environ), path=_search_path(environ))
        return Browser(Path(path).absolute(), "named") if path else None
    return next(_candidates(environ), None)


def needs_no_sandbox() -> bool:
    """Whether Chromium starts only with --no-sandbox, because we are root on Linux."""
    return sys.platform.startswith("linux") and os.geteuid() == 0


def _candidates(environ: Mapping[str, str]) -> Iterator[Browser]:
    for program in PROGRAMS:
        path = shutil.which(program, path=_search_path(environ))
        if path:
            yield Browser(Path(path).absolute(), "PATH")
    home = home_folder(environ)
    if sys.platform == "darwin":
        for applications in (Path("/Applications"), home / "Applications"):
            for app in MAC_APPS:
                path_in_app = applications / f"{app}.app" / "Contents" / "MacOS" / app
                if _runnable(path_in_app):
                    yield Browser(path_in_app, "application")
    for downloads in _playwright_folders(environ, home):
        yield from (Browser(path, "Playwright") for path in _downloaded(downloads))


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
    """Chromiums that Playwright keeps in a folder, the newest revision first."""
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
    """`~/…` as a shell has it; a variable set in a client's JSON never saw one."""
    return str(home_folder(environ) / path[2:]) if path.startswith("~/") else path
