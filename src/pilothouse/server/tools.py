"""Tools and resources of Pilothouse itself: what is served, and what happened so far."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, cast

from pydantic import Field

from pilothouse import __version__
from pilothouse.core.declare.faults import Envelope
from pilothouse.core.declare.fence import Story, visible_json
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Example, Group, tool
from pilothouse.core.timeline.clock import iso
from pilothouse.server.runtime import TIMELINE_URI, Runtime
from pilothouse.server.session import Session

HOUSE = Group(
    name="house",
    summary="Pilothouse itself: what it serves and what happened in this session",
    envelope=Envelope.TYPE,
    own=True,
)

TAIL = 200
"""Moments that the timeline resource shows."""
OWN_IDS = frozenset({"session_id", "sessionId"})
"""Ids that we made ourselves: no secrets, though their names look like ones."""


class StatusArgs(Args):
    pass


class GroupStatus(Result):
    name: str = Field(description="Group, as --tools takes it")
    tools: int = Field(description="How many of its tools are served")


class Status(Result):
    version: str = Field(description="Version of Pilothouse")
    uptime_sec: float = Field(description="Seconds since it started")
    pid: int = Field(description="The process that serves this session")
    session_id: str = Field(description="The session that this call belongs to")
    sessions: int = Field(description="Sessions open in this process")
    profile: str = Field(description="Which tools are listed: default or full")
    groups: list[GroupStatus] = Field(description="Groups that are served")
    services: dict[str, str] = Field(description="Doors beside MCP: address, or why it is off")
    events: dict[str, int] = Field(description="Events kept in this session, by source")
    dropped: dict[str, int] = Field(description="Events that made room for newer ones, by source")

    def tell(self, story: Story) -> None:
        served = ", ".join(f"{group.name} ({group.tools})" for group in self.groups)
        story.say(
            f"Pilothouse {self.version}, up {self.uptime_sec:.0f} s, {self.sessions} session(s)."
        )
        story.say(f"Serving, profile {self.profile}: {served}.")
        for name, where in self.services.items():
            story.say(f"The {name} is at {where}." if "://" in where else f"The {name} is {where}.")
        kept = ", ".join(f"{number} {source}" for source, number in self.events.items())
        story.say(f"This session has kept {kept or 'no'} events.")
        for source, number in self.dropped.items():
            story.say(f"{number} {source} events made room for newer ones.")


@tool(
    HOUSE,
    effect="read",
    profile="default",
    examples=(Example(title="See what is served"),),
)
async def status(args: StatusArgs, runtime: Runtime, session: Session) -> Status:
    """Show what Pilothouse serves, how long it runs and what this session has recorded."""
    tools = Counter(listing.group for listing in runtime.listings.values())
    return Status(
        version=__version__,
        uptime_sec=round((runtime.clock() - runtime.started_at) / 1000, 3),
        pid=os.getpid(),
        session_id=session.id,
        sessions=len(runtime.sessions),
        profile=runtime.settings.profile,
        groups=[GroupStatus(name=name, tools=number) for name, number in tools.items()],
        services=runtime.all_services,
        events=session.timeline.kept(),
        dropped=session.timeline.dropped(),
    )


@resource(HOUSE, TIMELINE_URI)
async def timeline(session: Session) -> str:
    """The newest 200 events of this session from all sources, in the order they happened."""
    reading = session.timeline.tail(TAIL)
    events = [
        {
            "key": moment.key,
            "event": moment.event.name,
            "time": iso(moment.event.at),
            **cast("dict[str, Any]", session.redactor.value(moment.event.facts(), keep=OWN_IDS)),
            "keys": sorted(moment.event.keys),
        }
        for moment in reading.moments
    ]
    return visible_json(
        {"cursor": reading.cursor, "events": events, "dropped": session.timeline.dropped()}
    )


TOOLS = (status,)
RESOURCES = (timeline,)
