"""Which code is a session's own: the scripts and modules that really lie in its folders.

A listed interpreter would run any file of the machine, and Python any module that is installed, pip
among them. So both are looked up as the interpreter would do it, and judged by the end of every
link. What a package manager put below the project is not the project's own.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.e2e.app_server.detect import ENVIRONMENTS, Package, source_text
from pilothouse.e2e.app_server.frameworks import PLACEHOLDER
from pilothouse.e2e.command_policy.program_file import SETTING, entries_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOTS_SETTING = "PILOTHOUSE_ROOTS"

# The ends of links that every process has for itself: ours say nothing about those of a child.
_OF_A_PROCESS = re.compile(r"/proc(/|$)|/dev/(fd|std\w+|tty)(/|$)")
_INSTALLED = re.compile(r"/(site|dist)-packages(/|$)|/lib(32|64)?/(python|pypy)\d[\d.]*(/|$)")
_LOADED_BEFORE = frozenset(
    "abc codecs collections contextlib copyreg encodings enum functools genericpath importlib io"
    " keyword linecache locale ntpath nt operator os pkgutil posix posixpath re reprlib runpy site"
    " sitecustomize sre_compile sre_constants sre_parse stat sys sysconfig token tokenize types"
    " typing usercustomize warnings weakref zipimport".split()
) | {name for name in sys.stdlib_module_names if name.startswith("_")}.union(
    sys.builtin_module_names
)
"""Modules that Python has before it looks into the folder, in one version or another."""
_COMPILED = (".so", ".pyd")
_LEFT_OUT = frozenset(".js .cjs .mjs .jsx .ts .cts .mts .tsx .json .node .coffee".split())
"""Suffixes that Node.js and its like add to the name of a script."""


class Unfit(Exception):
    """Arguments that would have a listed program run something else than what was listed."""

    hint = f"Pass a script file or a script's name, or have the program itself listed in {SETTING}."
    setting = SETTING


class Outside(Unfit):
    """Code that does not lie in the folders of the session."""

    setting = ROOTS_SETTING

    def __init__(self, given: str, real: str, roots: Iterable[Path]) -> None:
        where = f" ({real})" if real != given else ""
        super().__init__(f"{given}{where} lies outside the folders of this session")
        folders = ", ".join(dict.fromkeys(map(str, roots)))
        self.hint = (
            f"Use code in {folders}, or start Pilothouse where it lies, or add its folder to"
            f" {ROOTS_SETTING}."
        )


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """The folder in which a command runs, and those from which it may take code."""

    cwd: Path
    roots: tuple[Path, ...]
    search_path: str = ""
    """PATH, by which some programs find others."""
    programs: tuple[Path, ...] = ()
    """The program that is judged, by each of its paths: its packages lie beside it."""

    def check_inside(self, given: str, base: Path | None = None) -> Path:
        """Return the whole path of a file or folder, which may not be there yet.

        Raises:
            Unfit: nobody can say yet what that will be.
            Outside: it does not lie in the folders of the session.
        """
        if PLACEHOLDER in given:
            raise Unfit(f"{given} could be any file once it has its port")
        path = Path(os.path.join(base or self.cwd, given))
        try:
            seen = [path, *entries_of(Path(os.path.join("/", path)))]
        except OSError as error:
            raise Unfit(f"{given} leads nowhere: {error}") from None
        real = os.path.realpath(path)
        if (
            given.startswith("~")
            or any(_OF_A_PROCESS.match(str(entry)) for entry in (*seen, Path(real)))
            or not any(Path(real).is_relative_to(os.path.realpath(root)) for root in self.roots)
        ):
            raise Outside(given, real, self.roots)
        return path

    def check_script(self, given: str) -> Path:
        """Return the whole path of a script, with all that an interpreter may take for it.

        Raises:
            Unfit, Outside
        """
        path = self.check_inside(given)
        for candidate in (path, *_instead_of(path)):
            self.check_inside(str(candidate))
            try:
                mode = candidate.stat().st_mode
            except OSError:
                continue  # the interpreter says so itself
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise Unfit(f"{given} is not a file")
        return path

    def has_module(self, dotted: str, base: Path | None = None, *, first: bool = True) -> bool:
        """Tell whether `python -m` takes a module from the folder in which it runs.

        Or from `base` instead, which Python may have only after its packages, if not `first`.

        Raises:
            Unfit: not the name of a module.
            Outside: it would, but the module lies elsewhere.
        """
        top, *inner = dotted.split(".")
        if not all(part.isidentifier() for part in (top, *inner)):
            raise Unfit(f"{dotted!r} is not the name of a module")
        base = base or self.cwd
        regular, there = self._import(base, top)
        if not there or is_installed(base):
            return False
        # A folder without __init__.py comes after every package of that name.
        if top in _LOADED_BEFORE or (not (regular and first) and self._is_installed_too(top)):
            return False
        folder = base / top
        for part in inner:
            more, there = self._import(folder, part)
            regular = regular or more
            if not there:
                return regular  # a package may look for its parts where it likes
            folder /= part
        if folder.is_dir():
            return self._import(folder, "__main__")[1] or regular
        return True

    def declares(self, name: str) -> bool:
        """Tell whether the project itself says what a name runs, or has installed it."""
        if name in Package(self.cwd).scripts:
            return True
        places = [*(self.cwd / env / "bin" for env in ENVIRONMENTS), self.cwd / "node_modules/.bin"]
        if any(os.path.exists(place / name) for place in places):
            return True
        said = re.compile(rf"^\s*[\"']?{re.escape(name)}[\"']?\s*=", re.MULTILINE)
        files = (self.cwd / "pyproject.toml", self.cwd / "Pipfile")
        return any(said.search(source_text(file)) for file in files)

    def on_search_path(self, name: str) -> bool:
        """Tell whether PATH has a file of this name."""
        folders = filter(None, self.search_path.split(":"))
        return any(os.path.isfile(Path(folder, name)) for folder in folders)

    def _import(self, folder: Path, name: str) -> tuple[bool, bool]:
        """Return whether a folder has a module that is more than a bare folder, and whether any."""
        found = list(_modules(folder, name))
        for path in found:
            self.check_inside(str(path))
        return any(not os.path.isdir(path) for path in found), bool(found)

    def _is_installed_too(self, name: str) -> bool:
        if name in sys.stdlib_module_names:
            return True
        prefixes = {path.parents[1] for path in self.programs if len(path.parents) > 1}
        prefixes |= {Path(os.path.realpath(path)).parents[1] for path in self.programs}
        prefixes |= {self.cwd / env for env in ENVIRONMENTS}
        prefixes.add(Path("~/.local").expanduser())
        folders = [
            folder
            for prefix in prefixes
            for pattern in ("lib*/p*/*-packages", "local/lib*/p*/*-packages")
            for folder in prefix.glob(pattern)
        ]
        return any(not os.path.isdir(path) for folder in folders for path in _modules(folder, name))


def is_installed(path: Path) -> bool:
    """Tell whether a package manager put this into a Python environment."""
    for one in {path, Path(os.path.realpath(path))}:
        folder = one.parent
        if _INSTALLED.search(str(one)):
            return True
        if folder.name in ("bin", "Scripts") and (folder.parent / "pyvenv.cfg").is_file():
            return True
    return False


def _instead_of(path: Path) -> Iterator[Path]:
    """Yield what interpreters run for a folder, or for a name without its suffix."""
    name, folder = ("index", path) if os.path.isdir(path) else (path.name, path.parent)
    if os.path.isfile(path):
        return
    for entry in _entries(folder, name):
        if entry.suffix in _LEFT_OUT and entry.name == name + entry.suffix:
            yield entry
    if folder == path:
        yield from _entries(folder, "__main__")


def _modules(folder: Path, name: str) -> Iterator[Path]:
    """Yield what Python would take for a module: files, or a folder with its __init__ if any."""
    for entry in _entries(folder, name):
        if entry.name == name and entry.is_dir():
            yield entry
            yield from _modules(entry, "__init__")
        elif entry.name in (f"{name}.py", f"{name}.pyc") or (
            entry.name != name and entry.suffix in _COMPILED
        ):
            yield entry


def _entries(folder: Path, name: str) -> list[Path]:
    """Return what a folder has of this name, with any suffix, in order."""
    try:
        with os.scandir(folder) as entries:
            # Only these, since some folders have thousands.
            found = [one.name for one in entries if f"{one.name}.".startswith(f"{name}.")]
    except OSError:
        return []
    return [folder / one for one in sorted(found)]
