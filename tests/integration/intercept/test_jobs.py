"""Plans that are refused, jobs, and several packets at once: real sockets, a real history."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.declare.faults import Fault, InvalidInput, RateLimited
from pilothouse.intercept.model import ConnectionEnd, JobNotFound, PacketNotFound
from pilothouse.intercept.replay import edits
from pilothouse.intercept.replay.http1 import parse_head
from pilothouse.intercept.replay.jobs import KEPT_JOBS, MOST_RUNNING
from tests.integration.intercept.history_rig import CLOCK
from tests.integration.intercept.resend_rig import (
    GET,
    OK,
    Rig,
    Wire,
    bulk,
    open_jobs,
    regex,
    resent,
    wire_server,
)
from tests.support.until import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

# What is refused


async def test_a_packet_that_is_not_there_is_an_error_and_nothing_is_sent(
    jobs_rig: Rig, wire: Wire
) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    with pytest.raises(PacketNotFound):
        await bulk(jobs_rig, [packet_id, 999])
    assert wire.came == []
    assert jobs_rig.jobs.jobs() == []


async def test_a_body_that_was_cut_cannot_be_sent_again(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET, b"abc", body_length=1_000)
    with pytest.raises(InvalidInput, match="only the first 3 of 1000 bytes"):
        await resent(jobs_rig, packet_id)
    assert wire.came == []


async def test_packets_that_are_too_large_together_are_refused(
    jobs_rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.intercept.replay.jobs.MOST_BYTES", 1_000)
    ids = [await jobs_rig.packet(wire.port, GET, b"x" * 600) for _ in range(2)]
    assert (await bulk(jobs_rig, [ids[0], ids[0]]))["success"] is True
    with pytest.raises(InvalidInput, match="together"):
        await bulk(jobs_rig, ids)


async def test_a_packet_to_a_port_of_our_own_is_refused(jobs_rig: Rig) -> None:
    packet_id = await jobs_rig.packet(32350, GET)
    with pytest.raises(InvalidInput, match="a port of Pilothouse itself"):
        await resent(jobs_rig, packet_id)


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({"packet_id": 0}, "packet_id"),
        ({"packet_id": "1"}, "packet_id"),
        ({"packet_id": True}, "packet_id"),
        ({"packet_id": None}, "packet_id"),
        ({"count": 0}, "count"),
        ({"count": 1_001}, "count"),
        ({"count": 10_000}, "count"),
        ({"count": 1.5}, "count"),
        ({"interval_ms": -1}, "interval_ms"),
        ({"interval_ms": 60_001}, "interval_ms"),
        ({"timeout_ms": 999}, "timeout_ms"),
        ({"timeout_ms": 300_001}, "timeout_ms"),
        ({"async": "yes"}, "async"),
        ({"allow_duplicate_headers": 1}, "allow_duplicate_headers"),
        ({"modifications": {}}, "modifications"),
        ({"modifications": [{"type": "x"}]}, "modifications[0].type"),
        ({"packets": [1]}, "packets"),
        ({"count": 1_000, "interval_ms": 60_000}, "async"),
    ],
)
async def test_a_wrong_plan_is_refused_by_the_name_of_its_field(
    jobs_rig: Rig, plan: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await resent(jobs_rig, plan.pop("packet_id", 1), **plan)
    assert refused.value.details["field"] == field
    assert refused.value.details["expected"]
    assert jobs_rig.jobs.jobs() == []


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ({"packet_ids": []}, "packet_ids"),
        ({"packet_ids": 1}, "packet_ids"),
        ({"packet_ids": [1] * 101}, "packet_ids"),
        ({"packet_ids": [1, "2"]}, "packet_ids[1]"),
        ({"mode": "random"}, "mode"),
        ({"mode": "parallel", "interval_ms": 5}, "interval_ms"),
        ({"packet_ids": [1] * 100, "count": 100}, "count"),
        ({"regex_params": {}}, "regex_params"),
        ({"regex_params": ["x"]}, "regex_params[0]"),
        ({"regex_params": [{"pattern": "("}]}, "regex_params[0].pattern"),
        ({"regex_params": [{"pattern": "a"}]}, "regex_params[0].replacement"),
        (
            {"regex_params": [{"pattern": "a", "value_template": "b", "packet_index": 1}]},
            "regex_params[0].packet_index",
        ),
        ({"regex_params": [{"pattern": "a", "value": "b"}]}, "regex_params[0].value"),
    ],
)
async def test_a_wrong_bulk_plan_is_refused_by_the_name_of_its_field(
    jobs_rig: Rig, plan: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await bulk(jobs_rig, plan.pop("packet_ids", [1]), **plan)
    assert refused.value.details["field"] == field


async def test_more_sends_than_a_minute_allows_are_refused_at_once(tmp_path: Path) -> None:
    now = CLOCK()
    async with open_jobs(tmp_path, clock=lambda: now) as jobs_rig, wire_server() as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        await resent(jobs_rig, packet_id, count=10)
        plan = {"packet_ids": [packet_id] * 6, "count": 1_000, "async": True}
        with pytest.raises(RateLimited) as refused:
            await jobs_rig.jobs.bulk_send(plan)
        assert len(wire.came) == 10
        assert refused.value.details["retryAfterSec"] == 60.0
        now += 60_000
        made = await jobs_rig.jobs.bulk_send(plan)
        assert (await jobs_rig.jobs.stop_job(made["job_id"]))["status"] == "stopped"


async def test_only_so_many_jobs_run_at_once(jobs_rig: Rig) -> None:
    async with wire_server(b"", closes=False) as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        for _ in range(MOST_RUNNING):
            await resent(jobs_rig, packet_id, **{"async": True})
        with pytest.raises(RateLimited, match="jobs are running"):
            await resent(jobs_rig, packet_id)
        await jobs_rig.jobs.stop_job(jobs_rig.jobs.jobs()[0]["job_id"])
        made = await resent(jobs_rig, packet_id, **{"async": True})
        assert made["success"] is True


# Jobs


async def test_an_async_call_answers_at_once_and_its_job_tells_the_rest(
    jobs_rig: Rig, wire: Wire
) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, count=5, **{"async": True})
    assert answer["sent_count"] == 0
    assert answer["status"] in ("created", "sending_requests")
    job_id = answer["job_id"]
    await until(lambda: jobs_rig.jobs.job(job_id)["status"] == "completed")
    job = jobs_rig.jobs.job(job_id)
    assert (job["total_requests"], job["requests_sent"], job["responses_received"]) == (5, 5, 5)
    assert job["requests_left_off"] == 0
    for number, request in enumerate(job["requests"], 1):
        assert request["temporary_id"] == f"{job_id}-{number}"
        assert jobs_rig.detail(request["request_packet_id"]).row["job"] == job_id
        response = jobs_rig.detail(request["request_packet_id"]).response
        assert response is not None
        assert request["response_packet_id"] == response.id


async def test_a_job_can_be_stopped_and_keeps_what_it_sent(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await resent(jobs_rig, packet_id, count=1_000, interval_ms=20, **{"async": True})
    await until(lambda: jobs_rig.jobs.job(answer["job_id"])["sent_count"] >= 3)
    stopped = await jobs_rig.jobs.stop_job(answer["job_id"])
    assert stopped["status"] == "stopped"
    sent = len(wire.came)
    assert 3 <= sent < 1_000
    assert all(one["request_packet_id"] for one in stopped["requests"])
    assert await jobs_rig.jobs.stop_job(answer["job_id"]) == stopped
    # Longer than the job's own interval, during which it would have sent more.
    await resent(jobs_rig, packet_id, count=3, interval_ms=40)
    assert len(wire.came) == sent + 3


async def test_stopping_records_what_was_under_way(jobs_rig: Rig) -> None:
    async with wire_server(b"", closes=False) as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        answer = await resent(jobs_rig, packet_id, **{"async": True})
        await until(lambda: len(wire.came) == 1)
        stopped = await jobs_rig.jobs.stop_job(answer["job_id"])
    detail = jobs_rig.detail(stopped["requests"][0]["request_packet_id"])
    assert detail.row["error"] == "stopped before the end of the response"


async def test_a_caller_that_goes_away_stops_its_job(jobs_rig: Rig) -> None:
    async with wire_server(b"", closes=False) as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        call = asyncio.create_task(resent(jobs_rig, packet_id))
        await until(lambda: len(wire.came) == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: jobs_rig.jobs.jobs()[0]["status"] == "stopped")


async def test_an_edit_that_changes_nothing_is_told(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    missing, fitting = regex("no such text", "x"), regex("GET", "PUT")
    answer = await resent(jobs_rig, packet_id, modifications=[missing, fitting])
    assert answer["warnings"] == ["modifications[0] found nothing to change"]
    assert jobs_rig.jobs.job(answer["job_id"])["warnings"] == answer["warnings"]
    assert "warnings" not in await resent(jobs_rig, packet_id, modifications=[fitting])


async def test_a_session_sees_and_stops_its_own_jobs_alone(jobs_rig: Rig) -> None:
    async with wire_server(b"", closes=False) as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        plan = {"packet_id": packet_id, "async": True}
        mine, theirs = [
            (await jobs_rig.jobs.resend({**plan, "session": session}))["job_id"]
            for session in ("s1", "s2")
        ]
        assert [job["job_id"] for job in jobs_rig.jobs.jobs("s1")] == [mine]
        assert [job["job_id"] for job in jobs_rig.jobs.jobs()] == [theirs, mine]
        assert jobs_rig.jobs.job(theirs)["job_id"] == theirs
        with pytest.raises(JobNotFound):
            jobs_rig.jobs.job(theirs, "s1")
        with pytest.raises(JobNotFound):
            await jobs_rig.jobs.stop_job(theirs, "s1")
        await jobs_rig.jobs.stop("s1")
        assert jobs_rig.jobs.job(mine, "s1")["status"] == "stopped"
        assert jobs_rig.jobs.job(theirs, "s2")["status"] in ("created", "sending_requests")


async def test_jobs_of_one_session_leave_room_for_those_of_another(jobs_rig: Rig) -> None:
    async with wire_server(b"", closes=False) as wire:
        packet_id = await jobs_rig.packet(wire.port, GET)
        for _ in range(MOST_RUNNING):
            await resent(jobs_rig, packet_id, **{"async": True})
        plan = {"packet_id": packet_id, "session": "s2", "async": True}
        assert (await jobs_rig.jobs.resend(plan))["success"] is True


async def test_an_unknown_job_is_an_error(jobs_rig: Rig) -> None:
    with pytest.raises(JobNotFound):
        jobs_rig.jobs.job("nope")
    with pytest.raises(JobNotFound):
        await jobs_rig.jobs.stop_job("nope")


async def test_the_newest_jobs_are_kept(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    first = await resent(jobs_rig, packet_id)
    for _ in range(KEPT_JOBS):
        last = await resent(jobs_rig, packet_id)
    jobs = jobs_rig.jobs.jobs()
    assert len(jobs) == KEPT_JOBS
    assert jobs[0]["job_id"] == last["job_id"]
    with pytest.raises(JobNotFound):
        jobs_rig.jobs.job(first["job_id"])


async def test_a_history_that_cannot_be_written_does_not_hide_the_send(
    jobs_rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)

    async def full(_exchange: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(jobs_rig.jobs, "_record", full)
    answer = await resent(jobs_rig, packet_id)
    assert (answer["sent_count"], answer["packet_ids"]) == (1, [])
    assert answer["errors"] == ["send 1 was not recorded: no space left on device"]


# Several packets


async def test_parallel_is_really_parallel(jobs_rig: Rig) -> None:
    all_there = asyncio.Event()
    there = 0

    async def wait_for_all(_request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal there
        there += 1
        if there == 12:
            all_there.set()
        await all_there.wait()
        writer.write(OK)

    async with wire_server(wait_for_all) as wire:
        ids = [await jobs_rig.packet(wire.port, GET) for _ in range(4)]
        answer = await bulk(jobs_rig, ids, count=3)
    assert (answer["success"], answer["sent_count"], answer["total_count"]) == (True, 12, 12)
    assert answer["performance"]["concurrent_connections"] == 12
    assert wire.most_open == 12


async def test_parallel_sends_are_bounded(jobs_rig: Rig, wire: Wire) -> None:
    packet_id = await jobs_rig.packet(wire.port, GET)
    answer = await bulk(jobs_rig, [packet_id] * 10, count=10)
    assert answer["sent_count"] == 100
    assert answer["performance"]["concurrent_connections"] == 20
    assert wire.most_open <= 20
    assert len({each for one in answer["results"] for each in one["packet_ids"]}) == 100


async def test_sequential_sends_one_after_another_in_order(jobs_rig: Rig, wire: Wire) -> None:
    ids = [await jobs_rig.packet(wire.port, GET.replace(b"abc", name)) for name in (b"x", b"y")]
    answer = await bulk(
        jobs_rig,
        ids,
        mode="sequential",
        count=2,
        interval_ms=1,
        modifications=[
            {"type": "header_add", "name": "X-N", "value": "{{packet_index}}-{{index}}"}
        ],
    )
    came = [(parse_head(each).words[1], parse_head(each).values("x-n")[0]) for each in wire.came]
    assert came == [
        (b"/a?sessionId=x", b"0-1"),
        (b"/a?sessionId=x", b"0-2"),
        (b"/a?sessionId=y", b"1-1"),
        (b"/a?sessionId=y", b"1-2"),
    ]
    assert wire.most_open == 1
    assert answer["mode"] == "sequential"
    for place, result in enumerate(answer["results"]):
        assert result["original_packet_id"] == ids[place]
        assert (result["packet_index"], result["success"], result["sent_count"]) == (place, True, 2)
        assert len(result["packet_ids"]) == 2


async def test_regex_params_change_the_packets_that_they_name(jobs_rig: Rig, wire: Wire) -> None:
    ids = [await jobs_rig.packet(wire.port, GET.replace(b"abc", name)) for name in (b"x1", b"y2")]
    answer = await bulk(
        jobs_rig,
        ids,
        mode="sequential",
        count=2,
        regex_params=[
            {"pattern": "sessionId=(\\w)", "value_template": "sid=$1{{index}}"},
            {"packet_index": 1, "pattern": "Host", "value_template": "hOST", "target": "request"},
        ],
    )
    assert [parse_head(each).words[1] for each in wire.came] == [
        b"/a?sid=x11", b"/a?sid=x21", b"/a?sid=y12", b"/a?sid=y22",
    ]  # fmt: skip
    assert [b"hOST" in each for each in wire.came] == [False, False, True, True]
    assert answer["regex_params_applied"] == [
        {
            "packet_index": 0,
            "pattern": "sessionId=(\\w)",
            "extracted_value": "sessionId=x",
            "applied_count": 2,
        },
        {
            "packet_index": 1,
            "pattern": "sessionId=(\\w)",
            "extracted_value": "sessionId=y",
            "applied_count": 2,
        },
        {"packet_index": 1, "pattern": "Host", "extracted_value": "Host", "applied_count": 2},
    ]


async def test_one_dead_server_does_not_stop_the_others(jobs_rig: Rig, wire: Wire) -> None:
    async with wire_server() as gone:
        dead = await jobs_rig.packet(gone.port, GET, server=ConnectionEnd("127.0.0.1", gone.port))
    live = await jobs_rig.packet(wire.port, GET)
    answer = await bulk(jobs_rig, [dead, live])
    assert (answer["success"], answer["sent_count"], answer["failed_count"]) == (False, 1, 1)
    assert [result["success"] for result in answer["results"]] == [False, True]
    assert "while connecting" in answer["results"][0]["error"]


async def test_the_loop_goes_on_while_a_large_body_is_edited(
    jobs_rig: Rig, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b"0123456789abcdef" * 65_536
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    packet_id = await jobs_rig.packet(wire.port, head, body)
    threads: list[int] = []

    apply = edits.apply

    def noted(*args: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return apply(*args, **options)

    monkeypatch.setattr(edits, "apply", noted)
    answer = await resent(jobs_rig, packet_id, modifications=[regex("9abc", "-")])
    assert threads
    assert threading.get_ident() not in threads
    assert answer["sent_count"] == 1
    assert wire.came[-1].count(b"-d") == 65_536


async def test_every_refusal_is_a_declared_fault(jobs_rig: Rig) -> None:
    plans: list[dict[str, Any]] = [{}, {"packet_id": []}, {"packet_id": 1, "count": "x"}]
    for plan in plans:
        with pytest.raises(Fault):
            await jobs_rig.jobs.resend(plan)
