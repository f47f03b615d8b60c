"""How often loops that kill, race or wait go round, and how many examples Hypothesis makes.

Once, or a few, in `make test`, so that every promise is looked at on each change; all of them in
`make soak`, which looks for what happens one time in fifty.
"""

from __future__ import annotations

import os

ROUNDS = int(os.environ.get("PILOTHOUSE_CHAOS", "1"))
IS_SOAK = ROUNDS > 5
FEW_EXAMPLES = 25


def examples(most: int) -> int:
    """Return how many examples a property is tried with: `most` in a soak."""
    return most if IS_SOAK else min(most, FEW_EXAMPLES)
