"""Finds out how the app of a folder is started, from its files: they are read and never run."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pilothouse.e2e.app_server.frameworks import (
    PLACEHOLDER,
    WATCHERS,
    framework_of,
    port_in,
    program,
    unwrapped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SCRIPTS = ("dev", "start", "serve", "preview")
"""The scripts of a package.json that serve, best first."""
LOCK_FILES = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
}
MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
ENVIRONMENTS = (".venv", "venv", "env")
MAX_FILE = 1_000_000
WORKSPACES = ("packages", "apps")
"""Folders in which the apps of a repository lie that has several."""
MAX_NESTING = 4
"""Most scripts that run each other, one below the other."""

_APPS = ("app.py", "main.py", "wsgi.py", "asgi.py", "server.py", "__init__.py")
_APP = re.compile(
    r"^(?P<name>\w+)(?:\s*:[^=\n]+)?\s*=\s*(?:\w+\.)*(?P<kind>FastAPI|Flask|Starlette|Quart)\(",
    re.MULTILINE,
)
_FACTORY = re.compile(r"^def (?P<name>create_app|make_app)\(", re.MULTILINE)
_SEPARATORS = re.compile(r"&&|\|\||[;&|]")
_SHELL = re.compile(r"[;&|<>`*?~]|\$\(")


@dataclass(frozen=True, slots=True)
class StartPlan:
    """A command that starts an app, and why it is this one."""

    argv: tuple[str, ...]
    why: str
    """Reason for the command, as a sentence."""
    others: tuple[str, ...] = ()
    """Other commands that would have been possible, as one would type them."""
    missing: str = ""
    """Step that has to be done first, where that can be seen."""


class Package:
    """A package.json: scripts and the manager that runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            found = json.loads(source_text(folder / "package.json") or "{}")
        except (ValueError, RecursionError):
            found = None
        self.is_readable = isinstance(found, dict)
        self._content: dict[str, Any] = found if isinstance(found, dict) else {}

    @cached_property
    def scripts(self) -> dict[str, str]:
        scripts = self._content.get("scripts")
        pairs = scripts.items() if isinstance(scripts, dict) else ()
        return {name: text for name, text in pairs if isinstance(text, str) and text.strip()}

    @cached_property
    def manager(self) -> tuple[str, str]:
        """Name of the manager (npm, pnpm, yarn or bun), and what says so."""
        named = str(self._content.get("packageManager", "")).partition("@")[0]
        if named in MANAGERS:
            return named, '"packageManager"'
        # In a workspace the lock file lies further up, at most at the root of the repository.
        for folder in (self.folder, *self.folder.parents[:5]):
            for lock, manager in LOCK_FILES.items():
                if (folder / lock).is_file():
                    return manager, lock
            if (folder / ".git").exists():
                break
        return "npm", "no lock file of another manager"

    @property
    def is_there(self) -> bool:
        return (self.folder / "package.json").is_file()

    @cached_property
    def dependencies(self) -> frozenset[str]:
        """Names of the packages that it asks for."""
        kinds = (self._content.get(kind) for kind in ("dependencies", "devDependencies"))
        return frozenset(name for kind in kinds if isinstance(kind, dict) for name in kind)

    @property
    def needs_install(self) -> bool:
        wanted = bool(self.dependencies)
        places = ((folder / "node_modules") for folder in (self.folder, *self.folder.parents[:5]))
        plug_and_play = (self.folder / ".pnp.cjs").exists()
        return wanted and not plug_and_play and not any(place.is_dir() for place in places)


def detect(folder: Path) -> StartPlan | None:
    """Return how to start the app of a folder; None if nothing in it says so."""
    folder = folder.absolute()
    plans = [*_scripts(folder), *_django(folder), *_python_apps(folder)]
    plans += [*_procfile(folder), *_static(folder)]
    if not plans:
        return None
    first, *others = plans
    shown = tuple(dict.fromkeys(shlex.join(other.argv) for other in others))
    return StartPlan(first.argv, first.why, shown, first.missing)


def why_none(folder: Path) -> tuple[str, list[str]]:
    """Return why nothing in a folder says how to start its app, and which folders below it do."""
    said = []
    if (folder / "package.json").is_file():
        package = Package(folder)
        has = ", ".join(list(package.scripts)[:10]) or "none"
        said.append(
            f"package.json has no script {', '.join(SCRIPTS)} that serves (scripts: {has})"
            if package.is_readable
            else "package.json is not a JSON object"
        )
    if (folder / "Procfile").is_file():
        said.append("Procfile has no line `web:` that can be run without a shell")
    below = _folders(folder)
    for name in WORKSPACES:
        below += _folders(folder / name)
    places = [path.relative_to(folder).as_posix() for path in below if detect(path)]
    nothing = "no package.json, manage.py, Python app, Procfile or index.html"
    return "; ".join(said) or nothing, places[:5]


def fixed_port(argv: Sequence[str]) -> int:
    """Return the port that whoever wrote the command chose in it, or 0."""
    return 0 if any(PLACEHOLDER in word for word in argv) else port_in(argv)


def with_port(argv: Sequence[str], port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves on this port, and what its environment needs for that."""
    # Some open a window of the user's own browser, which nobody asked for.
    env = {"PORT": str(port), "BROWSER": "none"}
    if any(PLACEHOLDER in word for word in argv):
        return [word.replace(PLACEHOLDER, str(port)) for word in argv], env
    if fixed_port(argv):
        return list(argv), env
    flags, extra = _additions(argv, Package(_package_folder(argv, folder)))
    return [*argv, *(flag.replace(PLACEHOLDER, str(port)) for flag in flags)], {**env, **extra}


def local_program(argv: Sequence[str], folder: Path) -> list[str]:
    """Return the command, its bare name made the path of the folder's own program of that name.

    Its virtual environment or its node_modules know the app's packages; those on PATH do not. But
    an npm among a project's packages is some old one that another package brought along.
    """
    name = argv[0]
    if "/" in name or name in ("npm", "npx"):
        return list(argv)
    folder = folder.absolute()
    for environment in ENVIRONMENTS:
        names = (name, "python") if program(name) == "python" else (name,)
        for candidate in (folder / environment / "bin" / each for each in names):
            # Of the names that are given, some are longer than any that a system takes.
            if (folder / environment / "pyvenv.cfg").is_file() and os.path.isfile(candidate):
                return [str(candidate), *argv[1:]]
    installed = folder / "node_modules" / ".bin" / name
    return [str(installed), *argv[1:]] if os.path.isfile(installed) else list(argv)


# How arguments get through scripts


def _additions(
    words: Sequence[str], package: Package, depth: int = 0
) -> tuple[list[str], dict[str, str]]:
    """Return the flags and variables by which the server that a command starts gets its port."""
    inner = unwrapped(words)
    if not inner or depth > MAX_NESTING:
        return [], {}
    manager = program(inner[0])
    if manager in MANAGERS:
        name, rest = _script_of(inner, package)
        if name:
            command = _last_command(package.scripts[name])
            flags, env = _additions(command, package, depth + 1)
            # npm keeps flags to itself unless they follow `--`; the others hand everything on,
            # and would hand on the `--` as well.
            if flags and manager == "npm" and "--" not in inner:
                flags = ["--", *flags]
            return flags, env
        return _additions(rest, package, depth + 1)
    known = framework_of(inner)
    return ([*known.flags], {**known.env}) if known else ([], {})


def _script_of(words: Sequence[str], package: Package) -> tuple[str, Sequence[str]]:
    """Return the script that a package manager is to run, or the program's command line."""
    manager = program(words[0])
    rest = list(words[1:])
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        if flag in ("--prefix", "-C", "--dir", "--cwd"):
            rest = rest[1:]
        elif flag.partition("=")[0] in ("--workspace", "-w", "--filter", "-F", "--workspaces"):
            return "", ()  # a script of another package, whose file is not this one
    if any(word.partition("=")[0] in ("--workspace", "-w") for word in rest):
        return "", ()
    if rest[:1] in (["run"], ["run-script"]):
        rest = [word for word in rest[1:] if word != "--bun"]
    elif rest[:1] in (["exec"], ["dlx"], ["x"]):
        # `npm exec` takes flags as its own, as `npm run` does.
        return "", () if manager == "npm" and "--" not in rest else [
            w for w in rest[1:] if w != "--"
        ]
    elif manager == "npm" and rest[:1] not in (["start"], ["test"]):
        return "", ()
    if rest and rest[0] in package.scripts:
        return rest[0], ()
    return "", rest if manager != "npm" else ()


def _package_folder(argv: Sequence[str], folder: Path) -> Path:
    """Return the folder of the package.json that a manager was pointed to."""
    for at, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        if flag in ("--prefix", "-C", "--dir", "--cwd") and program(argv[0]) in MANAGERS:
            return folder / (value if equals else "".join(argv[at + 1 : at + 2]))
    return folder


def _last_command(script: str) -> list[str]:
    """Return what a script runs last, which is where appended arguments arrive."""
    try:
        return shlex.split(_SEPARATORS.split(script)[-1])
    except ValueError:
        return []  # an operator inside quotes: arguments would end up in the quotes' command


# What a folder may hold


def _scripts(folder: Path) -> Iterator[StartPlan]:
    package = Package(folder)
    manager, because = package.manager
    for name in SCRIPTS:
        script = package.scripts.get(name, "")
        words = unwrapped(_last_command(script)) if script else []
        if not script or (words and program(words[0]) in WATCHERS):
            continue
        why = f'package.json has a script "{name}" ({script}), run with {manager} ({because}).'
        missing = f"Run `{manager} install` first: there is no node_modules folder."
        run = (manager, "start") if name == "start" and manager != "bun" else (manager, "run", name)
        yield StartPlan(run, why, missing=missing if package.needs_install else "")


def _django(folder: Path) -> Iterator[StartPlan]:
    if "django" in source_text(folder / "manage.py").lower():
        why = "manage.py is here: a Django project, served with its reloader."
        yield StartPlan((*_python(folder), "manage.py", "runserver"), why)


def _python_apps(folder: Path) -> Iterator[StartPlan]:
    packages = [path for path in _folders(folder) if (path / "__init__.py").is_file()]
    sources = [folder, folder / "src", folder / "app", *packages]
    if (folder / "src").is_dir():
        sources += _folders(folder / "src")
    seen = set()
    for path in (source / name for source in dict.fromkeys(sources) for name in _APPS):
        text = source_text(path)
        found = _APP.search(text)
        factory = None if found else _FACTORY.search(text)
        if not (found or (factory and re.search(r"\b(Flask|FastAPI)\(", text))):
            continue
        place = path.relative_to(folder).as_posix()
        kind = found["kind"] if found else ("FastAPI" if "FastAPI(" in text else "Flask")
        if kind not in seen:
            seen.add(kind)
            yield _python_app(folder, path, kind, found, f"{place} makes a {kind} app")


def _python_app(
    folder: Path, path: Path, kind: str, found: re.Match[str] | None, what: str
) -> StartPlan:
    root = folder / "src" if path.is_relative_to(folder / "src") else folder
    if root != folder and (root / "__init__.py").is_file():
        root = folder  # `src` is the package itself
    parts = path.relative_to(root).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    python = _python(folder)
    if kind == "Flask":
        # `--debug` brings the reloader; the file's own app.run() would choose its own port.
        app = module if root == folder else path.relative_to(folder).as_posix()
        if found and found["name"] not in ("app", "application"):
            app += f":{found['name']}"
        command = (*python, "-m", "flask", "--app", app, "run", "--debug")
        return StartPlan(command, f"{what}, served by flask with its reloader.")
    target = f"{module}:{found['name']}" if found else f"{module}:create_app"
    command = (*python, "-m", "uvicorn", target, "--reload")
    command += () if root == folder else ("--app-dir", "src")
    return StartPlan(command + (() if found else ("--factory",)), f"{what}, served by uvicorn.")


def _procfile(folder: Path) -> Iterator[StartPlan]:
    found = re.search(r"^web:[ \t]*(\S.*)$", source_text(folder / "Procfile"), re.MULTILINE)
    if not found:
        return
    command = re.sub(r"\$(?:PORT\b|\{PORT(?::-\d+)?\})", PLACEHOLDER, found[1].strip())
    command = command.replace(f"0.0.0.0:{PLACEHOLDER}", f"127.0.0.1:{PLACEHOLDER}")
    # There is no shell: what only a shell understands cannot be started.
    if _SHELL.search(command) or "$" in command:
        return
    try:
        words = shlex.split(command)
    except ValueError:
        return
    if words and "=" not in words[0]:
        yield StartPlan(
            tuple(local_program(words, folder)), f"Procfile says `web: {found[1].strip()}`."
        )


def _static(folder: Path) -> Iterator[StartPlan]:
    for name in ("", "public", "dist", "build", "site"):
        if (folder / name / "index.html").is_file():
            serve = (sys.executable, "-m", "http.server")
            place = f"{name}/index.html" if name else "index.html"
            yield StartPlan(
                (*serve, *(("--directory", name) if name else ())), f"{place} is a page."
            )


def _python(folder: Path) -> tuple[str, ...]:
    """Return the command of the interpreter that has the app's packages."""
    (found,) = local_program(("python",), folder)
    if found != "python":
        return (found,)
    for lock, runner in {
        "uv.lock": "uv",
        "poetry.lock": "poetry",
        "Pipfile.lock": "pipenv",
    }.items():
        if (folder / lock).is_file():
            return (runner, "run", "python")
    return ("python3",)


def _folders(folder: Path) -> list[Path]:
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
    ours = [path for path in inside if path.name[0] != "." and path.name != "node_modules"]
    return [path for path in ours if not (path / "pyvenv.cfg").exists()][:50]


def source_text(path: Path) -> str:
    """Return a file's text; empty where there is none, or one too large for a source file."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            return ""
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
