"""The variables that may stand in a replacement or in a header's value."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING
from uuid import UUID

from pilothouse.core.timeline.clock import iso

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

_VARIABLE = re.compile(r"\{\{([a-z_]+)\}\}")
_LETTERS = string.ascii_letters + string.digits


def values(index: int, at: float, random: Random, **more: str) -> dict[str, str]:
    """Return the values of one send, the same at each place where a variable stands.

    `index` counts sends from 1, `at` is the time of the send in epoch milliseconds, and `more`
    are variables that only some plans have.
    """
    return {
        "index": str(index),
        "timestamp": str(int(at // 1000)),
        "random": "".join(random.choices(_LETTERS, k=8)),
        "uuid": str(UUID(int=random.getrandbits(128), version=4)),
        "datetime": iso(at),
        **more,
    }


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace the variables of a text; other `{{…}}` stay, for pages have their own."""
    return _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text)
