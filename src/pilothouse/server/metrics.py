"""Counters as plain numbers; Prometheus' text is made of them when somebody asks.

Counting costs an addition, importing the Prometheus client costs more than a whole start should:
so it is imported by the first scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    type Tally = list[tuple[str, list[tuple[str, str]], float]]
    """Counters by their names and labels, as they are sent to another process."""
    type Taken = dict[tuple[str, tuple[tuple[str, str], ...]], float]
    """Part of one process's counters that was added already."""

_CALLS = "tool_calls"
_TOOK = "tool_took"
"""Name of the tally of call times: a bucket by its number, or `sum` in milliseconds."""
BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)


class Histogram:
    """A histogram of how long something took, for each value of one label."""

    def __init__(self, name: str, help: str, label: str) -> None:
        self.name = name
        self.help = help
        self.label = label
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def took(self, value: str, took_ms: float) -> None:
        buckets = self._buckets.get(value)
        if buckets is None:
            buckets = self._buckets[value] = [0] * (len(BUCKETS_MS) + 1)
            self._sums[value] = 0.0
        buckets[bisect_left(BUCKETS_MS, took_ms)] += 1
        self._sums[value] += took_ms

    def tally(self) -> Iterator[tuple[str, str, float]]:
        """Yield each label's value with the number of a bucket or `sum`, and what that holds."""
        for value, buckets in self._buckets.items():
            yield value, "sum", self._sums[value]
            yield from ((value, str(n), held) for n, held in enumerate(buckets) if held)

    def add(self, value: str, part: str, by: float) -> None:
        """Add what another process has counted, by the names of its tally."""
        buckets = self._buckets.setdefault(value, [0] * (len(BUCKETS_MS) + 1))
        self._sums.setdefault(value, 0.0)
        if part == "sum":
            self._sums[value] += by
        else:
            buckets[int(part)] += int(by)

    def rows(self) -> Iterator[tuple[str, list[tuple[str, float]], float]]:
        """Yield each label's value with its sum and buckets, which count all below them too."""
        for value, buckets in self._buckets.items():
            total, rows = 0, []
            for bound, number in zip((*BUCKETS_MS, None), buckets, strict=True):
                total += number
                rows.append(("+Inf" if bound is None else str(bound / 1000), float(total)))
            yield value, rows, self._sums[value] / 1000


class Metrics:
    """Counts of one process. `gauge` values are asked for at the time of a scrape."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._took = Histogram("tool_duration_seconds", "How long tool calls took", "tool")
        self._histograms = [self._took]
        self.counters: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._help: dict[str, str] = {}
        self._at_scrape: dict[object, Callable[[], None]] = {}
        self.on_called: Callable[[], None] = lambda: None
        """Callback for when a tool call was counted."""
        self.gather: Callable[[], Awaitable[None]] | None = None
        """Callback that takes other processes' counts before a scrape, where there are some."""

    def called(self, tool: str, took_ms: float, code: str) -> None:
        """Count a call that ended; `code` is empty when it went well."""
        self.calls[tool, code] += 1
        self._took.took(tool, took_ms)
        self.on_called()

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add to a counter of a group, such as `events_dropped`."""
        self.counters[name, tuple(sorted(labels.items()))] += by

    def describe(self, name: str, help: str) -> None:
        self._help[name] = help

    def histogram(self, name: str, help: str, label: str) -> Histogram:
        """Add one more of them, by one label."""
        self._histograms.append(Histogram(name, help, label))
        return self._histograms[-1]

    def gauge(self, name: str, help: str, value: Callable[[], float]) -> None:
        self._gauges[name] = (help, value)

    def at_scrape(self, update: Callable[[], None]) -> Callable[[], None]:
        """Call `update` before each scrape, until the returned function is called."""
        token = object()
        self._at_scrape[token] = update

        def stop() -> None:
            self._at_scrape.pop(token, None)

        return stop

    def tally(self) -> Tally:
        """Return all counters as they are now, for a process that shows them beside its own."""
        self._update()
        calls = [
            (_CALLS, [("tool", tool), ("error", code)], number)
            for (tool, code), number in self.calls.items()
        ]
        took = [
            (_TOOK, [("tool", tool), ("part", part)], held)
            for tool, part, held in self._took.tally()
        ]
        counted = [(n, list(labels), by) for (n, labels), by in self.counters.items()]
        return [*calls, *took, *counted]

    def take(
        self, told: Tally, taken: dict[tuple[str, tuple[tuple[str, str], ...]], float]
    ) -> None:
        """Add what another process has counted; `taken` is what is added of it already."""
        for name, listed, number in told:
            labels = tuple((key, value) for key, value in listed)
            new = number - taken.get((name, labels), 0)
            taken[name, labels] = number
            if name == _CALLS:
                self.calls[dict(labels)["tool"], dict(labels)["error"]] += int(new)
            elif name == _TOOK:
                self._took.add(dict(labels)["tool"], dict(labels)["part"], new)
            else:
                self.counters[name, labels] += int(new)

    async def scraped(self) -> bytes:
        """Return the text that Prometheus scrapes, with what other processes have counted."""
        if self.gather is not None:
            await self.gather()
        return self.exposition()

    def _update(self) -> None:
        for update in list(self._at_scrape.values()):
            update()

    def exposition(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        self._update()
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.registry import Collector

        families = self._families

        class Ours(Collector):
            def collect(self) -> Iterator[Any]:
                yield from families()

        registry = CollectorRegistry(auto_describe=False)
        registry.register(Ours())
        return generate_latest(registry)

    def _families(self) -> Iterator[Any]:
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        calls = CounterMetricFamily(
            "pilothouse_tool_calls", "Tool calls by outcome", labels=["tool", "error"]
        )
        for (tool, code), number in self.calls.items():
            calls.add_metric([tool, code], number)
        yield calls
        for one in self._histograms:
            took = HistogramMetricFamily(f"pilothouse_{one.name}", one.help, labels=[one.label])
            for shown, rows, total in one.rows():
                took.add_metric([shown], rows, total)
            yield took
        named: dict[str, Any] = {}
        for (name, labels), number in self.counters.items():
            family = named.get(name)
            if family is None:
                help = self._help.get(name, name.replace("_", " "))
                family = named[name] = CounterMetricFamily(
                    f"pilothouse_{name}", help, labels=[key for key, _ in labels]
                )
            family.add_metric([value for _, value in labels], number)
        yield from named.values()
        for name, (help, value) in self._gauges.items():
            yield GaugeMetricFamily(f"pilothouse_{name}", help, value=value())
