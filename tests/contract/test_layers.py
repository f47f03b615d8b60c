"""The import directions of the architecture, read from the source and not from what happens to run.

cli → { relay → hub → wiring } → { observe, e2e, intercept, bookmarks, timeline, dashboard, server }
    → { machine, ipc } → core
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pilothouse"

GROUPS = {"observe", "e2e", "intercept", "bookmarks", "timeline", "dashboard"}
BELOW = {"core", "machine", "ipc"}
LAYERS = {*BELOW, "server", *GROUPS}
TOP = ("wiring", "hub", "relay", "cli", "__main__")
"""Each may import those before it."""
MAIN_CLASSES = {
    "pilothouse.observe.observer", "pilothouse.e2e.sessions", "pilothouse.intercept.proxy",
    "pilothouse.bookmarks.extension.listener", "pilothouse.timeline.watcher",
}  # fmt: skip

CORE_LIBRARIES = {"pydantic", "pydantic_core"}
# RE2 is pure, and every pattern from outside goes through it; but only where one is compiled.
CORE_LAZY_LIBRARIES = {"re2"}
IMPURE = {
    "asyncio", "anyio", "concurrent", "threading", "multiprocessing", "subprocess", "signal",
    "socket", "selectors", "select", "ssl", "os", "io", "shutil", "tempfile", "time",
    "random", "secrets", "logging",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "now", "utcnow", "today"}
HEAVY = {
    "mcp", "mcp_types", "starlette", "uvicorn", "playwright", "mitmproxy", "re2", "rich",
    "prometheus_client", "jwt",
}  # fmt: skip


@dataclass(frozen=True)
class Import:
    """One import statement: who, of what, and whether it runs when the file is imported."""

    file: str
    line: int
    module: str
    at_start: bool
    """At module level and not only for type checkers."""

    @property
    def library(self) -> str:
        return self.module.split(".")[0]

    @property
    def layer(self) -> str:
        """The part of Pilothouse that is imported: `core`, `server`, `app` …; empty for others."""
        parts = self.module.split(".")
        return parts[1] if parts[0] == "pilothouse" and len(parts) > 1 else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(tree: ast.Module, file: str) -> Iterator[Import]:
    def walk(node: ast.AST, at_start: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(file, child.lineno, alias.name, at_start)
            elif isinstance(child, ast.ImportFrom):
                base = _absolute(child, file)
                for alias in child.names:
                    # What is imported from may be a package: then the name is a module as well.
                    yield Import(file, child.lineno, f"{base}.{alias.name}", at_start)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            yield from walk(child, at_start and not inside and not typing_only)

    yield from walk(tree, True)


def _absolute(node: ast.ImportFrom, file: str) -> str:
    if not node.level:
        return node.module or ""
    package = ("pilothouse", *Path(file).parts[: -node.level])
    return ".".join((*package, node.module) if node.module else package)


@cache
def files(source: Path) -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(source).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(source.rglob("*.py"))
    ]


def layer_of(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def violations(source: Path) -> list[str]:
    """Every import that goes up or sideways."""
    found = []
    for file, tree in files(source):
        layer = layer_of(file)
        for one in imports_of(tree, file):
            upward = layer in TOP and one.layer in TOP[TOP.index(layer) + 1 :]
            sideways = layer in LAYERS and one.layer in {*LAYERS, *TOP} - BELOW - {layer}
            from_core = layer == "core" and one.layer not in ("", "core")
            to_main = "tools" in Path(file).with_suffix("").parts and any(
                f"{one.module}.".startswith(f"{main}.") for main in MAIN_CLASSES
            )
            if upward or sideways or from_core or to_main:
                found.append(str(one))
    return found


@cache
def all_imports() -> list[Import]:
    return [one for file, tree in files(SOURCE) for one in imports_of(tree, file)]


def test_no_import_goes_up_or_sideways() -> None:
    assert violations(SOURCE) == []


def test_the_walker_sees_the_source() -> None:
    seen = {(one.file, one.module) for one in all_imports()}
    assert ("cli/main.py", "pilothouse.core.settings.Settings") in seen
    assert ("cli/main.py", "pilothouse.wiring.standalone") in seen
    assert ("server/call.py", "pilothouse.core.declare.tool.Tool") in seen


@pytest.mark.parametrize(
    ("file", "line", "named"),
    [
        ("observe/model.py", "from pilothouse.e2e.model import Step", "pilothouse.e2e.model.Step"),
        ("observe/model.py", "from ..e2e import model", "pilothouse.e2e.model"),
        ("observe/model.py", "from .. import e2e", "pilothouse.e2e"),
        ("observe/model.py", "import pilothouse.intercept", "pilothouse.intercept"),
        ("observe/model.py", "def f():\n    from pilothouse import wiring", "pilothouse.wiring"),
        ("observe/tools.py", "from ..observe.observer import A", "pilothouse.observe.observer.A"),
        ("observe/tools.py", "from . import observer", "pilothouse.observe.observer"),
        ("e2e/tools/act.py", "from pilothouse.e2e import sessions", "pilothouse.e2e.sessions"),
        ("observe/ports.py", "from pilothouse.server import session", "pilothouse.server.session"),
        ("server/mcp/resume.py", "from pilothouse.e2e import tools", "pilothouse.e2e.tools"),
        ("core/regex.py", "from pilothouse.server import logs", "pilothouse.server.logs"),
        ("core/regex.py", "if TYPE_CHECKING:\n    from pilothouse import hub", "pilothouse.hub"),
        ("machine/child.py", "from pilothouse.e2e import tab", "pilothouse.e2e.tab"),
        ("ipc/rpc.py", "from pilothouse.wiring import groups", "pilothouse.wiring.groups"),
        ("wiring/agent.py", "from pilothouse.hub.start import run", "pilothouse.hub.start.run"),
        ("hub/files.py", "from pilothouse.relay import start", "pilothouse.relay.start"),
        ("relay/front.py", "from pilothouse.cli import main", "pilothouse.cli.main"),
    ],
)  # fmt: skip
def test_a_planted_wrong_import_is_named(tmp_path: Path, file: str, line: str, named: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(f"from typing import TYPE_CHECKING\n\n{line}\n")
    (found,) = violations(tmp_path)
    assert found.startswith(f"{file}:")
    assert found.endswith(f" imports {named}")


def test_right_imports_are_not_named(tmp_path: Path) -> None:
    for file, line in {
        "observe/tools.py": "from .ports import P\nfrom pilothouse.core.declare import tool",
        "observe/observer.py": "from .normalize import events\nimport asyncio",
        "server/push.py": "from pilothouse import __version__\nfrom pilothouse.server import call",
        "ipc/rpc.py": "from pilothouse.core import settings\nfrom pilothouse.machine import child",
        "wiring/groups.py": "from pilothouse.observe import tools\nfrom pilothouse.e2e import tab",
        "hub/start.py": "from pilothouse.wiring import groups\nfrom pilothouse.server import logs",
        "relay/start.py": "from pilothouse.hub.control import protocol",
        "cli/main.py": "from pilothouse import relay, hub, wiring",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(line)
    assert violations(tmp_path) == []


def test_core_uses_the_standard_library_and_pydantic_alone() -> None:
    for one in all_imports():
        if not one.file.startswith("core/"):
            continue
        ours = {"pilothouse", *CORE_LIBRARIES, *(() if one.at_start else CORE_LAZY_LIBRARIES)}
        assert one.library in sys.stdlib_module_names | ours, str(one)
        assert one.library not in IMPURE, str(one)


def test_core_opens_nothing_and_asks_no_clock() -> None:
    for file, tree in files(SOURCE / "core"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", getattr(node.func, "attr", ""))
                assert called not in IMPURE_CALLS, f"core/{file}:{node.lineno} calls {called}"
            assert not isinstance(node, ast.AsyncFor | ast.AsyncWith | ast.Await), file


@pytest.mark.parametrize(
    ("libraries", "places"),
    [
        ({"mcp", "mcp_types"}, {"server"}),
        ({"playwright"}, {"e2e"}),
        ({"mitmproxy"}, {"intercept"}),
    ],
    ids=["mcp", "playwright", "mitmproxy"],
)
def test_a_heavy_library_has_one_home(libraries: set[str], places: set[str]) -> None:
    users = [one for one in all_imports() if one.library in libraries]
    for one in users:
        if libraries == {"mcp", "mcp_types"} and one.file == "wiring/standalone.py":
            assert not one.at_start, str(one)
            continue
        assert layer_of(one.file) in places, str(one)
    if libraries == {"playwright"}:
        assert len({one.file for one in users}) <= 1
    if libraries == {"mitmproxy"}:
        assert all(one.file.startswith("intercept/engine/") for one in users)


def started_by(module: str) -> set[str]:
    """All modules that importing one of ours runs, as far as our own files say."""
    at_start: dict[str, list[str]] = {}
    for one in all_imports():
        if one.at_start:
            importer = "pilothouse." + one.file.removesuffix(".py").replace("/", ".")
            at_start.setdefault(importer.removesuffix(".__init__"), []).append(one.module)
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        if current not in reached:
            reached.add(current)
            waiting += at_start.get(current, ())
            # Importing a module runs the packages that it lies in; a value lies in a module.
            waiting += [current.rpartition(".")[0]] if "." in current else []
    return reached


@pytest.mark.parametrize(
    "start", ["pilothouse.cli.main", "pilothouse.wiring.standalone", "pilothouse.cli.call"]
)
def test_a_start_imports_nothing_heavy(start: str) -> None:
    reached = started_by(start)
    assert len(reached) > 3
    assert {module for module in reached if module.split(".")[0] in HEAVY} == set()


def test_core_and_the_command_line_import_heavy_libraries_in_functions_only() -> None:
    for one in all_imports():
        if one.at_start and (layer_of(one.file) == "core" or one.file == "cli/main.py"):
            assert one.library not in HEAVY, str(one)


@pytest.mark.parametrize("module", ["pilothouse.cli.main", "pilothouse.relay.start"])
@pytest.mark.process
def test_parsing_a_command_line_and_relaying_load_no_library_at_all(module: str) -> None:
    heavy = sorted(HEAVY | {"pydantic", "anyio", "asyncio"})
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.strip() == "[]"
