"""Pages and cursors that every list tool uses, so that an agent learns them once."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from pilothouse.core.declare.faults import InvalidInput


@dataclass(frozen=True, slots=True)
class Limit:
    """A page size after clamping; an answer says so when it was clamped."""

    asked: int
    most: int

    @property
    def used(self) -> int:
        return max(1, min(self.asked, self.most))

    @property
    def note(self) -> str:
        """A sentence for the answer, empty when the asked size was used."""
        if self.used == self.asked:
            return ""
        return f"limit {self.asked} was clamped to {self.used}; page on with the returned cursor"


def encode_cursor(position: dict[str, int]) -> str:
    """Return a cursor as one opaque word that is safe in URLs and JSON."""
    packed = json.dumps(position, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode_cursor(text: str) -> dict[str, int]:
    """Return a cursor's position. Raises InvalidInput for a text that is no such cursor."""
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        position = json.loads(packed)
    except (ValueError, binascii.Error, RecursionError):
        position = None
    if not isinstance(position, dict) or not all(
        isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0 for seq in position.values()
    ):
        raise InvalidInput(
            "cursor is not one that an earlier answer returned",
            hint="leave cursor out to start from the oldest, or pass one back unchanged",
            field="cursor",
            expected="the cursor of an earlier answer",
            received=text[:80],
        )
    return position


def estimated_tokens(text: str) -> int:
    """Estimate what a text costs a model, by our rule of thumb: four characters a token."""
    return -(-len(text) // 4)
