"""The reference is made from the declarations, and nothing that is declared is missing in it.

The generator runs in a process of its own: in this one, fixtures have declared faults and events
that the product does not have.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pilothouse.core.declare import faults
from pilothouse.core.settings import SETTINGS
from pilothouse.core.timeline import events
from pilothouse.wiring.groups import GROUP_SPECS

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = ("tools", "prompts", "settings", "errors", "events")


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def run_generator(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "gen.py"), *flags],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.process
def test_generated_files_are_fresh() -> None:
    ran = run_generator("--check")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "fresh" in ran.stdout


@pytest.mark.process
def test_what_is_generated_does_not_depend_on_when_garbage_is_collected() -> None:
    code = (
        "import gc, importlib.util as u, sys\n"
        "spec = u.spec_from_file_location('gen', sys.argv[1])\n"
        "gen = u.module_from_spec(spec); spec.loader.exec_module(gen)\n"
        "gc.disable(); before = gen.generated(); gc.collect(); after = gen.generated()\n"
        "print([path.name for path in before if before[path] != after[path]])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(ROOT / "scripts" / "gen.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.strip() == "[]"


def test_every_tool_is_in_the_reference_with_its_arguments_and_faults() -> None:
    text = page("tools")
    for spec in GROUP_SPECS:
        for tool in spec.tools:
            section = re.search(rf"^### `{tool.name}`\n(.*?)(?=^##|^# |\Z)", text, re.M | re.S)
            assert section is not None, tool.name
            assert tool.summary in section.group(1)
            for argument in tool.input_schema.get("properties", {}):
                assert f"`{argument}`" in section.group(1), f"{tool.name}: {argument}"
            for example in tool.examples:
                assert example.title in section.group(1)
        for resource in spec.resources:
            assert f"`{resource.uri}`" in text


def test_every_prompt_is_in_the_reference_with_all_its_arguments() -> None:
    text = page("prompts")
    for spec in GROUP_SPECS:
        for prompt in spec.prompts:
            section = re.search(rf"^## `{prompt.name}`\n(.*?)(?=^##? |\Z)", text, re.M | re.S)
            assert section is not None, prompt.name
            assert prompt.description in section.group(1)
            for argument in prompt.arguments:
                assert f"| `{argument['name']}`" in section.group(1), argument


def test_every_tool_is_in_the_table_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for spec in GROUP_SPECS:
        for tool in spec.tools:
            assert f"| {tool.group.name} | `{tool.name}` |" in readme, tool.name


def test_every_setting_is_in_the_reference_with_its_variable_and_flag() -> None:
    rows = {
        line.split(" | ")[1]: line for line in page("settings").splitlines() if " | `--" in line
    }
    assert len(rows) == len(SETTINGS)
    text = page("settings")
    for setting in SETTINGS:
        assert f"`{setting.flag}`" in text, setting.name
        assert setting.about.help in text, setting.name
        for variable in setting.about.env:
            assert f"`{variable}`" in text, setting.name


def test_every_fault_is_in_the_reference() -> None:
    declared = {fault for spec in GROUP_SPECS for tool in spec.tools for fault in tool.raises}
    ours = {f for f in faults.Fault.__subclasses__() if f.__module__.startswith("pilothouse.")}
    for fault in {
        fault for fault in declared | ours if fault.code
    }:  # without one: a base of others
        row = next(line for line in page("errors").splitlines() if f"`{fault.code}`" in line)
        assert f"`{fault.number}`" in row
        assert f"| {fault.status} |" in row


def test_every_event_is_in_the_reference() -> None:
    declared = {
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, events.Event) and kind is not events.Event
    }
    assert declared
    for kind in declared:
        assert f"| `{kind.__name__}` | {kind.source} |" in page("events"), kind.__name__


@pytest.mark.parametrize("name", PAGES)
def test_nothing_stands_twice_in_a_table(name: str) -> None:
    rows = [line for line in page(name).splitlines() if line.startswith("| `")]
    if name in ("tools", "prompts"):  # arguments of a name stand in many; headings do not repeat
        rows = [line for line in page(name).splitlines() if line.startswith("##")]
    assert rows
    assert [row for row, times in Counter(rows).items() if times > 1] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_says_so(name: str) -> None:
    assert page(name).startswith("<!-- Generated by `make gen`")
