"""Journals are closed after the test that opened them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pilothouse.machine.jsonl import JournalFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def close_journals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test has opened to read it as another process would."""
    opened: list[JournalFile] = []
    make = JournalFile.__init__

    def note(self: JournalFile, path: Path) -> None:
        make(self, path)
        opened.append(self)

    monkeypatch.setattr(JournalFile, "__init__", note)
    yield
    for file in opened:
        if file._file != -1:
            file.close()
