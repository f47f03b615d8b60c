"""Installing the authority: real commands on stores in a temporary folder."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pilothouse.cli.ca import FILE, Anchors, Machine, change

if TYPE_CHECKING:
    from pathlib import Path

UPDATE = "/usr/sbin/update-ca-certificates"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return made(tmp_path / "ca.crt")


def made(path: Path) -> Path:
    """A certificate of an authority that signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(signed.public_bytes(Encoding.PEM))
    return path


def machine(tmp_path: Path, update: str, *, is_root: bool = True) -> Machine:
    """A machine whose store is in a folder; `update` is the shell script that refreshes it."""
    programs = tmp_path / "programs"
    anchors = tmp_path / "anchors"
    for folder in (programs, anchors, tmp_path / "trusted"):
        folder.mkdir()
    script = programs / "update-anchors"
    script.write_text(f"#!/bin/sh\n{update}\n")
    script.chmod(0o755)
    return Machine(
        system="linux",
        is_root=is_root,
        home=tmp_path,
        environ={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        anchors=(Anchors(anchors, ("update-anchors",), ("update-anchors", "--fresh")),),
    )


@pytest.mark.skipif(not os.access(UPDATE, os.X_OK), reason="Debian's command is not here")
def test_debians_store_trusts_the_authority_until_it_is_uninstalled(
    tmp_path: Path, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = machine(
        tmp_path,
        f"exec {UPDATE} --localcertsdir {tmp_path}/anchors --etccertsdir {tmp_path}/trusted"
        f" --hooksdir {tmp_path}/none --certsconf /dev/null $@",
    )
    other = made(tmp_path / "anchors" / "other.crt")
    bundle = tmp_path / "trusted" / "ca-certificates.crt"
    assert change(True, here, certificate) == 0
    said = capsys.readouterr().out
    assert f"install -m 0644 {certificate} {tmp_path / 'anchors' / FILE}" in said
    assert "pilothouse ca uninstall" in said
    assert certificate.read_text() in bundle.read_text()
    assert change(False, here, certificate) == 0
    assert "removed" in capsys.readouterr().out
    assert bundle.read_text() == other.read_text()
    assert change(False, here, certificate) == 0
    assert "it was not there" in capsys.readouterr().out


def test_who_is_not_root_is_told_the_commands_and_nothing_is_changed(
    tmp_path: Path, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = machine(tmp_path, "exit 0", is_root=False)
    assert change(True, here, certificate) == 1
    assert f"sudo install -m 0644 {certificate}" in capsys.readouterr().out
    assert list((tmp_path / "anchors").iterdir()) == []


def test_a_command_that_fails_is_named_with_its_reason(
    tmp_path: Path, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = machine(tmp_path, "echo no room >&2; exit 3")
    assert change(True, here, certificate) == 1
    assert "`update-anchors` failed: no room" in capsys.readouterr().out


def test_a_machine_without_any_store_is_told_what_to_do(
    tmp_path: Path, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Machine("linux", True, tmp_path, {"PATH": str(tmp_path)}, ())
    assert change(True, here, certificate) == 1
    assert str(certificate) in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("certutil") is None, reason="certutil is not installed")
def test_the_users_nss_store_is_made_and_trusts_the_authority_until_it_is_uninstalled(
    tmp_path: Path, certificate: Path
) -> None:
    here = Machine("linux", False, tmp_path, {**os.environ, "HOME": str(tmp_path)}, ())
    listing = ["certutil", "-L", "-d", f"sql:{tmp_path / '.pki' / 'nssdb'}"]
    assert change(True, here, certificate) == 0
    assert "Pilothouse CA" in subprocess.check_output(listing, text=True)
    assert change(False, here, certificate) == 0
    assert "Pilothouse CA" not in subprocess.check_output(listing, text=True)
