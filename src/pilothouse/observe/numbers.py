"""What /metrics counts of observations and of connections to browsers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.observe.cdp import Counts
    from pilothouse.observe.observation import Observation


def totals_of(observation: Observation) -> Counter[str]:
    return Counter(
        events_seen=observation.tally.seen,
        events_filtered=observation.tally.filtered,
        events_malformed=observation.tally.malformed,
        events_dropped=observation.ring.evicted,
    )


def counted(counts: Counts) -> Counter[str]:
    return Counter(
        cdp_frames=counts.frames,
        cdp_bad_frames=counts.bad_frames,
        cdp_commands=counts.commands,
        cdp_command_milliseconds=int(counts.command_seconds * 1000),
    )
