"""Tools that send recorded packets again, and the jobs that this makes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.model import SnakeArgs
from pilothouse.core.declare.tool import Example, tool
from pilothouse.intercept.model import JobNotFound, PacketNotFound
from pilothouse.intercept.ports import Interceptor
from pilothouse.intercept.tools.shared import INTERCEPT, WRITES, InterceptArgs, ProxyAnswer, packet

MOST_SENDS = 1_000
MOST_PACKETS = 100
MOST_INTERVAL_MS = 60_000
MOST_TIMEOUT_MS = 300_000
CONCURRENT, MOST_CONCURRENT = 20, 100


class PacketEdit(SnakeArgs):
    # Which fields go together is judged where the edit is carried out.
    type: Literal["regex_replace", "header_add", "header_modify"] = Field(description="Kind")
    target: Literal["request", "response", "both"] | None = Field(
        default=None, description="Default: request"
    )
    pattern: str | None = Field(default=None, description="RE2, for regex_replace")
    replacement: str | None = Field(default=None, description="New text; $1 is a group")
    name: str | None = Field(default=None, description="Header")
    value: str | None = Field(default=None, description="Its value")


class Sending(InterceptArgs):
    """What one packet and several have in common."""

    count: int = Field(default=1, ge=1, le=MOST_SENDS, description="Sends of each")
    interval_ms: int = Field(default=0, ge=0, le=MOST_INTERVAL_MS, description="Between sends")
    modifications: list[PacketEdit] | None = Field(
        default=None,
        description="Edits. Variables: {{index}} {{timestamp}} {{random}} {{uuid}} {{datetime}}",
    )
    async_: bool = Field(default=False, alias="async", description="Answer at once with a job_id")
    allow_duplicate_headers: bool = Field(default=False, description="Add, do not replace")

    def plan(self) -> dict[str, Any]:
        """Return what is to be sent, as `Interceptor.resend` and `bulk_send` take it."""
        given = self.model_dump(by_alias=True, exclude_none=True, exclude={"access_token"})
        return {"modifications": [], **given}


class ResendPacket(Sending):
    packet_id: int = Field(description="Packet")


class SentPacket(ProxyAnswer):
    success: bool = Field(description="Whether all were sent")
    sent_count: int = Field(description="How many were")
    failed_count: int = Field(description="How many were not")
    packet_ids: list[int] = Field(description="The new request packets, in the order of sending")
    execution_time_ms: float = Field(description="How long it took")
    job_id: str = Field(default="", description="For get_job_status")


@tool(
    INTERCEPT,
    effect="write",
    open_world=True,
    profile="default",
    raises=(*WRITES, PacketNotFound),
    examples=(
        Example(title="Once more", args={"packet_id": 123}),
        Example(
            title="Twenty times, each with its number",
            args={
                "packet_id": 123,
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
            },
        ),
    ),
)
async def resend_packet(args: ResendPacket, interceptor: Interceptor) -> SentPacket:
    """Send a recorded packet again, edited or not, once or often."""
    await interceptor.admit(args.token, writes=True)
    packet(args.packet_id)
    done = await interceptor.resend(args.plan())
    return SentPacket.model_validate(interceptor.redactor.texts(done))


class RegexParam(SnakeArgs):
    pattern: str = Field(min_length=1, description="RE2")
    value_template: str = Field(description="New text")
    packet_index: int | None = Field(default=None, ge=0, description="Default: each packet")
    target: Literal["request", "response", "both"] | None = Field(
        default=None, description="Default: request"
    )


class BulkSend(Sending):
    packet_ids: list[int] = Field(
        min_length=1, max_length=MOST_PACKETS, description="Packets; one may stand twice"
    )
    mode: Literal["parallel", "sequential"] = Field(default="parallel", description="How")
    max_concurrent: int = Field(
        default=CONCURRENT, ge=1, le=MOST_CONCURRENT, description="Sends at once, if parallel"
    )
    barrier: bool = Field(
        default=False, description="Connect all, then send all at once; up to max_concurrent"
    )
    regex_params: list[RegexParam] | None = Field(
        default=None, max_length=MOST_PACKETS, description="Edits of single packets"
    )
    timeout_ms: int = Field(
        default=30_000, ge=1_000, le=MOST_TIMEOUT_MS, description="For each response"
    )


class BulkSent(ProxyAnswer):
    success: bool = Field(description="Whether all were sent")
    sent_count: int = Field(description="How many were")
    failed_count: int = Field(description="How many were not")
    execution_time_ms: float = Field(description="How long it took")
    results: list[dict[str, Any]] = Field(
        default_factory=list, description="For each packet what became of it"
    )
    job_id: str = Field(default="", description="For get_job_status")


@tool(
    INTERCEPT,
    effect="write",
    open_world=True,
    raises=(*WRITES, PacketNotFound),
    examples=(
        Example(title="Several", args={"packet_ids": [123, 130]}),
        Example(
            title="A race",
            args={"packet_ids": [123], "count": 30, "max_concurrent": 30, "barrier": True},
        ),
    ),
)
async def bulk_send(args: BulkSend, interceptor: Interceptor) -> BulkSent:
    """Send several recorded packets again, at once or one after another."""
    await interceptor.admit(args.token, writes=True)
    for packet_id in args.packet_ids:
        packet(packet_id)
    done = await interceptor.bulk_send(args.plan())
    return BulkSent.model_validate(interceptor.redactor.texts(done))


class GetJobStatus(InterceptArgs):
    job_id: str | None = Field(default=None, description="Default: all jobs")
    stop: bool = Field(default=False, description="Send nothing more of it")


class JobStatus(ProxyAnswer):
    job_id: str | None = Field(default=None, description="The job")
    status: str | None = Field(default=None, description="How far it is")
    total_jobs: int | None = Field(default=None, description="How many there are")
    jobs: list[dict[str, Any]] | None = Field(default=None, description="Newest first")


@tool(
    INTERCEPT,
    effect="write",
    idempotent=True,
    raises=(*WRITES, JobNotFound),
    examples=(Example(title="All jobs"), Example(title="Stop", args={"job_id": "…", "stop": True})),
    profile="default",
)
async def get_job_status(args: GetJobStatus, interceptor: Interceptor) -> JobStatus:
    """Show how far sending is, or stop it."""
    await interceptor.admit(args.token, writes=args.stop)
    if args.job_id:
        ask = interceptor.stop_job if args.stop else interceptor.job
        return JobStatus.model_validate(interceptor.redactor.texts(await ask(args.job_id)))
    if args.stop:
        raise InvalidInput(
            "job_id: stop needs the job to stop",
            hint="call get_job_status without arguments to see the jobs",
            field="job_id",
            expected="a job_id",
            received="nothing",
        )
    jobs = interceptor.redactor.texts(await interceptor.jobs())
    return JobStatus(total_jobs=len(jobs), jobs=jobs)


TOOLS = (resend_packet, bulk_send, get_job_status)
