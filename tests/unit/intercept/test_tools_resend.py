"""Tools that send again: the plan that they make of their arguments, and what they show of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.faults import InvalidInput
from pilothouse.intercept.model import JobNotFound, PacketNotFound
from pilothouse.intercept.plans import bulk_plan, resend_plan
from pilothouse.intercept.resend_tools import bulk_send, get_job_status, resend_packet
from tests.support.fake_interceptor import FakeInterceptor, call, exchange

pytestmark = pytest.mark.anyio

SPEC = {
    "packet_id": 1,
    "count": 20,
    "interval_ms": 100,
    "modifications": [
        {
            "target": "request",
            "type": "regex_replace",
            "pattern": "sessionId=\\w+",
            "replacement": "sessionId=modified_{{index}}",
        },
        {"type": "header_add", "name": "X-Test-Counter", "value": "{{timestamp}}"},
    ],
    "async": False,
    "allow_duplicate_headers": False,
}
"""The call that the spec shows."""


def recorded() -> FakeInterceptor:
    return FakeInterceptor(details={1: exchange(1)})


async def test_the_call_of_the_spec_is_the_plan_that_is_sent() -> None:
    fake = recorded()
    shown = await call(resend_packet, fake, **SPEC)
    ((what, plan),) = fake.asked
    assert (what, plan) == ("resend", SPEC)
    assert resend_plan(plan).total == 20
    assert shown["sent_count"] == 20
    assert len(shown["packet_ids"]) == 20
    assert {"success", "failed_count", "execution_time_ms", "job_id"} <= shown.keys()


async def test_defaults_are_one_send_at_once() -> None:
    fake = recorded()
    await call(resend_packet, fake, packet_id=1)
    ((_, plan),) = fake.asked
    read = resend_plan(plan)
    assert (read.count, read.interval_ms, read.edits, read.is_async) == (1, 0, (), False)


async def test_a_plan_is_never_told_the_token() -> None:
    fake = recorded()
    await call(resend_packet, fake, packet_id=1)
    await call(bulk_send, fake, packet_ids=[1])
    assert all("access_token" not in plan for _, plan in fake.asked)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("count", 0),
        ("count", 1_001),
        ("interval_ms", -1),
        ("interval_ms", 60_001),
        ("async_", True),
        ("modifications", [{"type": "delete"}]),
        ("modifications", [{"pattern": "x"}]),
        ("modifications", [{"type": "header_add", "target": "server"}]),
        ("modifications", "all"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_anything_is(argument: str, value: Any) -> None:
    fake = recorded()
    with pytest.raises(InvalidInput):
        await call(resend_packet, fake, packet_id=1, **{argument: value})
    assert fake.asked == []


@pytest.mark.parametrize("packet_id", [7, 0, 2**70])
async def test_a_packet_that_is_not_there_cannot_be_sent(packet_id: int) -> None:
    with pytest.raises(PacketNotFound):
        await call(resend_packet, recorded(), packet_id=packet_id)


async def test_several_packets_go_in_parallel_by_default() -> None:
    fake = recorded()
    shown = await call(bulk_send, fake, packet_ids=[1, 1, 2], count=2)
    ((_, plan),) = fake.asked
    read = bulk_plan(plan)
    assert read.is_parallel
    assert read.packet_ids == (1, 1, 2)
    assert read.timeout_ms == 30_000
    assert shown["sent_count"] == 6
    assert shown["mode"] == "parallel"


async def test_single_packets_of_many_can_be_edited() -> None:
    fake = recorded()
    param = {"pattern": "id=\\d+", "value_template": "id={{index}}", "packet_index": 1}
    await call(bulk_send, fake, packet_ids=[1, 2], regex_params=[param])
    ((_, plan),) = fake.asked
    read = bulk_plan(plan)
    assert [len(read.edits_for(place)) for place in (0, 1)] == [0, 1]


@pytest.mark.parametrize("packet_ids", [[], list(range(1, 102)), ["one"], None])
async def test_one_to_100_packets_can_be_sent(packet_ids: Any) -> None:
    with pytest.raises(InvalidInput):
        await call(bulk_send, recorded(), packet_ids=packet_ids)


async def test_all_jobs_are_listed() -> None:
    fake = FakeInterceptor(running_jobs={"j1": {"job_id": "j1", "status": "completed"}})
    shown = await call(get_job_status, fake)
    assert shown == {"total_jobs": 1, "jobs": [{"job_id": "j1", "status": "completed"}]}


async def test_one_job_is_shown_with_all_that_is_known_of_it() -> None:
    job = {"job_id": "j1", "status": "sending_requests", "requests_sent": 3}
    shown = await call(get_job_status, FakeInterceptor(running_jobs={"j1": job}), job_id="j1")
    assert shown == job


async def test_a_job_is_stopped() -> None:
    fake = FakeInterceptor(running_jobs={"j1": {"job_id": "j1", "status": "sending_requests"}})
    shown = await call(get_job_status, fake, job_id="j1", stop=True)
    assert shown["status"] == "stopped"
    assert fake.asked == [("stop_job", "j1")]


async def test_stopping_needs_to_know_which() -> None:
    with pytest.raises(InvalidInput, match="stop needs the job"):
        await call(get_job_status, FakeInterceptor(), stop=True)


async def test_an_unknown_job_is_not_found() -> None:
    with pytest.raises(JobNotFound):
        await call(get_job_status, FakeInterceptor(), job_id="j9")
