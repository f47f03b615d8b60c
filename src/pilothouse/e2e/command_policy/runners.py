"""Programs that run code, and what each of them may be told when a list says what may be started.

A list of what is dangerous would never be complete: an option is refused unless it stands here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that runs code: the options and operands that it may be given."""

    flags: str = ""
    """Options that stand alone; one ending in * stands for all that begin so."""
    signs: str = "-"
    """Characters with which an option begins."""
    letters: str = ""
    """Options of one letter, which may stand in one word: Python's own way."""
    valued: str = ""
    """Options that take the next word."""
    folders: str = ""
    """Options of the valued ones whose word is a folder with code."""
    verbs: str = ""
    """Words of which the first operand is one; a second operand says what it is done to."""
    named: str = ""
    """Verbs after which stands a name that the project gives a meaning."""
    scripts: str = ""
    """Words that may stand for a verb: what follows is not the program's own any more."""
    leads: str = ""
    """A word that may stand before the script."""
    modes: str = ""
    """Operands that are no scripts, but make it another program."""
    anywhere: str = ""
    """Options that it takes from behind its script as well, and may not be given."""
    operand: Literal["script", "program", "package", "name"] = "script"
    """Kind of what is run: a file; a program, whose own arguments are judged as well, of the
    project or of a package; or what the project calls so."""
    uses_path: bool = False
    """True if it finds what it runs on PATH, too."""
    hands_on: bool = False
    """True if what it is given reaches a script of the project, and by it a tool."""
    options_anywhere: bool = False
    """True if its options are taken from between and after the operands as well, up to `--`."""


SHELL = Runner(
    flags="-e -u -x -eu -ex -ux -eux -l --login --norc --noprofile --posix",
    signs="-+",
    uses_path=True,
)
PYTHON = Runner(letters="uBEIOPSbdqsv")
NODE = Runner(
    flags="--watch --watch-preserve-output --enable-source-maps --no-warnings --trace-warnings"
    " --no-deprecation --max-old-space-size=* --test",
    modes="inspect debug",
)
FETCHED = Runner(flags="-y --yes --no --no-install -q --quiet", operand="package")
IN_ENVIRONMENT = Runner(verbs="run", operand="program", uses_path=True)
SCRIPTS = Runner(
    flags="-s --silent",
    verbs="run run-script",
    scripts="start test dev serve preview build",
    operand="program",
    hands_on=True,
)
MAKE = Runner(flags="-s -k -B", operand="name", options_anywhere=True)
PLAIN = Runner()

RUNNERS = {
    **dict.fromkeys("sh ash dash bash rbash zsh ksh mksh yash fish csh tcsh".split(), SHELL),
    **dict.fromkeys("python pypy pythonw graalpy jython micropython".split(), PYTHON),
    **dict.fromkeys(("node", "nodejs"), NODE),
    "ts-node": Runner(flags=NODE.flags),
    "tsx": Runner(flags=f"{NODE.flags} --clear-screen=* --no-cache", leads="watch"),
    "nodemon": Runner(
        flags="-q --quiet -V --verbose -L --legacy-watch",
        valued="-w --watch -i --ignore -e --ext -d --delay -s --signal",
        anywhere="-x --exec --config --cwd",
    ),
    # Chromium's and IPython's own options are taken from anywhere.
    **dict.fromkeys(("electron", "ipython"), Runner(options_anywhere=True)),
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx"), FETCHED),
    "pipx": Runner(verbs="run", operand="package"),
    **dict.fromkeys(("uv", "poetry", "pdm", "pipenv", "rye", "hatch"), IN_ENVIRONMENT),
    **dict.fromkeys(("yarn", "yarnpkg", "pnpm"), SCRIPTS),
    "npm": Runner(
        flags="-s --silent -q --quiet --if-present",
        verbs="run run-script start test",
        operand="name",
        hands_on=True,
        options_anywhere=True,
    ),
    "bun": Runner(
        flags="--watch --hot",
        verbs="run",
        scripts="start dev",
        operand="program",
        uses_path=True,
        hands_on=True,
    ),
    "deno": Runner(flags="-A --watch --allow-* --deny-*", verbs="run serve task", named="task"),
    "bundle": Runner(verbs="exec", operand="program", uses_path=True),
    "php": Runner(valued="-S -t", folders="-t"),
    **dict.fromkeys(("make", "gmake"), MAKE),
    **dict.fromkeys(
        "ruby irb perl lua luajit rscript r julia tclsh wish guile racket elixir erl iex groovy"
        " scala osascript jshell swift ghci runghc runhaskell ocaml raku pwsh"
        " babel-node esno zx coffee qjs php-cgi".split(),
        PLAIN,
    ),
}

LAUNCHERS = frozenset(
    "env xargs nohup nice ionice chrt taskset timeout time setsid stdbuf sudo doas su runuser"
    " setpriv capsh chroot unshare nsenter flock watch parallel find strace ltrace gdb lldb script"
    " expect ssh corepack busybox toybox tmux screen awk gawk mawk nawk sed vi vim nvim emacs ed ex"
    " less more man git tar rsync socat docker podman systemd-run start-stop-daemon at batch"
    " cross-env dotenv env-cmd concurrently npm-run-all ld.so ld-linux ld-musl"
    " pip easy_install pilothouse coverage debugpy watchfiles watchmedo onchange tsc-watch"
    " start-server-and-test".split()
)
"""Programs whose arguments are another program, or code, by their nature: no way to use them is
narrower than the list."""

PACKAGE = re.compile(r"(@[\w.-]+/)?[\w.-]+(@[\w.^~-]+)?")
_VERSIONED = re.compile(r"([a-z][a-z_-]*?)[-_.]?\d")
_SCRIPT_SUFFIX = re.compile(r"(-cli)?\.(exe|js|cjs|mjs)$")


def plain_name(name: str) -> str:
    """Return a program's name without version and suffix: python3.13 is python, npm-cli.js npm."""
    name = _SCRIPT_SUFFIX.sub("", name.lower())
    if name.startswith(("ld-linux", "ld-musl")):
        return name[:8].rstrip("-")
    found = _VERSIONED.match(name)
    return found[1] if found and found[1] in RUNNERS.keys() | LAUNCHERS else name
