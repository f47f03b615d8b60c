"""Judges an app, a module or a class that a server is told to load, in arguments or variables.

`subprocess:getoutput('…')` is an app by its form. So what stands before the colon is a module or a
file of the session's own, and what stands behind it a name of it, or a call of that with literals.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from typing import TYPE_CHECKING

from pilothouse.e2e.command_policy.own_code import Unfit
from pilothouse.e2e.command_policy.program_file import SETTING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pilothouse.e2e.command_policy.own_code import CommandPlace

_BROUGHT = re.compile(
    # A name alone is one of the server's own list, or of what was installed for it.
    r"[\w-]+|gunicorn\.(workers|glogging|instrument)(\.\w+)+|uvicorn\.workers\.\w+"
    r"|uvicorn_worker\.\w+|aiohttp\.(worker\.)?Gunicorn\w+",
    re.ASCII,
)
"""Classes that come with servers."""


def check_app(text: str, place: CommandPlace, bases: Sequence[Path] = ()) -> None:
    """Check an app as servers take it: `module`, `module:name`, `shop/app.py:create('dev')`.

    Raises:
        Unfit: it is no module of the session's own, or more than a name of it.
        Outside: it lies outside the folders of the session.
    """
    module, _, name = text.partition(":")
    check_module(module, place, bases)
    if name and not _is_plain(name):
        raise Unfit(f"{name} is more than the name of an app, or a call of it with literals")


def check_module(given: str, place: CommandPlace, bases: Sequence[Path] = ()) -> None:
    """Check that a server takes a module from the session's folders: by its name, or by a path.

    Raises:
        Unfit: it is no module of the session's own.
        Outside: it lies outside the folders of the session.
    """
    bases = bases or [place.cwd]
    if "/" in given or given.endswith(".py"):
        path = place.check_inside(given)
        path = path.parent if path.stem == "__init__" else path
        name, bases = path.name.removesuffix(".py"), [path.parent]
        # Flask starts at the outermost package.
        outermost = path.parent
        while (outermost / "__init__.py").exists() and outermost.parent != outermost:
            outermost = outermost.parent
        tops = {name, *path.relative_to(outermost).parts[:1]}
    else:
        name = given
        tops = {given.partition(".")[0]}
    if tops := {top.removesuffix(".py") for top in tops} & sys.stdlib_module_names:
        # A server has loaded many of these before it looks into any folder.
        raise Unfit(f"{given} may be Python's own {tops.pop()}")
    if any(place.has_module(name, base) for base in bases):
        return
    if place.has_module(name, place.cwd / "src", first=False):
        return  # installed in place, if at all
    folders = ", ".join(dict.fromkeys(map(str, bases)))
    raise no_module(f"{given} is no module in the folder in which it runs ({folders})", name, place)


def check_class(given: str, place: CommandPlace, bases: Sequence[Path] = ()) -> None:
    """Check a class that does a part of a server's work: one that servers bring, or an own one.

    Raises:
        Unfit: it is of no module of the session's own.
        Outside: it lies outside the folders of the session.
    """
    if _BROUGHT.fullmatch(given):
        return
    module = given.rpartition(":" if ":" in given else ".")[0]
    check_module(module, place, bases)


def no_module(reason: str, module: str, place: CommandPlace) -> Unfit:
    """Return the fault for a module that is not in the folder in which Python runs."""
    unfit = Unfit(reason)
    source = place.cwd / "src"
    if place.has_module(module, source):
        unfit.hint = (
            f'Run it in the folder that has {module} (cwd: "{source}"), or have the program itself'
            f" listed in {SETTING}."
        )
    return unfit


def _is_plain(text: str) -> bool:
    """Tell whether an app is a name, or a call of one with literals: hypercorn evaluates it."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Call):
            for value in (*tree.args, *(keyword.value for keyword in tree.keywords)):
                ast.literal_eval(value)
            return isinstance(tree.func, ast.Name) and not hasattr(builtins, tree.func.id)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False
    while isinstance(tree, ast.Attribute):
        tree = tree.value
    return isinstance(tree, ast.Name)
