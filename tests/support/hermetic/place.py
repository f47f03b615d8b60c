"""A home, a state folder and a folder for temporary files that belong to one test or rig."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.core.settings import SETTINGS
from tests.support.hermetic import guard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[3]
LONGEST = 24
"""Bytes of a place's path at the most: a unix socket has 108 for its whole name, and Chromium and
Pilothouse put theirs into folders with long names."""

# What a test may know of the machine. All else is the user's own: settings, secrets, agents.
_KEPT = ("CI", "COLORTERM", "LANG", "LANGUAGE", "PATH", "PYENV_ROOT", "TERM", "TZ", "VIRTUAL_ENV")
_KEPT_OF_TESTS = ("PILOTHOUSE_CHAOS", "PILOTHOUSE_PICTURES", "PILOTHOUSE_WRITE_PICTURES")
_KEPT_FAMILIES = ("HYPOTHESIS_", "LC_", "NPM_CONFIG_", "PIP_", "PYTEST_", "PYTHON", "UV_", "npm_")
_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE")
_PORTS = ("HTTP", "BOOKMARKS", "CONFIG", "REST")
_DECLARED = {variable for setting in SETTINGS for variable in setting.about.env}


@dataclass(frozen=True)
class Place:
    """The folders of one test or rig, below a path that is short enough for sockets."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "h"

    @property
    def state(self) -> Path:
        return self.root / "s"

    @property
    def temp(self) -> Path:
        return self.root / "t"

    @property
    def report(self) -> Path:
        """File with what the guard has refused here."""
        return self.root / "refused"

    def variables(self) -> dict[str, str]:
        """Return what makes a process live here and nowhere else."""
        home = self.home
        return {
            "HOME": str(home),
            "PILOTHOUSE_HOME": str(self.state),
            "TMPDIR": str(self.temp),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local" / "share"),
            "XDG_RUNTIME_DIR": str(self.root / "r"),
            "XDG_STATE_HOME": str(home / ".local" / "state"),
            guard.REPORT: str(self.report),
            **{f"PILOTHOUSE_{name}_PORT": "0" for name in _PORTS},
        }

    @property
    def is_empty(self) -> bool:
        """Whether nothing was put here and nothing was refused."""
        folders = [self.home, self.state, self.temp, self.root / "r"]
        return len(os.listdir(self.root)) == len(folders) and not any(map(os.listdir, folders))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this process, and those that it starts, live here until the block ends."""
        before = dict(os.environ)
        temp_before = tempfile.tempdir
        os.environ.update(self.variables())
        tempfile.tempdir = str(self.temp)
        try:
            yield
        finally:
            tempfile.tempdir = temp_before
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def make_place(root: Path) -> Place:
    """Make the folders of a place at a path that does not exist yet."""
    assert len(os.fsencode(root)) <= LONGEST, f"too long for sockets: {root}"
    place = Place(root)
    # Others may pass, for the tests that try it as another user, but not look around.
    root.mkdir(mode=0o711)
    place.temp.mkdir(mode=0o711)
    for folder in (place.home, place.state, root / "r"):
        folder.mkdir(mode=0o700)
    return place


def neutral_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what tests may know of the machine: programs, language, package managers' settings."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in (*_KEPT, *_KEPT_OF_TESTS, *_CERTIFICATES) or name.startswith(_KEPT_FAMILIES)
    }
    for name in _DECLARED:
        kept.pop(name, None)
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    site = Path(__file__).parent / "site"
    kept["PYTHONPATH"] = os.pathsep.join(map(str, (site, ROOT / "src", ROOT)))
    kept[guard.FOLDERS] = os.pathsep.join(map(str, user_folders(home, environ)))
    return {**_package_managers(home, environ), **kept}


def user_folders(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the user's own folders that no test may open."""

    def base(variable: str, fallback: str) -> Path:
        given = environ.get(variable, "")
        return Path(given) if os.path.isabs(given) else home / fallback

    config, cache = base("XDG_CONFIG_HOME", ".config"), base("XDG_CACHE_HOME", ".cache")
    browsers = ("chromium", "google-chrome", "microsoft-edge")
    return [
        config / "pilothouse",
        base("XDG_DATA_HOME", ".local/share") / "pilothouse",
        base("XDG_STATE_HOME", ".local/state"),
        base("XDG_RUNTIME_DIR", ".run") / "pilothouse",
        *(folder / name for folder in (config, cache) for name in browsers),
        *(Path(given).absolute() for given in [environ.get("PILOTHOUSE_HOME", "")] if given),
    ]


def _package_managers(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return where npm, pip, uv and Playwright find their own things once HOME is another."""
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    places = {
        "NPM_CONFIG_CACHE": home / ".npm",
        "NPM_CONFIG_USERCONFIG": home / ".npmrc",
        "PIP_CACHE_DIR": cache / "pip",
        "PIP_CONFIG_FILE": config / "pip" / "pip.conf",
        "PLAYWRIGHT_BROWSERS_PATH": cache / "ms-playwright",
        "PYENV_ROOT": home / ".pyenv",
        "UV_CACHE_DIR": cache / "uv",
        "UV_CONFIG_FILE": config / "uv" / "uv.toml",
    }
    return {name: str(path) for name, path in places.items() if path.exists()}
