"""`pilothouse ca`: show, export, install and uninstall the certificate authority of the proxy.

A client that is to be intercepted must trust it. A session's own browser does so by itself; the
stores of the system are changed only by `pilothouse ca install`, and only by the commands shown.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Literal

from pilothouse.machine.folders import home_folder, private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pilothouse.core.settings import Settings

type Action = Literal["show", "export", "install", "uninstall"]
type Command = tuple[str, ...]

EXIT_INCOMPLETE = 1
EXIT_MISUSE = 2
COMMAND_S = 120
NAME = "Pilothouse CA"
FILE = "pilothouse-ca.crt"


@dataclass(frozen=True, slots=True)
class Anchors:
    """A folder of Linux whose certificates the system trusts once `update` has run."""

    folder: Path
    update: Command
    forget: Command


ANCHORS = (
    Anchors(
        Path("/usr/local/share/ca-certificates"),
        ("update-ca-certificates",),
        ("update-ca-certificates", "--fresh"),
    ),
    Anchors(
        Path("/etc/pki/ca-trust/source/anchors"),
        ("update-ca-trust", "extract"),
        ("update-ca-trust", "extract"),
    ),
)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """A place where certificates are trusted, with the commands that change it."""

    name: str
    install: tuple[Command, ...]
    uninstall: tuple[Command, ...]
    present: Command
    """Command that succeeds when our certificate is there."""
    needs_root: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine whose certificate stores are changed."""

    system: str
    is_root: bool
    home: Path
    environ: Mapping[str, str]
    anchors: tuple[Anchors, ...] = ANCHORS

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.platform, os.geteuid() == 0, home_folder(os.environ), os.environ)

    def has(self, program: str) -> bool:
        return which(program, path=self.environ.get("PATH")) is not None


def main(settings: Settings, action: Action, file: str | None) -> int:
    """Run one action: 0 when it is done, 1 when something is left to do, 2 for misuse."""
    if file is not None and action != "export":
        sys.stderr.write(f"pilothouse: only export takes a file; leave out {file!r}\n")
        return EXIT_MISUSE
    try:
        folder = private_folder(settings.home, os.environ, "data", "intercept")
        from pilothouse.intercept.engine.certificates import ca_folder, ca_pem

        pem = ca_pem(folder)
        certificate = ca_folder(folder) / FILE
        certificate.write_bytes(pem)
        if action == "export":
            return export(pem, file)
    except OSError as error:
        sys.stderr.write(f"pilothouse: {error}\n")
        return EXIT_MISUSE
    if action == "show":
        sys.stdout.write(described(pem, certificate))
        return 0
    return change(action == "install", Machine.here(), certificate)


def export(pem: bytes, file: str | None) -> int:
    """Write the certificate, without its key, to a file or to stdout."""
    if file in (None, "-"):
        sys.stdout.write(pem.decode("ascii"))
    else:
        Path(str(file)).write_bytes(pem)
        sys.stderr.write(f"The certificate is in {file}; its key is not.\n")
    return 0


def described(pem: bytes, certificate: Path) -> str:
    """Describe where the certificate is, and how it is recognised."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    read = x509.load_pem_x509_certificate(pem)
    digest = sha256(read.public_bytes(Encoding.DER)).hexdigest().upper()
    fingerprint = ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
    begin, end = read.not_valid_before_utc, read.not_valid_after_utc
    return (
        f"certificate  {certificate}\n"
        f"subject      {read.subject.rfc4514_string()}\n"
        f"SHA-256      {fingerprint}\n"
        f"valid        {begin:%Y-%m-%d} to {end:%Y-%m-%d}\n"
        "\n"
        "`pilothouse ca install` has this user's programs trust it; `pilothouse ca export FILE`\n"
        f"is for other machines; for one command: curl --cacert {shlex.quote(str(certificate))} …\n"
    )


def change(install: bool, machine: Machine, certificate: Path) -> int:
    """Install into or remove from every store there is, and say what was done."""
    found = list(stores(machine, certificate))
    if not found:
        sys.stderr.write(
            "pilothouse: no store of certificates that can be changed was found; give"
            f" {certificate} to the program that is to trust it\n"
        )
        return EXIT_INCOMPLETE
    done = [_change(store, install, machine) for store in found]
    if install:
        sys.stdout.write("Undo it with `pilothouse ca uninstall`.\n")
    if machine.system.startswith("linux") and not machine.has("certutil"):
        sys.stdout.write(
            f"{machine.home / '.pki' / 'nssdb'}: left alone, certutil is not installed. Chrome and"
            " Chromium read it beside the system's store (Debian: apt-get install libnss3-tools).\n"
        )
    return 0 if all(done) else EXIT_INCOMPLETE


def stores(machine: Machine, certificate: Path) -> Iterator[TrustStore]:
    """Yield the stores of this machine that can be changed."""
    if machine.system == "darwin":
        yield _keychain(machine, certificate)
        return
    for anchors in machine.anchors:
        if anchors.folder.is_dir() and machine.has(anchors.update[0]):
            target = str(anchors.folder / FILE)
            yield TrustStore(
                f"the system's store ({target})",
                (("install", "-m", "0644", str(certificate), target), anchors.update),
                (("rm", "-f", target), anchors.forget),
                ("test", "-e", target),
                needs_root=True,
            )
    if machine.has("certutil"):
        yield _nss(machine, certificate)


def _keychain(machine: Machine, certificate: Path) -> TrustStore:
    keychain = str(machine.home / "Library" / "Keychains" / "login.keychain-db")
    trust = ("security", "add-trusted-cert", "-r", "trustRoot", "-k", keychain, str(certificate))
    return TrustStore(
        "the login keychain",
        (trust,),
        (("security", "remove-trusted-cert", str(certificate)),),
        ("security", "verify-cert", "-c", str(certificate)),
    )


def _nss(machine: Machine, certificate: Path) -> TrustStore:
    folder = machine.home / ".pki" / "nssdb"
    at = ("-d", f"sql:{folder}")
    make: tuple[Command, ...] = ()
    if not (folder / "cert9.db").exists():
        make = (
            ("mkdir", "-p", "-m", "0700", str(folder)),
            ("certutil", "-N", *at, "--empty-password"),
        )
    add = ("certutil", "-A", *at, "-t", "C,,", "-n", NAME, "-i", str(certificate))
    return TrustStore(
        f"this user's NSS store ({folder})",
        (*make, add),
        (("certutil", "-D", *at, "-n", NAME),),
        ("certutil", "-L", *at, "-n", NAME),
    )


def _change(store: TrustStore, install: bool, machine: Machine) -> bool:
    commands = store.install if install else store.uninstall
    if not install and _failure(store.present, machine) is not None:
        sys.stdout.write(f"{store.name}: it was not there.\n")
        return True
    if store.needs_root and not machine.is_root:
        by_hand = " && ".join("sudo " + shlex.join(command) for command in commands)
        sys.stdout.write(f"{store.name}: only root may change it. Run:\n  {by_hand}\n")
        return False
    for command in commands:
        failure = _failure(command, machine)
        if failure is not None:
            sys.stdout.write(f"{store.name}: `{shlex.join(command)}` failed: {failure}\n")
            return False
    sys.stdout.write(f"{store.name}: {'installed' if install else 'removed'}, by\n")
    sys.stdout.writelines(f"  {shlex.join(command)}\n" for command in commands)
    return True


def _failure(command: Command, machine: Machine) -> str | None:
    """Run a command; return why it failed, None if it did not."""
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_S,
            env=dict(machine.environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = (ran.stderr or ran.stdout).strip()[-300:]
    return None if ran.returncode == 0 else said or f"exit code {ran.returncode}"
