"""Judges the arguments of a listed program: they may not turn it into any other.

An interpreter runs the session's own scripts, and Python by `-m` the session's own modules and
those that serve an app. Code on the command line is refused in all its spellings, and so is a
program that would run another one which was not listed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.e2e.app_server.frameworks import MODULES, known_name, serves
from pilothouse.e2e.command_policy.apps import no_module
from pilothouse.e2e.command_policy.own_code import Unfit, is_installed
from pilothouse.e2e.command_policy.runners import LAUNCHERS, MAKE, PACKAGE, RUNNERS, plain_name
from pilothouse.e2e.command_policy.served_code import check_configs, check_server, subcommand_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.e2e.command_policy.own_code import CommandPlace
    from pilothouse.e2e.command_policy.runners import Runner

_URL = re.compile(r".*://|(data|file|node|npm|jsr|https?|blob):", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def check_arguments(name: str, args: Sequence[str], place: CommandPlace) -> None:
    """Check that a listed program does what it was listed for. `name` is its plain name.

    Raises:
        Unfit: with these arguments it would run something else.
        Outside: the script or module that it would run is not the session's own.
    """
    if name in LAUNCHERS:
        raise Unfit(f"{name} runs any other code")
    runner = RUNNERS.get(name)
    if runner is None:
        check_server(name, args, place)
        return
    words = list(args)
    if runner.hands_on:
        check_configs(words, place)
    if runner.letters:
        _check_python(name, runner, words, place)
        return
    if runner.options_anywhere:
        words = _without_options(name, runner, words)
    given = _take_options(name, runner, words, place)
    if runner.verbs and words:
        if words[0] in runner.scripts.split():
            return
        verb = words.pop(0)
        if verb not in runner.verbs.split():
            choice = f"{runner.verbs} {runner.scripts}".rstrip()
            raise Unfit(f"{name} {verb} is not one of: {choice}")
        given |= _take_options(name, runner, words, place)
        if verb in runner.named.split():
            return
    if words[:1] and words[0] in runner.leads.split():
        del words[0]
        given |= _take_options(name, runner, words, place)
    if not words:
        return
    match runner.operand:
        case "script":
            _check_script(name, runner, words[0], words[1:], place)
            for word in words[1:] if "--test" in given else ():
                place.check_script(word)
        case "package":
            _check_package(words[0], words[1:], place)
        case "program":
            _check_program(name, runner, words[0], words[1:], place)


# Options


def _without_options(name: str, runner: Runner, words: list[str]) -> list[str]:
    own = words[: words.index("--")] if "--" in words else words
    for word in own:
        if word.startswith("-") and not _known(word, runner.flags):
            raise Unfit(f"{name} takes no {word} here")
    # It takes a variable from behind `--` as well.
    if runner is MAKE and any("=" in word for word in words):
        raise Unfit(f"{name} takes no variables here")
    return [word for word in words if not word.startswith("-")]


def _take_options(name: str, runner: Runner, words: list[str], place: CommandPlace) -> set[str]:
    """Take the known options off the front and return them."""
    taken = set()
    while words and words[0].startswith(tuple(runner.signs)):
        option = words.pop(0)
        taken.add(option)
        if option in runner.valued.split():
            value = words.pop(0) if words else ""
            if option in runner.folders.split():
                place.check_script(value)
        elif not _known(option, runner.flags):
            raise Unfit(f"{name} takes no {option} here")
    return taken


def _known(option: str, flags: str) -> bool:
    return any(
        option.startswith(flag[:-1]) if flag.endswith("*") else option == flag
        for flag in flags.split()
    )


# Python


def _check_python(name: str, runner: Runner, words: list[str], place: CommandPlace) -> None:
    looks_here = True
    while words and words[0].startswith("-"):
        option = words.pop(0)
        for at, letter in enumerate(option[1:], 1):
            if letter == "m":
                module = option[at + 1 :] or (words.pop(0) if words else "")
                _check_module(name, module, words, place, looks_here=looks_here)
                return
            if letter not in runner.letters:
                raise Unfit(f"{name} takes no {option} here")
            # Isolated, or with a safe path, it imports nothing from where it runs.
            looks_here = looks_here and letter not in "IP"
        if option == "-":
            raise Unfit(f"{name} takes no code from its input")
    if words:
        _check_script(name, runner, words[0], words[1:], place)


def _check_module(
    name: str, module: str, rest: Sequence[str], place: CommandPlace, *, looks_here: bool
) -> None:
    if looks_here and place.has_module(module):
        return
    if module not in MODULES or not serves(module, subcommand_of(module, rest)):
        word = subcommand_of(module, rest) if module in MODULES else ""
        reason = (
            f"{name} -m {f'{module} {word}'.rstrip()} is neither a module in the folder in which"
            f" it runs ({place.cwd}) nor one that serves an app ({', '.join(sorted(MODULES))})"
        )
        raise no_module(reason, module, place) if looks_here else Unfit(reason)
    check_server(module, rest, place)


# What is run


def _check_script(
    name: str, runner: Runner, script: str, rest: Sequence[str], place: CommandPlace
) -> None:
    if _SCHEME.match(script) or _URL.match(script):
        raise Unfit(f"{name} would run code from {script}")
    if script in runner.modes.split():
        raise Unfit(f"{name} {script} is no script: it runs and drives any other")
    if runner.uses_path and _is_bare(script, place) and place.on_search_path(script):
        raise Unfit(f"{name} would take {script} from PATH")
    for word in rest:
        flag = word.partition("=")[0]
        if flag in runner.anywhere.split():
            raise Unfit(f"{name} takes no {flag} here")
    path = place.check_script(script)
    if runner.letters and is_installed(path):
        _check_installed(script, path, rest, place)
        return
    for one in _names(path):
        _check_tool(one, rest, place)
    check_server(path.name, rest, place, path.parent)


def _check_installed(script: str, path: Path, rest: Sequence[str], place: CommandPlace) -> None:
    real = Path(os.path.realpath(path))
    module = known_name((real.parent if real.stem == "__main__" else real).name)
    if module not in MODULES or not serves(module, subcommand_of(module, rest)):
        raise Unfit(
            f"{script} belongs to an installed package, which is not this session's own, and is"
            f" none that serves an app ({', '.join(sorted(MODULES))})"
        )
    check_server(module, rest, place)


def _check_package(package: str, rest: Sequence[str], place: CommandPlace) -> None:
    if not PACKAGE.fullmatch(package):
        raise Unfit(f"{package} is not the name of a package")
    if os.path.isfile(place.cwd / package):
        place.check_script(package)
    _check_tool(package if package.startswith("@") else package.partition("@")[0], rest, place)


def _check_program(
    name: str, runner: Runner, what: str, rest: Sequence[str], place: CommandPlace
) -> None:
    if _URL.match(what):
        raise Unfit(f"{name} would run code from {what}")
    file = what.rpartition("/")[2]
    if file.endswith((".py", ".pyw", ".pyz")):
        _check_script("python", RUNNERS["python"], what, rest, place)
        return
    if "/" in what or not _is_bare(what, place):
        place.check_script(what)
    elif (
        runner.uses_path
        and plain_name(what) not in RUNNERS
        and not (known_name(what) or place.declares(what))
        and place.on_search_path(what)
    ):
        raise Unfit(f"{name} would run {what} from PATH, which is not the project's own")
    check_arguments(plain_name(file.partition("@")[0] or file), rest, place)


def _check_tool(name: str, rest: Sequence[str], place: CommandPlace) -> None:
    """Check what a package of npm is told: it may be a program that is known."""
    check_arguments(plain_name(name), rest, place)
    check_configs(rest, place)


def _is_bare(word: str, place: CommandPlace) -> bool:
    """Tell whether a word is no path, and no file or link of the folder either."""
    return "/" not in word and not os.path.lexists(place.cwd / word)


def _names(path: Path) -> set[str]:
    """Return the names by which a script that npm installed may be a known program's."""
    found: set[str] = set()
    for one in (path, Path(os.path.realpath(path))):
        if "node_modules" in one.parts:
            below = one.parts[len(one.parts) - one.parts[::-1].index("node_modules") :]
            scoped = below[:1] and below[0].startswith("@")
            found |= {one.name, "/".join(below[: 2 if scoped else 1])}
    return found
