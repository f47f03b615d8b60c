"""What /metrics counts of observations and of connections to browsers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pilothouse.observe.cdp.client import Counts
    from pilothouse.observe.record.observation import Observation

NAMES = {
    "events_seen": "Events of observed tabs that came in",
    "events_filtered": "Events that a filter kept out",
    "events_malformed": "Events that do not fit the protocol",
    "events_dropped": "Events that made room for newer ones",
    "cdp_frames": "Messages of browsers",
    "cdp_bad_frames": "Messages of browsers that could not be read",
    "cdp_commands": "Commands sent to browsers",
    "cdp_command_milliseconds": "Time in which browsers answered commands, in all",
}
"""Counters of /metrics, each with its help text."""


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
