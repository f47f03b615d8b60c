"""A secret in a file of its own that only this user may read."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from pathlib import Path


class SecretFile:
    """Implements `core.secret_check.Secret`. The file is read each time: others may renew it."""

    def __init__(self, path: Path, form: re.Pattern[str], make: Callable[[], str]) -> None:
        """Take a file whose content counts only if it has the `form` of what `make` makes."""
        self.path = path
        self._form = form
        self._make = make

    def present(self) -> str | None:
        """Return the secret, if there is one already."""
        try:
            text = self.path.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return None
        return text if self._form.fullmatch(text) else None

    def value(self) -> str:
        """Return the secret, made if there is none.

        Raises:
            OSError: it can neither be read nor written.
        """
        return self.present() or self._write(keep_present=True)

    def renew(self) -> str:
        """Return another secret; the present one is good for nothing from now on.

        Raises:
            OSError: it cannot be written.
        """
        return self._write(keep_present=False)

    def _write(self, *, keep_present: bool) -> str:
        """Put a new secret whole under its name; one that another process made first may stay."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = self._make()
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            with open(os.open(draft, flags, 0o600), "w", encoding="ascii") as file:
                file.write(secret + "\n")
            if not keep_present:
                draft.replace(self.path)
                return secret
            try:
                os.link(draft, self.path)
            except FileExistsError:
                present = self.present()
                if present:
                    return present
                draft.replace(self.path)  # what is there is no secret
            except OSError:
                draft.replace(self.path)  # a file system without hard links
            return secret
        finally:
            draft.unlink(missing_ok=True)
