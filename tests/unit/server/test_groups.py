"""What is known of the groups without importing them, and when they are imported."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pilothouse.server import groups
from pilothouse.server.groups import GroupSpec, LazyGroupSpec
from pilothouse.wiring.groups import GROUP_SPECS
from tests.support import fixture_tools as fixture

if TYPE_CHECKING:
    from pathlib import Path

LISTED_ALONE = """
import sys
import anyio
from pilothouse.wiring.standalone import make_log, make_redactor
from pilothouse.wiring.groups import GROUP_SPECS
from pilothouse.core.settings import Settings
from pilothouse.server.runtime import open_runtime

async def main():
    settings = Settings()
    redactor = make_redactor(settings)
    log = make_log(settings, redactor)
    async with open_runtime(GROUP_SPECS, settings, redactor, log) as runtime:
        print(len(runtime.listings))
        print(sorted(name for name in sys.modules if name.endswith(".tools")))
        runtime.registry
        print(len(runtime.registry.tools))
        print(sorted(name for name in sys.modules if name.endswith(".tools")))

anyio.run(main)
"""


@pytest.mark.parametrize("spec", GROUP_SPECS, ids=lambda spec: spec.group)
def test_the_list_of_a_group_is_what_its_declarations_say(spec: LazyGroupSpec) -> None:
    assert list(spec.listings) == [tool.listing for tool in spec.ready.tools]


@pytest.mark.process
def test_listing_tools_imports_no_group_and_calling_one_does() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LISTED_ALONE], capture_output=True, text=True, check=True, timeout=60
    )
    listed, before, callable_, after = ran.stdout.splitlines()
    assert listed == callable_
    assert before == "[]"
    assert "pilothouse.e2e.tools" in after
    assert "pilothouse.observe.tools" in after


def test_a_group_that_the_manifest_does_not_know_is_listed_from_its_declarations() -> None:
    loads = []

    def load() -> GroupSpec:
        loads.append(1)
        return fixture.GROUP_SPEC

    spec = LazyGroupSpec("fixtures", load)
    assert [listing.name for listing in spec.listings] == [
        tool.name for tool in fixture.GROUP_SPEC.tools
    ]
    assert spec.tools == fixture.GROUP_SPEC.tools
    assert spec.providers == fixture.GROUP_SPEC.providers
    assert len(loads) == 1


@pytest.mark.parametrize("content", [None, "", "[]", '{"fixtures": [{"name": "x"}]}'])
def test_a_missing_or_unreadable_manifest_costs_time_only(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "manifest.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(groups, "MANIFEST", file)
    _forget()
    try:
        spec = LazyGroupSpec("fixtures", lambda: fixture.GROUP_SPEC)
        assert len(spec.listings) == len(fixture.GROUP_SPEC.tools)
    finally:
        _forget()


def _forget() -> None:
    groups.manifest.cache_clear()
    groups._listed.cache_clear()
