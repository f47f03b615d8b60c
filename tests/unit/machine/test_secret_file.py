"""A secret in a file: one for all processes, whole, and nobody else's to read."""

from __future__ import annotations

import re
import secrets
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from pilothouse.machine.secret_file import SecretFile

if TYPE_CHECKING:
    from pathlib import Path


def file_in(folder: Path) -> SecretFile:
    return SecretFile(folder / "token", re.compile("[0-9a-f]{20}"), lambda: secrets.token_hex(10))


def test_a_secret_is_made_in_a_file_of_the_user_alone(tmp_path: Path) -> None:
    kept = file_in(tmp_path / "private")
    assert kept.present() is None
    secret = kept.value()
    (file,) = (tmp_path / "private").iterdir()
    assert file.read_text() == secret + "\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_secret_stays_until_a_new_one_is_asked_for(tmp_path: Path) -> None:
    kept = file_in(tmp_path)
    first = kept.value()
    assert kept.value() == kept.present() == file_in(tmp_path).value() == first
    second = file_in(tmp_path).renew()
    assert second != first
    assert kept.value() == second
    assert len(list(tmp_path.iterdir())) == 1


def test_many_who_need_one_first_get_the_same(tmp_path: Path) -> None:
    barrier = threading.Barrier(16)
    made: list[str] = []

    def need() -> None:
        mine = file_in(tmp_path)
        barrier.wait(30)
        made.append(mine.value())

    threads = [threading.Thread(target=need) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(made) == 16
    assert len(set(made)) == 1


@pytest.mark.parametrize("content", ["", "\n", "short", "a" * 19 + "x", "ä" * 20, "a b\n"])
def test_what_is_no_secret_is_replaced(tmp_path: Path, content: str) -> None:
    kept = file_in(tmp_path)
    (tmp_path / "token").write_text(content)
    assert kept.present() is None
    secret = kept.value()
    assert re.fullmatch("[0-9a-f]{20}", secret)
    assert kept.present() == secret


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        file_in(tmp_path / "file" / "below").value()
