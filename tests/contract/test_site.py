"""The dashboard's built page belongs to its sources, which is seen without Node."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The generator, with copies of the sources and of what was built."""
    spec = importlib.util.spec_from_file_location("gen", ROOT / "scripts" / "gen.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("WEB", "SITE"):
        copied = tmp_path / name
        unwanted = shutil.ignore_patterns("node_modules")
        shutil.copytree(getattr(module, name), copied, ignore=unwanted)
        monkeypatch.setattr(module, name, copied)
    return module


def test_the_page_is_the_one_that_its_sources_give(generator: Any) -> None:
    assert generator.site_is_fresh()


@pytest.mark.parametrize(
    "path", ["WEB/src/main.tsx", "WEB/package-lock.json", "SITE/index.html", "WEB/src/new.ts"]
)
def test_a_change_of_a_source_or_of_a_built_file_is_noticed(
    generator: Any, tmp_path: Path, path: str
) -> None:
    with (tmp_path / path).open("a") as file:
        file.write("\n")
    assert not generator.site_is_fresh()
