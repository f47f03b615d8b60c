"""A job: what it sends, how far it is, and how that is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.clock import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.core.declare.faults import Fault
    from pilothouse.core.timeline.clock import Clock
    from pilothouse.intercept.model import Exchange
    from pilothouse.intercept.replay.edits import RegexReplace
    from pilothouse.intercept.replay.plan import SendPlan
    from pilothouse.intercept.replay.send import SendTemplate

SHOWN_SENDS = 100
SHOWN_ERRORS = 5
_SHOWN_CHARACTERS = 200


@dataclass(slots=True)
class Send:
    """One of a job's sends."""

    number: int
    """Number over the whole job, from 1."""
    packet_index: int
    index: int
    """Number among those of the same packet, from 1."""
    is_begun: bool = False
    is_finished: bool = False
    has_response: bool = False
    error: str = ""
    duration_ms: float | None = None
    request_id: int = 0
    response_id: int = 0

    @property
    def packet_id(self) -> int:
        """Id of the packet that was sent, once it is in the history; 0 before."""
        return self.request_id or self.response_id

    def view(self, job_id: str) -> dict[str, Any]:
        ids = {"request_packet_id": self.request_id, "response_packet_id": self.response_id}
        return {
            "temporary_id": f"{job_id}-{self.number}",
            "has_request": self.is_begun,
            "has_response": self.has_response,
            **{name: packet_id for name, packet_id in ids.items() if packet_id},
            **({"error": self.error} if self.error else {}),
        }


@dataclass(slots=True)
class Extract:
    """Text that one of `regex_params` found in one packet."""

    packet_index: int
    place: int
    """Place among the edits of that packet."""
    edit: RegexReplace
    value: str | None = None
    count: int = 0

    def view(self) -> dict[str, Any]:
        shown = self.value
        if shown is not None and len(shown) > _SHOWN_CHARACTERS:
            shown = shown[:_SHOWN_CHARACTERS] + "…"
        return {
            "packet_index": self.packet_index,
            "pattern": self.edit.pattern,
            "extracted_value": shown,
            "applied_count": self.count,
        }


class Barrier:
    """Barrier that holds sends until each of them is ready, or has failed before it was."""

    def __init__(self, sends: int) -> None:
        self._missing = sends
        self._all_here = asyncio.Event()

    def pass_by(self) -> None:
        """Count a send that will not wait any more."""
        self._missing -= 1
        if self._missing <= 0:
            self._all_here.set()

    async def wait(self) -> None:
        """Return when the last one has come."""
        self.pass_by()
        await self._all_here.wait()


class BarrierTurn:
    """One send's place at a barrier, if there is one."""

    def __init__(self, barrier: Barrier | None) -> None:
        self._barrier = barrier

    async def wait(self) -> None:
        """Return when this send may go out."""
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            await barrier.wait()

    def give_up(self) -> None:
        """Let the others go on without this send, if they still wait for it."""
        if self._barrier is not None:
            self._barrier.pass_by()


class Job:
    """A job, which counts its sends as they begin and end."""

    def __init__(
        self, job_id: str, plan: SendPlan, templates: Sequence[SendTemplate], clock: Clock
    ) -> None:
        self.id = job_id
        self.plan = plan
        self.templates = templates
        self.sends = [
            Send(place * plan.count + copy, place, copy)
            for place in range(len(plan.packet_ids))
            for copy in range(1, plan.count + 1)
        ]
        self.extracts = [
            Extract(place, number, edit)
            for place in range(len(plan.packet_ids))
            for number, edit in enumerate(_own_edits(plan, place))
        ]
        self.barrier = Barrier(len(self.sends)) if plan.has_barrier else None
        self.task: asyncio.Task[None] | None = None
        self.recording: set[asyncio.Future[None]] = set()
        self.fault: Fault | None = None
        """First fault of the plan itself, None without one."""
        self.is_stopped = False
        self._clock = clock
        self._created = clock()
        self._ended: float | None = None
        self._begun = False
        self._open = 0
        self._most_open = 0
        self._errors: list[str] = []
        self._idle = set(range(len(plan.edits)))
        """Places among the modifications of those that have changed nothing yet."""

    def begin(self) -> None:
        self._begun = True

    def stop(self) -> None:
        """Send nothing more."""
        if self.is_running and not self.is_stopped and self.task is not None:
            self.is_stopped = True
            self.task.cancel()

    def settle(self, task: asyncio.Task[None]) -> None:
        """Note that the task has ended, perhaps before it could begin."""
        self.is_stopped = self.is_stopped or task.cancelled()
        self._ended = self._clock()
        self.templates = ()  # their bodies may be large, and nothing is sent any more

    def began(self, send: Send) -> None:
        send.is_begun = True
        self._open += 1
        self._most_open = max(self._most_open, self._open)

    def finished(self, send: Send, exchange: Exchange) -> None:
        self._open -= 1
        send.is_finished = True
        send.error = exchange.error
        send.duration_ms = exchange.duration_ms
        send.has_response = exchange.request is not None and exchange.response is not None
        if exchange.error and len(self._errors) < SHOWN_ERRORS:
            self._errors.append(f"send {send.number}: {exchange.error}")

    def unrecorded(self, send: Send, problem: Exception) -> None:
        if len(self._errors) < SHOWN_ERRORS:
            self._errors.append(f"send {send.number} was not recorded: {problem}")

    def count_changes(self, send: Send, counts: Sequence[int]) -> None:
        """Count, for each edit of a send, how many places it changed."""
        for extract in self.extracts:
            if extract.packet_index == send.packet_index and extract.place < len(counts):
                extract.count += counts[extract.place]
        own = len(counts) - len(self.plan.edits)
        self._idle -= {place for place in self._idle if own >= 0 and counts[own + place]}

    @property
    def is_running(self) -> bool:
        return self._ended is None

    @property
    def sent_count(self) -> int:
        return sum(send.is_finished and not send.error for send in self.sends)

    @property
    def unsent_count(self) -> int:
        return sum(not send.is_begun for send in self.sends)

    @property
    def failed_count(self) -> int:
        return sum(bool(send.error) for send in self.sends)

    @property
    def status(self) -> str:
        if self.is_stopped:
            return "stopped"
        if self._ended is None:
            return "sending_requests" if self._begun else "created"
        is_done = all(send.is_finished for send in self.sends)
        return "completed" if is_done and self.sent_count else "failed"

    def answer(self) -> dict[str, Any]:
        """Return the answer of the call that made it: what is known so far, if it goes on."""
        is_good = self.failed_count == 0 and self.status != "stopped"
        made: dict[str, Any] = {
            "success": is_good and self.status != "failed",
            "sent_count": self.sent_count,
            "failed_count": self.failed_count,
            "packet_ids": [send.packet_id for send in self.sends if send.packet_id],
            "execution_time_ms": self._elapsed(),
            "job_id": self.id,
            "status": self.status,
        }
        made |= self._remarks()
        if not self.plan.is_bulk:
            return made
        del made["packet_ids"]  # each of the results has its own
        return {**made, **self._bulk()}

    def summary(self) -> dict[str, Any]:
        return {
            "job_id": self.id,
            "status": self.status,
            "created": iso(self._created),
            "total_requests": self.plan.total,
            "requests_sent": sum(send.is_begun for send in self.sends),
            "responses_received": sum(send.has_response for send in self.sends),
            "sent_count": self.sent_count,
            "failed_count": self.failed_count,
            "execution_time_ms": self._elapsed(),
            **self._remarks(),
        }

    def _remarks(self) -> dict[str, Any]:
        """Return what its caller should know beside the figures, if there is something."""
        made: dict[str, Any] = {"errors": list(self._errors)} if self._errors else {}
        if self._idle and self.sent_count and not self.is_running:
            made["warnings"] = [
                f"modifications[{place}] found nothing to change" for place in sorted(self._idle)
            ]
        return made

    def status_view(self) -> dict[str, Any]:
        """Return the summary and the latest sends."""
        begun = [send for send in self.sends if send.is_begun]
        shown = begun[-SHOWN_SENDS:]
        return {
            **self.summary(),
            "requests": [send.view(self.id) for send in shown],
            "requests_left_off": len(begun) - len(shown),
        }

    def _bulk(self) -> dict[str, Any]:
        spent = [send.duration_ms for send in self.sends if send.duration_ms is not None]
        seconds = max(self._elapsed(), 0.001) / 1000
        return {
            "mode": "parallel" if self.plan.is_parallel else "sequential",
            "total_packets": len(self.plan.packet_ids),
            "total_count": self.plan.total,
            "results": [self._result(place) for place in range(len(self.plan.packet_ids))],
            "regex_params_applied": [extract.view() for extract in self.extracts],
            "performance": {
                "packets_per_second": round(self.sent_count / seconds, 1),
                "average_response_time_ms": round(sum(spent) / len(spent), 1) if spent else None,
                "concurrent_connections": self._most_open,
            },
        }

    def _result(self, place: int) -> dict[str, Any]:
        count = self.plan.count
        sends = self.sends[place * count : (place + 1) * count]
        sent = sum(send.is_finished and not send.error for send in sends)
        error = next((send.error for send in sends if send.error), "")
        return {
            "original_packet_id": self.plan.packet_ids[place],
            "packet_index": place,
            "success": sent == count,
            "sent_count": sent,
            "failed_count": sum(bool(send.error) for send in sends),
            **({"error": error} if error else {}),
            "execution_time_ms": round(sum(send.duration_ms or 0.0 for send in sends), 1),
            "packet_ids": [send.packet_id for send in sends if send.packet_id],
        }

    def _elapsed(self) -> float:
        return round((self._ended or self._clock()) - self._created, 1)


def _own_edits(plan: SendPlan, place: int) -> list[RegexReplace]:
    """Return those of `regex_params`, which come first among a packet's edits."""
    return [param.edit for param in plan.regex_params if param.concerns(place)]
