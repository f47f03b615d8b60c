"""Plans that agents made and have not carried out yet: few, and not for long."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.core.declare.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pilothouse.bookmarks.changes.change import Change
    from pilothouse.bookmarks.changes.preview import Mark

MOST_OF_A_SESSION = 8
MOST = 64
LIFE_S = 3600.0


class PlanNotFound(Fault):
    """No plan of this session has this id: it was applied, or it is too old."""

    code = "plan_not_found"
    status = 404


@dataclass(frozen=True, slots=True)
class ChangePlan:
    id: str
    session: str
    changes: tuple[Change, ...]
    expected: Mapping[str, Mark]
    """State of the bookmarks that it is about, when it was made."""
    at: float
    """Time at which it was made, on the monotonic clock."""


class Plans:
    """The newest plans of each session."""

    def __init__(self) -> None:
        self._plans: dict[str, ChangePlan] = {}

    def add(
        self, session: str, changes: Sequence[Change], expected: Mapping[str, Mark]
    ) -> ChangePlan:
        self._expire()
        own = [plan.id for plan in self._plans.values() if plan.session == session]
        for plan_id in own[: max(0, len(own) + 1 - MOST_OF_A_SESSION)]:
            del self._plans[plan_id]
        while len(self._plans) >= MOST:
            del self._plans[next(iter(self._plans))]
        plan_id = f"p-{secrets.token_hex(4)}"
        plan = ChangePlan(plan_id, session, tuple(changes), expected, time.monotonic())
        self._plans[plan_id] = plan
        return plan

    def find(self, plan_id: str, session: str) -> ChangePlan | None:
        self._expire()
        plan = self._plans.get(plan_id)
        return plan if plan is not None and plan.session == session else None

    def drop(self, plan: ChangePlan) -> None:
        self._plans.pop(plan.id, None)

    def _expire(self) -> None:
        oldest = time.monotonic() - LIFE_S
        for plan in list(self._plans.values()):
            if plan.at < oldest:
                del self._plans[plan.id]
