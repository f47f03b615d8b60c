"""The statistics of the benchmarks. Pure: numbers in, numbers out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Ratio", "Summary", "median", "paired_ratio", "percentile", "summarise"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is told of one contender's samples."""

    median: float
    p95: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Subject over peer: the median of the per-pair ratios, and their whole spread."""

    median: float
    low: float
    high: float


def percentile(samples: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: always a value that was measured, never an interpolation.

    With few samples a high percentile is therefore simply the worst one seen.
    """
    if not samples:
        raise ValueError("a percentile needs at least one sample")
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile lies between 0 and 100, not {percent}")
    rank = max(1, math.ceil(len(samples) * percent / 100))
    return sorted(samples)[rank - 1]


def summarise(samples: Sequence[float]) -> Summary:
    return Summary(
        median=median(samples),
        p95=percentile(samples, 95),
        low=min(samples),
        high=max(samples),
    )


def paired_ratio(subject: Sequence[float], peer: Sequence[float]) -> Ratio:
    """Compare two contenders sampled in alternating pairs.

    The ratio is taken within each pair first, so that a slow minute of the machine, which hits
    both halves of a pair, cancels out instead of landing in one contender's median.
    """
    if len(subject) != len(peer):
        raise ValueError(f"unpaired samples: {len(subject)} of the subject, {len(peer)} of a peer")
    ratios = [_ratio(mine, theirs) for mine, theirs in zip(subject, peer, strict=True)]
    return Ratio(median=median(ratios), low=min(ratios), high=max(ratios))


def _ratio(mine: float, theirs: float) -> float:
    """A peer may well count nothing at all where we count something."""
    if theirs == 0:
        # Less than nothing is left where a bound's constant is larger than what was measured.
        return math.copysign(math.inf, mine) if mine else 1.0
    return mine / theirs
