"""`make bench ARGS=suite`: every test is measured, and the figures are kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench import suite

if TYPE_CHECKING:
    from pathlib import Path

MAKEFILE = """
test:
\t@echo '{"wall_s": 7, "chosen": "$(ARGS)"}' > .cache/suite.json
"""


@pytest.mark.process
def test_the_whole_suite_is_measured_though_make_was_given_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".cache").mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    kept = tmp_path / "kept.json"
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    monkeypatch.setattr(suite, "FIGURES", tmp_path / ".cache" / "suite.json")
    monkeypatch.setattr(suite, "KEPT", kept)
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=suite")  # as make sets it for its commands

    assert suite.measure_suite() == 0

    figures = json.loads(kept.read_bytes())
    assert figures["chosen"] == ""
    assert figures["wall_s"] == 7
    assert figures["date"]
    assert figures["machine"]
