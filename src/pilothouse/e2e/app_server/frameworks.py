"""Table of the programs that serve a web app, and how each of them gets its port.

Words are an argument vector. `{port}` in a flag stands for the port; a program that is not listed
here gets it through the environment variable PORT alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLACEHOLDER = "{port}"


@dataclass(frozen=True, slots=True)
class Framework:
    """A program that serves, and what to append to its command line."""

    name: str
    flags: tuple[str, ...] = ("--port", PLACEHOLDER)
    only: frozenset[str] = frozenset()
    """The subcommands that serve; empty, where `unless` names those that do not."""
    unless: frozenset[str] = frozenset()
    short: str = ""
    """Another spelling of the flag for the port."""
    module: bool = False
    """True if Python starts it by `-m`, too."""
    env: Mapping[str, str] = field(default_factory=dict)


_BUILDS = frozenset({"build", "optimize"})
_LOCAL = ("--port", PLACEHOLDER, "--host", "127.0.0.1")
_BIND = ("--bind", f"127.0.0.1:{PLACEHOLDER}")


def _only(*subcommands: str) -> frozenset[str]:
    return frozenset(subcommands)


# Vite alone takes another port in silence unless it is told not to.
_STRICT = ("--port", PLACEHOLDER, "--strictPort", "--host", "127.0.0.1")

_KNOWN = (
    Framework("vite", _STRICT, unless=_BUILDS),
    Framework("next", only=_only("", "dev", "start"), short="-p"),
    Framework("react-scripts", (), only=_only("start"), env={"HOST": "127.0.0.1"}),
    Framework("ng", only=_only("serve", "s", "dev")),
    Framework("astro", _LOCAL, only=_only("", "dev", "preview")),
    Framework("nuxt", _LOCAL, only=_only("", "dev", "preview"), short="-p"),
    Framework("nuxi", _LOCAL, only=_only("dev", "preview"), short="-p"),
    Framework("remix", only=_only("dev", "vite:dev")),
    Framework("react-router", only=_only("dev"), short="-p"),
    Framework("webpack", only=_only("serve", "server", "s")),
    Framework("webpack-dev-server"),
    Framework("rspack", only=_only("serve", "dev", "s")),
    Framework("rsbuild", only=_only("", "dev", "preview")),
    Framework("parcel", unless=frozenset({"build", "watch"}), short="-p"),
    Framework("vue-cli-service", only=_only("serve")),
    Framework("gatsby", only=_only("develop", "serve"), short="-p"),
    Framework("docusaurus", ("--port", PLACEHOLDER, "--no-open"), only=_only("start", "serve")),
    Framework("storybook", ("--port", PLACEHOLDER, "--ci"), only=_only("dev"), short="-p"),
    Framework("wrangler", only=_only("dev")),
    Framework("eleventy", ("--serve", "--port", PLACEHOLDER)),
    Framework("http-server", ("-p", PLACEHOLDER, "-a", "127.0.0.1"), short="-p"),
    Framework("serve", ("-l", f"tcp://127.0.0.1:{PLACEHOLDER}"), short="-l"),
    Framework("live-server", ("--port", PLACEHOLDER, "--host", "127.0.0.1", "--no-browser")),
    Framework("manage.py", (f"127.0.0.1:{PLACEHOLDER}",), only=_only("runserver")),
    Framework("django", (f"127.0.0.1:{PLACEHOLDER}",), only=_only("runserver"), module=True),
    Framework("flask", only=_only("run"), short="-p", module=True),
    Framework("fastapi", only=_only("dev", "run"), module=True),
    Framework("uvicorn", module=True),
    Framework("gunicorn", _BIND, short="-b", module=True),
    Framework("hypercorn", _BIND, short="-b", module=True),
    Framework(
        "streamlit",
        ("--server.port", PLACEHOLDER, "--server.headless", "true"),
        only=_only("run"),
        module=True,
    ),
    Framework("http.server", (PLACEHOLDER, "--bind", "127.0.0.1"), module=True),
    Framework("rails", only=_only("server", "s"), short="-p"),
    Framework("hugo", only=_only("server", "serve"), short="-p"),
    Framework("jekyll", only=_only("serve", "server", "s"), short="-P"),
)
_BY_NAME = {known.name: known for known in _KNOWN}
MODULES = frozenset(known.name for known in _KNOWN if known.module)
_ALIASES = {"django-admin": "django", "angular": "ng", "runserver": "django"}

WATCHERS = frozenset(
    {"tailwindcss", "tsc", "sass", "jest", "vitest", "eslint", "prettier", "postcss", "echo"}
)
"""Programs that a `dev` script may run and that serve nothing."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
# They run the command that follows them; those of the second row after a word of their own.
_WRAPPERS = frozenset({"cross-env", "npx", "bunx", "env", "exec", "time", "nohup"})
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye", "doppler", "bundle"})


def program(word: str) -> str:
    """Return the name that a word of a command line is known by: no folder, no suffix."""
    name = re.sub(r"\.(c|m)?js$|\.cmd$|\.exe$", "", re.split(r"[\\/]", word)[-1])
    # The links of package managers lead to files of other names.
    return "python" if _PYTHON.fullmatch(name) else name.removesuffix("-cli")


def unwrapped(words: Sequence[str]) -> list[str]:
    """Return the words from the serving program on: without assignments, npx, `uv run`, node …"""
    rest = list(words)
    while rest:
        name = program(rest[0])
        if _ASSIGNMENT.fullmatch(rest[0]) or name in _WRAPPERS:
            rest = _without_options(rest[1:])
        elif name in _RUNNERS and rest[1:2] in (["run"], ["exec"]):
            rest = _without_options(rest[2:])
        elif name in ("dotenv", "env-cmd") and "--" in rest:
            rest = rest[rest.index("--") + 1 :]
        elif name == "python" and "-m" in rest:
            rest = rest[rest.index("-m") + 1 :]
        elif name in ("python", "node", "bun") and len(rest) > 1:
            script = _without_options(rest[1:])
            known = framework_of(script) if script else None
            return script if known or name == "python" else rest
        else:
            break
    return rest


def known_name(word: str) -> str:
    """Return the name in the table of a program that serves, empty if it has none."""
    name = program(word)
    name = _ALIASES.get(name, name)
    return name if name in _BY_NAME else ""


def serves(name: str, subcommand: str) -> bool:
    """Tell whether a program of the table serves when it is given this subcommand."""
    known = _BY_NAME[name]
    return subcommand in known.only if known.only else subcommand not in known.unless


def framework_of(words: Sequence[str]) -> Framework | None:
    """Return the framework that these words start a server of."""
    if not words:
        return None
    known = _BY_NAME.get(known_name(words[0]))
    if known is None:
        return None
    subcommand = next((word for word in words[1:] if not word.startswith("-")), "")
    if known.name == "flask" and "run" in words[1:]:
        subcommand = "run"  # `flask --app NAME run`: the first word is an option's value
    return known if serves(known.name, subcommand) else None


def port_in(words: Sequence[str]) -> int:
    """Return the port that a command line names already, or 0."""
    inner = unwrapped(words)
    known = framework_of(inner)
    flags = {"--port", *((known.short,) if known and known.short else ())}
    if known and known.flags is _BIND:
        flags.add("--bind")
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in flags:
            given = value if equals else "".join(words[at + 1 : at + 2])
            if port := _port(given):
                return port
    if known and known.name in ("http.server", "manage.py", "django"):
        # The address is a word of its own: 8000, or 127.0.0.1:8000.
        for word in inner[1:]:
            if re.fullmatch(r"(?:[\w.\[\]:]+:)?\d{2,5}", word) and (port := _port(word)):
                return port
    return 0


def _port(text: str) -> int:
    digits = text.rpartition(":")[2]
    value = int(digits) if re.fullmatch(r"\d{1,5}", digits) else 0
    return value if value < 65_536 else 0


def _without_options(words: Sequence[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 1
    return list(words[at:])
