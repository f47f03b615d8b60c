"""Resends and bulk sends, each carried out as a job that can be looked at and stopped."""

from __future__ import annotations

import asyncio
from secrets import SystemRandom, token_hex
from typing import TYPE_CHECKING, Any, Protocol

from pilothouse.core.declare.faults import Fault, InvalidInput, RateLimited
from pilothouse.intercept.config.variables import values
from pilothouse.intercept.model import Exchange, JobNotFound
from pilothouse.intercept.replay.edits import Message, bad
from pilothouse.intercept.replay.job import BarrierTurn, Job, Send
from pilothouse.intercept.replay.plan import Budget, SendPlan, bulk_plan, resend_plan
from pilothouse.intercept.replay.send import (
    Courier,
    Inject,
    SendTemplate,
    blank_exchange,
    template_of,
)
from pilothouse.intercept.replay.sockets import Sender

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.ports import Detail
    from pilothouse.intercept.replay.sockets import Find, FindGateway

    type Record = Callable[[Exchange], Awaitable[object]]
    """Store an exchange; when it returns, the exchange has its packet ids."""
    type Forbidden = Callable[[str, int], Awaitable[bool]]
    """Function that tells whether a host and port must not be reached."""

MOST_RUNNING = 8
"""Jobs of one session that run at the same time."""
KEPT_JOBS = 100
KEPT_SENDS = 20_000
"""Sends of all kept jobs together."""
_UNRECORDED = 200
"""Sends that may wait for the history before the next one goes out."""
_LARGE = 64 * 1024
"""Bytes of a send's bodies from which it is waited for, so that large ones do not pile up."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of all packets of a call together."""


class PacketReader(Protocol):
    def detail(self, packet_id: int) -> Detail:
        """Return a packet's exchange; raises PacketNotFound."""


class Jobs:
    """All jobs of this process, and what they may use together."""

    def __init__(
        self,
        reader: PacketReader,
        record: Record,
        inject: Inject,
        clock: Clock,
        *,
        ssl_insecure: bool = False,
        ca_file: Path | None = None,
        client_cert: Path | None = None,
        is_forbidden: Forbidden | None = None,
        find: Find | None = None,
        find_gateway: FindGateway | None = None,
    ) -> None:
        """Take what the jobs use: servers' certificates are judged, and ours is shown, as by the
        proxy itself. `is_forbidden` is called before a job begins, `find_gateway` and `find` for
        each of its connections."""
        self._reader = reader
        self._record = record
        self._clock = clock
        self._is_forbidden = is_forbidden
        sender = Sender(
            clock,
            ssl_insecure=ssl_insecure,
            ca_file=ca_file,
            client_cert=client_cert,
            find=find,
            find_gateway=find_gateway,
        )
        self._courier = Courier(sender, inject, clock)
        self._random = SystemRandom()
        self._budget = Budget(clock)
        self._jobs: dict[str, Job] = {}
        """Jobs by their ids, oldest first."""

    async def resend(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Send one packet, so many times.

        Raises:
            InvalidInput, PacketNotFound, RateLimited
        """
        return await self._carry_out(resend_plan(plan))

    async def bulk_send(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Send several packets, at once or one after another; raises as `resend`."""
        return await self._carry_out(bulk_plan(plan))

    # A session sees and may stop its own jobs; None stands for all of them.

    def job(self, job_id: str, session: str | None = None) -> dict[str, Any]:
        """Return how far a job is; raises JobNotFound."""
        return self._found(job_id, session).status_view()

    def jobs(self, session: str | None = None) -> list[dict[str, Any]]:
        """Return the jobs newest first, without their single sends."""
        return [job.summary() for job in reversed(self._of(session))]

    async def stop_job(self, job_id: str, session: str | None = None) -> dict[str, Any]:
        """Send nothing more of it; one that has ended stays as it is.

        Raises:
            JobNotFound
        """
        job = self._found(job_id, session)
        await _stopped([job])
        return job.status_view()

    async def stop(self, session: str | None = None) -> None:
        """Stop every job, of all sessions or of one."""
        await _stopped(self._of(session))

    def _of(self, session: str | None) -> list[Job]:
        return [job for job in self._jobs.values() if session in (None, job.plan.session)]

    def _found(self, job_id: str, session: str | None) -> Job:
        job = self._jobs.get(job_id)
        if job is None or session not in (None, job.plan.session):
            raise JobNotFound(
                f"there is no job {job_id[:80]!r}",
                hint="call get_job_status without job_id to see your jobs",
            )
        return job

    async def _carry_out(self, plan: SendPlan) -> dict[str, Any]:
        self._check_room(plan.session)
        templates = await self._templates(plan)
        # Looked at again: others may have come while the packets were read.
        self._check_room(plan.session)
        taken = self._budget.take(plan.total)
        job = Job(token_hex(16), plan, templates, self._clock)
        self._keep(job)
        job.task = asyncio.create_task(self._run(job), name=f"job {job.id}")
        job.task.add_done_callback(job.settle)
        job.task.add_done_callback(lambda _: self._budget.give_back(taken, job.unsent_count))
        if plan.is_async:
            return job.answer()
        try:
            await asyncio.wait({job.task})
        except asyncio.CancelledError:
            job.stop()  # nobody waits for its answer any more
            raise
        if not job.task.cancelled() and (problem := job.task.exception()):
            raise problem
        if job.fault is not None and not job.sent_count and not plan.is_bulk:
            raise job.fault
        return job.answer()

    def _check_room(self, session: str) -> None:
        running = sum(job.is_running and not job.is_stopped for job in self._of(session))
        if running >= MOST_RUNNING:
            raise RateLimited(
                f"{running} jobs are running, which is the most",
                hint="wait for one, or stop one: get_job_status lists them",
                retryAfterSec=1.0,
            )

    def _keep(self, job: Job) -> None:
        self._jobs[job.id] = job
        ended = [one for one in self._jobs.values() if not one.is_running and one is not job]
        sends = sum(one.plan.total for one in self._jobs.values())
        for one in ended:
            if len(self._jobs) <= KEPT_JOBS and sends <= KEPT_SENDS:
                break
            del self._jobs[one.id]
            sends -= one.plan.total

    async def _templates(self, plan: SendPlan) -> tuple[SendTemplate, ...]:
        """Read and check everything before anything is sent."""
        details: dict[int, Detail] = {}
        for packet_id in dict.fromkeys(plan.packet_ids):
            details[packet_id] = await asyncio.to_thread(self._reader.detail, packet_id)
            if sum(_size(detail) for detail in details.values()) > MOST_BYTES:
                raise bad(
                    "packet_ids",
                    f"packets of at most {MOST_BYTES >> 20} MiB together",
                    list(plan.packet_ids),
                    hint="send fewer of them per call",
                )
        templates = tuple(
            template_of(packet_id, details[packet_id], plan.edits_for(index))
            for index, packet_id in enumerate(plan.packet_ids)
        )
        if self._is_forbidden is not None:
            for template in {one.target: one for one in templates}.values():
                await self._check_target(template, self._is_forbidden)
        return templates

    async def _check_target(self, template: SendTemplate, is_forbidden: Forbidden) -> None:
        target = template.target
        if await is_forbidden(target.ip or target.host, target.port):
            raise InvalidInput(
                f"packet {template.packet_id} goes to {target}, a port of Pilothouse itself",
                hint="send packets of the app under test",
                field="packet_id",
                expected="a packet to another server",
                received=str(template.packet_id),
            )

    async def _run(self, job: Job) -> None:
        job.begin()
        try:
            await self._find_extracts(job)
            if job.plan.is_parallel:
                await self._send_side_by_side(job)
            else:
                await self._send_in_turn(job, iter(job.sends), job.plan.interval_ms / 1000)
        except asyncio.CancelledError:
            job.is_stopped = True
        finally:
            if job.recording:
                await asyncio.wait(job.recording)

    async def _find_extracts(self, job: Job) -> None:
        """Find what each of `regex_params` matches first."""
        for extract in job.extracts:
            side = job.templates[extract.packet_index].side
            message = Message(side.head, side.body)
            extract.value = await asyncio.to_thread(extract.edit.first_match, message)

    async def _send_in_turn(self, job: Job, sends: Iterator[Send], interval_s: float) -> None:
        is_first = True
        for send in sends:
            if interval_s and not is_first:
                await asyncio.sleep(interval_s)
            is_first = False
            await self._send(job, send)
            if job.fault is not None and not job.plan.is_bulk:
                return  # the next one would fare the same

    async def _send_side_by_side(self, job: Job) -> None:
        sends = iter(job.sends)
        lanes = [
            asyncio.ensure_future(self._send_in_turn(job, sends, 0.0))
            for _ in range(min(job.plan.max_concurrent, len(job.sends)))
        ]
        try:
            await asyncio.gather(*lanes)
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.wait(lanes)

    async def _send(self, job: Job, send: Send) -> None:
        template, plan = job.templates[send.packet_index], job.plan
        job.began(send)
        turn = BarrierTurn(job.barrier)
        exchange = blank_exchange(
            template, connection=f"{job.id}-{send.number}", session=plan.session, job=job.id
        )
        try:
            delivery = await self._courier.prepare(
                template,
                plan.edits_for(send.packet_index),
                self._values(send),
                exchange,
                allow_duplicates=plan.allow_duplicate_headers,
                timeout_s=plan.timeout_ms / 1000,
            )
            await self._courier.deliver(delivery, turn.wait)
            job.count_changes(send, delivery.counts)
        except asyncio.CancelledError:
            exchange.error = "stopped before the end of the response"
            raise
        except Fault as fault:
            exchange.error = fault.message
            job.fault = job.fault or fault
            exchange.request = exchange.response = None  # nothing went out
        finally:
            turn.give_up()
            job.finished(send, exchange)
            if exchange.request is not None or exchange.response is not None:
                await self._start_recording(job, send, exchange)

    async def _start_recording(self, job: Job, send: Send, exchange: Exchange) -> None:
        """Record without waiting for the file, so that its commits do not slow a burst down."""
        recording = asyncio.ensure_future(self._recorded(job, send, exchange))
        job.recording.add(recording)
        recording.add_done_callback(job.recording.discard)
        length = sum(len(side.body) for side in (exchange.request, exchange.response) if side)
        if length >= _LARGE:
            await asyncio.wait({recording})
        elif len(job.recording) >= _UNRECORDED:
            await asyncio.wait(job.recording, return_when=asyncio.FIRST_COMPLETED)

    async def _recorded(self, job: Job, send: Send, exchange: Exchange) -> None:
        try:
            await self._record(exchange)
        except Exception as problem:
            # It was sent, whatever became of its record.
            job.unrecorded(send, problem)
        send.request_id, send.response_id = exchange.request_id, exchange.response_id

    def _values(self, send: Send) -> dict[str, str]:
        return values(send.index, self._clock(), self._random, packet_index=str(send.packet_index))


def _size(detail: Detail) -> int:
    return sum(len(side.body) for side in (detail.request, detail.response) if side)


async def _stopped(jobs: list[Job]) -> None:
    """Stop them and wait until all that they have sent is recorded."""
    tasks = [job.task for job in jobs if job.task is not None and not job.task.done()]
    for job in jobs:
        job.stop()
    if tasks:
        await asyncio.wait(tasks)
