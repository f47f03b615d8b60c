"""The text that Prometheus scrapes, read back by Prometheus' own parser."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pilothouse.hub.workers.worker import _tell_calls
from pilothouse.server.metrics import BUCKETS_MS, Metrics
from tests.support.until import until


def scraped(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Sample name and labels → value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def test_an_idle_runtime_has_a_sound_exposition() -> None:
    assert scraped(Metrics()) == {}
    assert Metrics().exposition().decode().count("# TYPE") == 2


def test_calls_are_counted_by_tool_and_outcome() -> None:
    metrics = Metrics()
    for code in ("", "", "internal"):
        metrics.called("find", 3, code)
    metrics.called("click", 3, "")
    found = scraped(metrics)
    name = "pilothouse_tool_calls_total"
    assert found[name, (("error", ""), ("tool", "find"))] == 2
    assert found[name, (("error", "internal"), ("tool", "find"))] == 1
    assert found[name, (("error", ""), ("tool", "click"))] == 1


def test_histogram_buckets_are_cumulative_and_end_at_the_count() -> None:
    metrics = Metrics()
    taken = (0, 1, 1.01, 40, 9_999, 30_000, 30_001, 1e9)
    for took in taken:
        metrics.called("find", took, "")
    found = scraped(metrics)
    rows = [
        (float(dict(labels)["le"]), value)
        for (name, labels), value in found.items()
        if name == "pilothouse_tool_duration_seconds_bucket"
    ]
    assert [bound for bound, _ in rows] == [*(ms / 1000 for ms in BUCKETS_MS), float("inf")]
    for bound, value in rows:
        assert value == sum(took / 1000 <= bound for took in taken), bound
    values = [value for _, value in rows]
    assert values == sorted(values)
    label = (("tool", "find"),)
    assert found["pilothouse_tool_duration_seconds_count", label] == values[-1] == len(taken)
    assert found["pilothouse_tool_duration_seconds_sum", label] == pytest.approx(sum(taken) / 1000)


def test_counters_and_gauges_of_a_group_come_along_with_their_help() -> None:
    metrics = Metrics()
    metrics.describe("events_dropped", "Events that made room")
    metrics.count("events_dropped", 5, source="console")
    metrics.count("events_dropped", source="console")
    metrics.count("events_dropped", 2, source="network")
    metrics.count("reconnects")
    open_sessions = [3.0]
    metrics.gauge("sessions", "Sessions that are open", lambda: open_sessions[0])
    found = scraped(metrics)
    assert found["pilothouse_events_dropped_total", (("source", "console"),)] == 6
    assert found["pilothouse_events_dropped_total", (("source", "network"),)] == 2
    assert found["pilothouse_reconnects_total", ()] == 1
    assert found["pilothouse_sessions", ()] == 3
    open_sessions[0] = 4
    assert scraped(metrics)["pilothouse_sessions", ()] == 4, "asked for at the time of a scrape"
    text = metrics.exposition().decode()
    assert "# HELP pilothouse_events_dropped_total Events that made room" in text
    assert "# TYPE pilothouse_sessions gauge" in text


@pytest.mark.parametrize("value", ['quo"te', "back\\slash", "new\nline", "ünïcode", "{a=b}"])
def test_labels_survive_any_character(value: str) -> None:
    metrics = Metrics()
    metrics.count("pages", title=value)
    assert scraped(metrics)["pilothouse_pages_total", (("title", value),)] == 1


def test_counts_of_another_process_are_added_once_however_often_they_are_told() -> None:
    ours, theirs = Metrics(), Metrics()
    ours.count("events_seen", 5)
    theirs.count("events_seen", 2)
    theirs.count("workers_ended", why="idle")
    theirs.called("cdp_observe", 3.0, "")
    taken: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for _ in range(2):
        ours.take(json.loads(json.dumps(theirs.tally())), taken)
    assert ours.counters["events_seen", ()] == 7
    assert ours.counters["workers_ended", (("why", "idle"),)] == 1
    assert ours.calls["cdp_observe", ""] == 1
    theirs.count("events_seen", 3)
    ours.take(theirs.tally(), taken)
    assert ours.counters["events_seen", ()] == 10


def test_how_long_calls_took_in_another_process_is_shown_beside_our_own() -> None:
    worker, hub = Metrics(), Metrics()
    hub.called("find", 3, "")
    taken: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for took in (40.0, 700.0):
        worker.called("find", took, "")
        hub.take(json.loads(json.dumps(worker.tally())), taken)
    alone = Metrics()
    for took in (3, 40.0, 700.0):
        alone.called("find", took, "")
    assert scraped(hub) == pytest.approx(scraped(alone))


@pytest.mark.anyio
async def test_a_worker_tells_its_counts_soon_after_a_call_and_not_without_one() -> None:
    worker, told = Metrics(), []

    def tell(do: str, **given: object) -> None:
        told.append((do, given["told"]))

    _tell_calls(SimpleNamespace(tell=tell), SimpleNamespace(metrics=worker))  # type: ignore[arg-type]
    for _ in range(3):
        worker.called("find", 3, "")
    await until(lambda: bool(told))
    assert told == [("house.counted", worker.tally())]
