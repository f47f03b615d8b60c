"""What a benchmark row is, and what measuring one gives.

subject    the contender that is ours; every ratio is subject ÷ peer
sampler    takes ONE sample of one contender when called
row        declares a comparison; its `run` opens whatever the samplers need and hands them out
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bench.peers import Workshop
from bench.stats import Ratio, Summary, paired_ratio, summarise


class Noted(NamedTuple):
    """A sample with what a reader must know to judge it, such as the number of tools counted."""

    value: float
    note: str


type Sampler = Callable[[], float | Noted]
type Samplers = Mapping[str, Sampler]


@dataclass(frozen=True)
class Bound:
    """The limit a row holds its subject to: a ratio to the peer `of`, or an absolute value."""

    limit: float
    of: str | None = None
    plus: float = 0.0
    """In the row's unit, on top of the ratio."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One comparison, found by being listed in `bench.rows.ROWS`."""

    name: str
    title: str
    subject: str
    peers: tuple[str, ...]
    unit: str
    better: Literal["lower", "higher"]
    bound: Bound | None
    run: Callable[[Workshop], AbstractContextManager[Samplers]]

    absolute: Literal["p95", "median"] = "p95"
    """Which statistic an absolute bound is judged by."""

    exact: bool = False
    """One reading without a warm-up is enough: the value is the same on every reading, or the
    reading itself takes minutes and sums up far more than a round does."""

    @property
    def contenders(self) -> tuple[str, ...]:
        return (self.subject, *self.peers)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The samples of a row, by contender, the i-th of each taken in the same round."""

    row: Row
    samples: Mapping[str, tuple[float, ...]]
    notes: Mapping[str, str] = field(default_factory=dict)

    def summary(self, contender: str) -> Summary:
        return summarise(self.samples[contender])

    def ratio(self, peer: str) -> Ratio:
        return paired_ratio(self.samples[self.row.subject], self.samples[peer])

    @property
    def within_bound(self) -> bool | None:
        """None where the row sets no bound."""
        bound = self.row.bound
        if bound is None:
            return None
        if bound.of is not None:
            mine = tuple(value - bound.plus for value in self.samples[self.row.subject])
            judged = paired_ratio(mine, self.samples[bound.of]).median
        else:
            whole = self.summary(self.row.subject)
            judged = whole.p95 if self.row.absolute == "p95" else whole.median
        return judged <= bound.limit if self.row.better == "lower" else judged >= bound.limit

    @property
    def bound_value(self) -> float | None:
        """The bound in the row's own unit, for drawing it beside the measured values."""
        bound = self.row.bound
        if bound is None:
            return None
        if bound.of is None:
            return bound.limit
        return bound.limit * self.summary(bound.of).median + bound.plus
