"""Counters as plain numbers; Prometheus' text is made of them when somebody asks.

Counting costs an addition, importing the Prometheus client costs more than a whole start should:
so it is imported by the first scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)


class Metrics:
    """Counts of one process. `gauge` values are asked for at the time of a scrape."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()
        self.counters: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._help: dict[str, str] = {}
        self._at_scrape: dict[object, Callable[[], None]] = {}

    def called(self, tool: str, took_ms: float, code: str) -> None:
        """A call ended; `code` is empty when it went well."""
        self.calls[tool, code] += 1
        buckets = self._buckets.get(tool)
        if buckets is None:
            buckets = self._buckets[tool] = [0] * (len(BUCKETS_MS) + 1)
        buckets[bisect_left(BUCKETS_MS, took_ms)] += 1
        self._sums[tool] += took_ms  # type: ignore[assignment]  # a Counter adds floats as well

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Add to a counter of a group, such as `events_dropped`."""
        self.counters[name, tuple(sorted(labels.items()))] += by

    def describe(self, name: str, help: str) -> None:
        self._help[name] = help

    def gauge(self, name: str, help: str, value: Callable[[], float]) -> None:
        self._gauges[name] = (help, value)

    def at_scrape(self, update: Callable[[], None]) -> Callable[[], None]:
        """Call `update` before each scrape, until the returned function is called."""
        token = object()
        self._at_scrape[token] = update

        def stop() -> None:
            self._at_scrape.pop(token, None)

        return stop

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        for update in list(self._at_scrape.values()):
            update()
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
        took = HistogramMetricFamily(
            "pilothouse_tool_duration_seconds", "How long tool calls took", labels=["tool"]
        )
        for tool, buckets in self._buckets.items():
            total, rows = 0, []
            for bound, number in zip((*BUCKETS_MS, None), buckets, strict=True):
                total += number
                rows.append(("+Inf" if bound is None else str(bound / 1000), total))
            took.add_metric([tool], rows, self._sums[tool] / 1000)
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
