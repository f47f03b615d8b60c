"""Judges what a server or a development tool is told to load: apps, configurations, folders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pilothouse.e2e.app_server.frameworks import PLACEHOLDER, known_name
from pilothouse.e2e.command_policy.apps import check_app, check_class, check_module
from pilothouse.e2e.command_policy.own_code import Unfit
from pilothouse.e2e.command_policy.variables import check_variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pilothouse.e2e.command_policy.own_code import CommandPlace

FILES = {
    "django": "--pythonpath",
    "manage.py": "--pythonpath",
    "flask": "--env-file -e",
    "uvicorn": "--app-dir --env-file --log-config",
    "gunicorn": "--chdir --pythonpath --paste --paster --log-config --log-config-json"
    " --access-logfile --error-logfile --log-file --pid -p",
    "hypercorn": "--log-config --access-logfile --access-log --error-logfile --error-log"
    " --log-file --pid -p",
    "http.server": "--directory -d",
    "fastapi": "",
    "streamlit": "",
}
"""Options of servers that name code to load, a folder to serve or a file to write."""
APPS = {"flask": "--app -A", "fastapi": "--entrypoint -e"}
"""Options of theirs that name an app."""
CONFIGS = {"gunicorn": "--config -c", "hypercorn": "--config -c"}
"""Options of theirs that name a file, or a module behind `python:`."""
SETTINGS = {"django": "--settings", "manage.py": "--settings"}
"""Options of theirs that name a module."""
CLASSES = {
    "uvicorn": "--loop --http --ws",
    "gunicorn": "--worker-class -k --logger-class",
    "hypercorn": "--worker-class -k",
}
"""Options of theirs that name a class, or something that they bring."""
VARIABLES = {"gunicorn": "--env -e"}
"""Options of theirs that set a variable."""
APP_OPERANDS = frozenset({"uvicorn", "gunicorn", "hypercorn"})
"""Servers whose operand is an app."""
FILE_OPERANDS = frozenset({"hypercorn", "fastapi", "streamlit"})
"""Servers whose operand may be a file."""
_PLAIN = frozenset(
    "--root-path --host --port --bind -b --insecure-bind --quic-bind --certfile --keyfile"
    " --ca-certs --access-logformat -p --workers -w --forwarded-allow-ips"
    " --header --statsd-host --log-syslog-to --server.address --server.port"
    " --server.baseUrlPath --server.headless --server.sslCertFile --server.sslKeyFile".split()
)
"""Options of servers whose words are none of these."""

TOOLS = {
    **dict.fromkeys(
        "next react-scripts nuxt nuxi remix react-router rsbuild rspack parcel vue-cli-service"
        " gatsby docusaurus storybook wrangler eleventy http-server serve live-server".split(),
        "",
    ),
    "vite": "--base --open",
    "astro": "--base",
    "ng": "--base-href --serve-path --deploy-url",
    "webpack": "--output-public-path",
    "webpack-dev-server": "--output-public-path",
}
"""Tools of Node.js that run a configuration or an app from a path, with those of their options
whose words are paths of addresses."""
_CONFIG = re.compile(r"-c|-r|--require|--import|--loader|--[\w-]*config[\w-]*", re.IGNORECASE)
_PORT = re.escape(PLACEHOLDER)
_ADDRESS = re.compile(rf"\w+://[\w.-]+:{_PORT}(/[\w-]*)*|([\w.-]+:)?{_PORT}")

CONSOLES = {
    "django": "shell dbshell shell_plus debugsqlshell",
    "manage.py": "shell dbshell shell_plus debugsqlshell",
    "flask": "shell",
    "rails": "runner r console c dbconsole db",
    # It takes the beginning of a name for the whole.
    "artisan": "tinker tinke tink tin ti t",
}
"""Subcommands that take code."""
_FIRST_WORD_COUNTS = frozenset({"django", "manage.py"})

_ATTACHED = re.compile(r"-[cr]([/~.].*)", re.DOTALL)
"""A word and its option of one letter in one."""
_PATH = re.compile(r"[/~.].*", re.DOTALL)
_SEPARATOR = re.compile(r"[,:#]")


def check_server(
    name: str, rest: Sequence[str], place: CommandPlace, beside: Path | None = None
) -> None:
    """Check what a server or tool of the framework table is told to load.

    Python also imports what lies in the folder of its script, `beside` it.

    Raises:
        Unfit: it would take code from its command line, or of others.
        Outside: what it would load does not lie in the folders of the session.
    """
    known = known_name(name) or name
    sources, operands = _sources(known, rest)
    # What an option is given is known of servers alone.
    words = rest[:1] if known in _FIRST_WORD_COUNTS else operands if known in FILES else rest
    for word in words:
        if word.lower() in CONSOLES.get(known, "").split():
            raise Unfit(f"{known} {word} takes code")
    if known in TOOLS:
        _check_tool(known, rest, place)
    if known not in FILES:
        return
    # gunicorn goes into this folder first, or later.
    into = [place.cwd / source for option, source in sources if _goes_into(option)]
    bases = [place.cwd, *into]
    modules = [place.cwd / one for option, source in sources for one in _folders(option, source)]
    looked_in = [*bases, *modules, *((beside,) if beside else ())]
    for option, source in sources:
        if _is_one_of(option, APPS.get(known, "")):
            check_app(source, place, looked_in)
        elif _is_one_of(option, SETTINGS.get(known, "")):
            check_module(source, place, looked_in)
        elif _is_one_of(option, CLASSES.get(known, "")):
            check_class(source, place, looked_in)
        elif _is_one_of(option, VARIABLES.get(known, "")):
            _check_assignment(source, place, looked_in)
        elif _is_one_of(option, CONFIGS.get(known, "")) and source.startswith("python:"):
            check_module(source.removeprefix("python:"), place, looked_in)
        elif source != "-" or "log" not in option:
            _check_paths(source, place, bases[:1] if _goes_into(option) else bases)
    for word in _targets(known, rest, operands):
        # Without a colon it may be what an unknown option is given.
        if known in APP_OPERANDS and ":" in word:
            check_app(_without_mode(word), place, looked_in)
        elif known in FILE_OPERANDS:
            _check_paths(word, place, bases)


def check_configs(words: Sequence[str], place: CommandPlace) -> None:
    """Check the configurations and modules that a tool of Node.js is told to load.

    Raises:
        Unfit, Outside
    """
    for word, after in zip(words, [*words[1:], ""], strict=False):
        flag, equals, value = word.partition("=")
        if attached := _ATTACHED.fullmatch(word):
            value = attached[1]
        elif not _CONFIG.fullmatch(flag):
            continue
        elif not equals:
            value = after
        if value and not value.startswith("-"):
            place.check_inside(value.removeprefix("file://"))


def subcommand_of(name: str, words: Sequence[str]) -> str:
    """Return the first word that is no option and given to none, empty if there is none."""
    _, operands = _sources(name, words)
    return operands[0] if operands else ""


def _check_paths(text: str, place: CommandPlace, bases: Sequence[Path]) -> None:
    # As in --config file:conf.py, own/app:app and --pythonpath one,two.
    for piece in filter(None, _SEPARATOR.split(text)):
        for base in bases:
            place.check_inside(piece, base)


def _check_assignment(source: str, place: CommandPlace, bases: Sequence[Path]) -> None:
    name, _, value = source.partition("=")
    try:
        check_variable(name, value, place, bases)
    except Unfit as unfit:
        unfit.args = (f"the variable {name} may not be set: {unfit}",)
        raise


def _check_tool(known: str, words: Sequence[str], place: CommandPlace) -> None:
    waiting = False
    for word in words:
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            value = "" if waiting else word
            waiting = False
        elif flag in TOOLS[known].split():
            waiting = not equals
            continue
        elif not equals:
            found = None if word.startswith("--") else _PATH.search(word)
            value = found[0] if found else ""
        if value and not _ADDRESS.fullmatch(value):
            place.check_inside(value)


# Words


def _targets(known: str, rest: Sequence[str], operands: Sequence[str]) -> Sequence[str]:
    """Return the words that may say what is served."""
    if (
        known == "streamlit"
        and list(rest[:1]) == ["run"]
        and not "".join(rest[1:2]).startswith("-")
    ):
        return rest[1:2]  # what follows is the script's own
    return operands


def _without_mode(word: str) -> str:
    """Return a word of hypercorn's without the mode before the module."""
    mode, _, app = word.partition(":")
    return app if mode in ("asgi", "wsgi") and ":" in app else word


def _goes_into(option: str) -> bool:
    return option.startswith("--ch")


def _folders(option: str, source: str) -> Iterator[str]:
    """Yield the folders from which an option has modules taken as well."""
    if option.startswith(("--app-d", "--py")):
        yield from source.split(",")


def _is_one_of(option: str, options: str) -> bool:
    # Most take the beginning of an option for the whole.
    return any(
        one.startswith(option) if option.startswith("--") else one == option
        for one in options.split()
    )


def _sources(known: str, words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options that name code with what they are given, and the operands."""
    tables = (FILES, APPS, CONFIGS, SETTINGS, CLASSES, VARIABLES)
    options = " ".join(table.get(known, "") for table in tables)
    plain = _PLAIN.difference(options.split())
    letters = {one[1] for one in options.split() if not one.startswith("--")}
    sources: list[tuple[str, str]] = []
    operands: list[str] = []
    waiting = ""
    for word in words:
        if waiting:
            if waiting not in plain:
                sources.append((waiting, word))
            waiting = ""
        elif not word.startswith("-"):
            operands.append(word)
        else:
            flag, equals, value = word.partition("=")
            if flag in plain:
                waiting = "" if equals else flag
            elif word.startswith("--"):
                if len(flag) > 2 and _is_one_of(flag, options):
                    if equals:
                        sources.append((flag, value))
                    else:
                        waiting = flag
            elif at := _first_of(letters, word, plain):
                option = f"-{word[at]}"
                if attached := word[at + 1 :].removeprefix("="):
                    sources.append((option, attached))
                else:
                    waiting = option
    return sources, operands


def _first_of(letters: set[str], word: str, plain: frozenset[str]) -> int:
    """Return where one of these options stands among the letters of a word, or 0."""
    for at, letter in enumerate(word[1:], 1):
        if letter in letters:
            return at
        if f"-{letter}" in plain:
            break  # what follows is given to it
    return 0
