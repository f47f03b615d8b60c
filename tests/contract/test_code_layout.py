"""How the code lies in its folders: what a newcomer may rely on. Exceptions only ever get fewer."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.test_layers import LAYERS, SOURCE, TOP

if TYPE_CHECKING:
    from collections.abc import Iterator

    type Function = ast.FunctionDef | ast.AsyncFunctionDef

MOST_FILES = 12
MOST_LINES = 400
LONGER = {
    "e2e/session.py": 702,
    "e2e/tools/act.py": 544,
    "observe/cdp/browser.py": 543,
    "core/settings.py": 543,
    "core/secrets/redactor.py": 517,
    "core/net/url_policy.py": 482,
    "observe/observer.py": 474,
    "relay/relay.py": 456,
    "observe/tools.py": 443,
    "wiring/groups.py": 427,
    "e2e/sessions.py": 425,
    "e2e/tools/look.py": 423,
    "e2e/tools/network_and_logins.py": 416,
    "intercept/replay/sockets.py": 410,
    "hub/sessions/redis_registry.py": 410,
    "e2e/failure/symptoms.py": 401,
}
"""Files that have yet to be split, each with the lines that it may have until then."""
SHARED_NAMES = 0
"""Public classes whose name another one has, too."""
MOST_POSITIONAL = 5
"""Parameters that a call may give by position, beside `self`: more are given by name, or as one."""
MOST_FUNCTION_LINES = 60
AT_THE_ROOT = {"__init__.py", "__main__.py"}


@cache
def modules() -> dict[str, str]:
    """Return the text of every module by its path below the package."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in paths}


def functions() -> Iterator[tuple[str, Function, bool]]:
    """Yield every function with its place, and whether its first parameter is the caller's own."""
    for file, text in modules().items():
        tree = ast.parse(text)
        methods = {
            id(node)
            for owner in ast.walk(tree)
            if isinstance(owner, ast.ClassDef)
            for node in owner.body
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_static = any(
                    isinstance(one, ast.Name) and one.id == "staticmethod"
                    for one in node.decorator_list
                )
                is_method = id(node) in methods and not is_static
                yield f"{file}:{node.lineno} {node.name}", node, is_method


def test_every_module_lies_in_a_folder_that_has_a_rank() -> None:
    loose = {file for file in modules() if "/" not in file}
    assert loose == AT_THE_ROOT
    folders = {file.split("/")[0] for file in modules()} - loose
    assert folders == {*LAYERS, *TOP} - {"__main__"}


def test_no_folder_has_more_files_than_one_takes_in_at_a_glance() -> None:
    files = Counter(
        str(Path(file).parent) for file in modules() if Path(file).name != "__init__.py"
    )
    assert {folder: many for folder, many in files.items() if many > MOST_FILES} == {}


def test_no_file_is_longer_than_it_may_be() -> None:
    lines = {file: text.count("\n") for file, text in modules().items()}
    long = {file: many for file, many in lines.items() if many > MOST_LINES}
    assert {file: many for file, many in long.items() if many > LONGER.get(file, 0)} == {}
    assert set(LONGER) == set(long), "what is short enough now needs no exception any more"


def test_no_function_takes_more_by_position_than_one_can_keep_in_order() -> None:
    found = {
        place: len(node.args.posonlyargs) + len(node.args.args) - is_method
        for place, node, is_method in functions()
    }
    assert len(found) > 3_000
    assert {place: many for place, many in found.items() if many > MOST_POSITIONAL} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lines = {place: (node.end_lineno or 0) - node.lineno + 1 for place, node, _ in functions()}
    assert {place: many for place, many in lines.items() if many > MOST_FUNCTION_LINES} == {}


def test_hardly_a_public_class_has_the_name_of_another() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for file, text in modules().items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(file)
    shared = {name: files for name, files in found.items() if len(files) > 1}
    assert len(shared) <= SHARED_NAMES, shared
