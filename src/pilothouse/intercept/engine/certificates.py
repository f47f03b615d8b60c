"""The certificate authority that signs for every intercepted server. It never leaves its folder."""

from __future__ import annotations

import fcntl
from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mitmproxy.certs import CertStore
from mitmproxy.options import CONF_BASENAME, KEY_SIZE

if TYPE_CHECKING:
    from pathlib import Path

NAME = "Pilothouse"
"""Name under which it is shown in the stores of browsers and systems."""


def ca_folder(folder: Path) -> Path:
    """Return the authority's folder, private to the user; it is made if it is missing."""
    ca = folder / "ca"
    ca.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca.chmod(0o700)
    return ca


def ca_pem(folder: Path) -> bytes:
    """Return the authority's certificate, without its key; the authority is made if missing."""
    return _store(folder).default_ca.to_pem()


def spki_hash(folder: Path) -> str:
    """Return the Base64 SHA-256 of the key, for --ignore-certificate-errors-spki-list of Chromium.

    Every certificate that the proxy shows has the authority's own key, so this one hash covers
    them all.
    """
    key = _store(folder).default_ca.to_cryptography().public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(sha256(spki).digest()).decode()


def _store(folder: Path) -> CertStore:
    ca = ca_folder(folder)
    with (ca / "lock").open("w") as lock:
        # Two that find none at once must not each make one.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (ca / f"{CONF_BASENAME}-ca.pem").exists():
            # Under our own name: who looks through the authorities of a store knows whose it is.
            CertStore.create_store(ca, CONF_BASENAME, KEY_SIZE, NAME, f"{NAME} CA")
        return CertStore.from_store(ca, CONF_BASENAME, KEY_SIZE)
