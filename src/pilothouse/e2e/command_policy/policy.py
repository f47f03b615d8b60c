"""What a session may start: which command, in which folder, with which environment.

A command is judged by its real path, the end of every link. With SERVER_COMMAND_PATH set only what
it lists may run, and then a listed interpreter or package runner runs the session's own code alone:
its arguments and variables could turn one allowed program into any. Without it, development allows
every program that others cannot have written, production allows none.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.core.child_env import server_environment
from pilothouse.core.declare.faults import InvalidInput
from pilothouse.e2e.command_policy.arguments import check_arguments
from pilothouse.e2e.command_policy.own_code import ROOTS_SETTING, Unfit
from pilothouse.e2e.command_policy.program_file import (
    check_program_file,
    find_listed,
    locate_program,
    refusal,
)
from pilothouse.e2e.command_policy.runners import plain_name
from pilothouse.e2e.command_policy.variables import check_variable
from pilothouse.e2e.model import CommandNotAllowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.e2e.command_policy.own_code import CommandPlace


def check_command(
    name_or_path: str,
    args: Sequence[str] = (),
    *,
    place: CommandPlace,
    allowed: tuple[str, ...] | None,
    production: bool,
    absolute: bool = False,
) -> Path:
    """Return the absolute path to run. A relative path is refused, if `absolute`.

    Raises:
        InvalidInput: an empty or impossible name.
        CommandNotAllowed: it may not be started, or not with these arguments.
        ServerStartFailed: it is not there, or cannot be executed; `cause` says which.
    """
    if not name_or_path or any("\0" in word for word in (name_or_path, *args)):
        raise InvalidInput(
            "A command is a path or a name without zero bytes.", field="command", expected="path"
        )
    if allowed is None and production:
        raise refusal(
            name_or_path,
            "in production only what the server's owner has listed may be",
        )
    path = locate_program(name_or_path, place.search_path, None if absolute else place.cwd)
    real = Path(os.path.realpath(path))
    runs = path
    if allowed is not None:
        listed = find_listed(real, allowed)
        if listed is None:
            raise refusal(str(path), "it is not on the list of allowed commands", real)
        # Under the name that was listed: some programs do different things by different names.
        runs = listed
    check_program_file(path, real)
    if allowed is not None:
        programs = tuple({path, real, runs})
        try:
            for name in {plain_name(program.name) for program in programs}:
                check_arguments(name, args, replace(place, programs=programs))
        except Unfit as unfit:
            raise CommandNotAllowed(
                f"{path} may not be started with these arguments: {unfit}.",
                hint=unfit.hint,
                path=str(path),
                setting=unfit.setting,
            ) from None
    return runs


def check_cwd(cwd: str, roots: Sequence[Path]) -> Path:
    """Return the real folder to run in, by default the first of the roots; it lies in one of them.

    Raises:
        CommandNotAllowed: it lies elsewhere.
        InvalidInput: it is not a folder.
    """
    if "\0" in cwd:
        raise InvalidInput("A folder's name has no zero bytes.", field="cwd", expected="folder")
    folder = Path(os.path.realpath(roots[0] / cwd))
    if not any(folder.is_relative_to(os.path.realpath(root)) for root in roots):
        raise CommandNotAllowed(
            f"Nothing may be started in {cwd}: it lies outside the folders of this session.",
            hint=f"Use a folder in {', '.join(map(str, roots))}, or start Pilothouse there, or "
            f"add the folder to {ROOTS_SETTING}.",
            cwd=cwd,
            setting=ROOTS_SETTING,
        )
    if not os.path.isdir(folder):  # which takes names that no system takes
        raise InvalidInput(f"{cwd} is not a folder.", field="cwd", expected="an existing folder")
    return folder


def child_env(
    environ: Mapping[str, str],
    extra: Mapping[str, str],
    port: int = 0,
    *,
    restricted_to: CommandPlace | None,
) -> dict[str, str]:
    """Return the environment of a started command: what servers get of ours, `extra`, and PORT.

    With `restricted_to` (a list of allowed commands, or production) variables are refused that
    make a program load or run something else than what was allowed.

    Raises:
        InvalidInput: not the name or value of a variable.
        CommandNotAllowed: a variable that may not be set.
    """
    for name, value in extra.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidInput(
                f"{name!r} cannot be an environment variable.",
                field="env",
                expected="names without '=', values without zero bytes",
            )
        if restricted_to is not None:
            try:
                check_variable(name, value, restricted_to)
            except Unfit as unfit:
                raise CommandNotAllowed(
                    f"The variable {name} may not be set: {unfit}.",
                    hint=unfit.hint,
                    variable=name,
                    setting=unfit.setting,
                ) from None
    return {**server_environment(environ), **extra, **({"PORT": str(port)} if port else {})}
