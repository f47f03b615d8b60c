"""`pilothouse token` and `pilothouse ca` as a person runs them."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.servers import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

GUARD_S = 60


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pilothouse", *args],
        capture_output=True,
        text=True,
        env=environment({"PILOTHOUSE_HOME": str(home), "HOME": str(home)}),
        cwd=ROOT,
        timeout=GUARD_S,
        check=False,
    )


def test_the_token_is_printed_alone_and_stays_the_same(tmp_path: Path) -> None:
    first = run(tmp_path, "token")
    assert (first.returncode, first.stderr) == (0, "")
    assert re.fullmatch("[A-Za-z]{20}\n", first.stdout)
    assert run(tmp_path, "token").stdout == first.stdout
    (file,) = (tmp_path / "intercept").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_new_token_replaces_the_present_one(tmp_path: Path) -> None:
    first = run(tmp_path, "token").stdout
    second = run(tmp_path, "token", "--new")
    assert re.fullmatch("[A-Za-z]{20}\n", second.stdout)
    assert second.stdout != first
    assert run(tmp_path, "token").stdout == second.stdout


def test_a_token_that_cannot_be_kept_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file", "token")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "PILOTHOUSE_HOME" in done.stderr


def test_a_flag_or_word_that_it_does_not_take_is_named(tmp_path: Path) -> None:
    assert "did you mean --new?" in run(tmp_path, "token", "--nwe").stderr
    assert "unknown argument more" in run(tmp_path, "token", "more").stderr
    wrong = run(tmp_path, "ca", "instal")
    assert wrong.returncode == 2
    assert "uninstall" in wrong.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_the_authority_is_shown_with_its_fingerprint_and_validity(home: Path) -> None:
    shown = run(home, "ca")
    assert (shown.returncode, shown.stderr) == (0, "")
    facts = dict(re.findall(r"^(\S+) {2,}(.+)$", shown.stdout, re.MULTILINE))
    assert facts["certificate"].startswith(str(home))
    assert facts["subject"] == "O=Pilothouse,CN=Pilothouse CA"
    assert re.fullmatch("([0-9A-F]{2}:){31}[0-9A-F]{2}", facts["SHA-256"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d", facts["valid"])
    assert run(home, "ca", "show").stdout == shown.stdout


def test_the_exported_certificate_is_the_one_that_is_shown_and_has_no_key(home: Path) -> None:
    from hashlib import sha256
    from ssl import PEM_cert_to_DER_cert

    out = run(home, "ca", "export").stdout
    file = home / "exported.pem"
    assert run(home, "ca", "export", str(file)).returncode == 0
    assert file.read_text() == out
    assert "PRIVATE" not in out
    digest = sha256(PEM_cert_to_DER_cert(out)).hexdigest().upper()
    assert digest in run(home, "ca").stdout.replace(":", "")


def test_only_export_takes_a_file_and_says_when_it_cannot_write_it(home: Path) -> None:
    refused = run(home, "ca", "show", "x.pem")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "only export" in refused.stderr
    failed = run(home, "ca", "export", str(home / "absent" / "x.pem"))
    assert failed.returncode == 2
    assert "x.pem" in failed.stderr
