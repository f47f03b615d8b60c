"""`pilothouse pair`: the code alone on stdout, the steps beside it."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING

import pytest

from pilothouse.bookmarks.extension.pairing import as_meant
from pilothouse.cli import main, pair
from pilothouse.core.settings import Settings
from pilothouse.wiring.extension_pairing import extension_folder, pairing_secret

if TYPE_CHECKING:
    from pathlib import Path

CODE = re.compile("([0-9A-HJKMNP-TV-Z]{4}-){6}[0-9A-HJKMNP-TV-Z]{2}\n")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path), bookmarks_port=9876)


def test_the_code_stands_alone_on_stdout_and_stays_the_same(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pair.main(settings, new=False) == 0
    first = capsys.readouterr()
    assert CODE.fullmatch(first.out)
    (file,) = (tmp_path / "bookmarks").iterdir()
    assert file.read_text().strip() == as_meant(first.out)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert pair.main(settings, new=False) == 0
    assert capsys.readouterr().out == first.out


def test_a_new_code_replaces_the_present_one(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.main(settings, new=False)
    old = capsys.readouterr().out
    assert pair.main(settings, new=True) == 0
    new = capsys.readouterr().out
    assert CODE.fullmatch(new)
    assert new != old
    assert pairing_secret(settings).value() == as_meant(new)


def test_the_steps_name_the_folder_the_page_and_the_port(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.main(settings, new=False)
    said = capsys.readouterr().err
    folder = extension_folder()
    assert folder is not None
    assert (folder / "manifest.json").is_file()
    for part in (str(folder), "chrome://extensions", "9876", "every 30 s"):
        assert part in said
    assert [line[:2] for line in said.splitlines()] == ["1.", "2.", "3.", "4."]


def test_a_code_that_cannot_be_kept_is_one_line_and_exit_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert pair.main(Settings(home=str(tmp_path / "file")), new=False) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert "PILOTHOUSE_HOME" in said.err


def test_an_installed_package_has_the_extension_inside(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "pilothouse"
    assert extension_folder(package) is None
    (package / "extension").mkdir(parents=True)
    (package / "extension" / "manifest.json").write_text("{}")
    assert extension_folder(package) == package / "extension"


def test_the_command_line_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PILOTHOUSE_HOME", str(tmp_path))
    assert main.main(["pair"]) == 0
    old = capsys.readouterr().out
    assert main.main(["pair", "--new"]) == 0
    assert capsys.readouterr().out not in ("", old)
    assert main.main(["pair", "--nwe"]) == 2
    assert "did you mean --new?" in capsys.readouterr().err
