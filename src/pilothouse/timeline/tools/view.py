"""The timeline, and what led to a moment of it."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal

from pydantic import Field

from pilothouse.core.declare.faults import Envelope, InvalidInput
from pilothouse.core.declare.fence import Story, visible_json
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.paging import estimated_tokens
from pilothouse.core.declare.tool import Example, Group, tool
from pilothouse.core.timeline.clock import iso
from pilothouse.core.timeline.lanes import MomentKey, key_of, one_line, parse_key
from pilothouse.timeline.causes import causes_of
from pilothouse.timeline.model import BrowserSessionNotFound, ItemLink, MomentNotFound, TimelineItem
from pilothouse.timeline.picture import Picture, joined, moment_of, picture
from pilothouse.timeline.ports import Moments, Scope

TIMELINE = Group(
    name="timeline",
    summary="One clock over steps, console, network, server log and packets, and watches on it",
    envelope=Envelope.TYPE,
    own=True,
)
MOST_CHARACTERS = 200
"""Most characters that are shown of one moment's text."""
CAUSES_WINDOW_MS = 2_000.0
_PLAIN_KEY = re.compile(r"[\w:./-]{1,120}")
_MARK = "m" * 22
"""Text as long as the mark of an answer's fence, for measuring one."""

SessionId = Annotated[
    str | None, Field(description="Session", json_schema_extra={"x-mcp-header": "Session"})
]


class Joint(Result):
    key: str = Field(description="The other moment")
    role: Literal["cause", "effect"] = Field(description="What the other one is to this one")
    how: Literal["id", "time"] = Field(description="By an id that both carry, or by time")
    guess: bool = Field(description="Not certain")
    why: str = Field(description="What speaks for it")


class ShownItem(Result):
    """One item as it is shown."""

    key: str = Field(description="Name of this moment, for around and of")
    lane: str = Field(description="steps, console, network, server, packets or other")
    at: str = Field(description="ISO 8601")
    offset_ms: float = Field(description="From the moment asked for, or from the newest")
    level: str = Field(description="error, warn, info or debug")
    text: str = Field(description="What happened")
    links: list[Joint] = Field(default_factory=list, description="What it is joined with")


class TimelineArgs(Args):
    around: str | None = Field(
        default=None, description="Key: step:4, console:9, request:ID, packet:7, server:3"
    )
    window: int = Field(default=2_000, ge=0, description="ms each side")
    lanes: list[Literal["steps", "console", "network", "server", "packets", "other"]] | None = (
        Field(default=None, description="Default: all")
    )
    limit: int = Field(default=60, ge=1, le=500, description="Moments")
    max_tokens: int | None = Field(default=None, ge=300, description="Budget")
    session_id: SessionId = None


class ShownTimeline(Result):
    around: str = Field(default="", description="The moment asked for")
    at: str = Field(description="Offsets are from here")
    moments: list[ShownItem] = Field(description="In the order in which they happened")
    left_out: dict[str, int] = Field(
        default_factory=dict, description="Moments without room, by lane: raise limit or maxTokens"
    )
    dropped: dict[str, int] = Field(
        default_factory=dict, description="Events that made room for newer ones, by source"
    )

    def tell(self, story: Story) -> None:
        count = len(self.moments)
        if not count and not self.around:
            # Without the names of tools: which of the two are served is not known here.
            story.say(
                "Nothing of this is recorded yet. Starting a browser session or observing a tab"
            )
            story.say("begins a recording;")
            story.say("lanes and sessionId choose from what is.")
            return
        where = f"around {_safe(self.around)}" if self.around else "up to the newest"
        story.say(f"{count} moment{'s' if count != 1 else ''} {where}; seconds from {self.at}.")
        if any(joint.guess for told in self.moments for joint in told.links):
            story.say("? marks a guess by time; the structured content says why.")
        if self.left_out:
            left = ", ".join(f"{number} {lane}" for lane, number in self.left_out.items())
            story.say(f"Left out for want of room: {left}. Raise limit or maxTokens.")
        for source, number in self.dropped.items():
            story.say(f"{number} events of {source} made room for newer ones.")
        for told in self.moments:
            story.quote(_label(told), told.text)


def _label(told: ShownItem) -> str:
    level = f" {told.level}" if told.level in ("error", "warn") else ""
    back = [f"{_safe(j.key)}{'?' if j.guess else ''}" for j in told.links if j.role == "cause"]
    causes = f" ← {', '.join(back)}" if back else ""
    return f"{told.offset_ms / 1000:+.3f} {_safe(told.key)}{level}{causes}"


def _safe(key: str) -> str:
    """Return a key, in quotes unless it is plain: ids of requests are the browser's own words."""
    return key if _PLAIN_KEY.fullmatch(key) else json.dumps(key[:120])


@tool(
    TIMELINE,
    effect="read",
    profile="default",
    raises=(MomentNotFound, BrowserSessionNotFound),
    examples=(
        Example(title="The newest moments of all lanes"),
        Example(
            title="What belongs to a console line",
            args={"around": "console:123", "window": 5_000},
        ),
    ),
)
async def timeline(args: TimelineArgs, moments: Moments) -> ShownTimeline:
    """Show on one clock, joined, what happened: steps, requests, packets, server log, console."""
    scope = moments.scope(args.session_id)
    at, key = None, None
    if args.around is not None:
        key, at = _found(moments, args.around, scope)
    whole = await joined(moments.timeline, scope, at, args.window)
    around = whole.find(str(key)) if key is not None else None
    limit = args.limit
    while True:
        seen = picture(whole, around, args.window, args.lanes or (), limit)
        answer = _shown(seen, moments)
        cost = _cost(answer)
        if args.max_tokens is None or cost <= args.max_tokens or limit == 1:
            return answer
        limit = max(1, min(limit - 1, len(seen.items) * args.max_tokens // cost))


def _cost(answer: ShownTimeline) -> int:
    """Return tokens of the larger part: a client shows its model text or structured content."""
    story = Story()
    answer.tell(story)
    structured = visible_json(answer.model_dump(mode="json", by_alias=True))
    return max(estimated_tokens(story.text(_MARK)), estimated_tokens(structured))


def _found(moments: Moments, text: str, scope: Scope | None) -> tuple[MomentKey, float]:
    """Return the moment that a key means, by its own key, and when it was.

    Raises:
        InvalidInput, MomentNotFound
    """
    try:
        key = parse_key(text)
    except ValueError as error:
        raise InvalidInput(
            str(error), hint="call timeline without it to see keys", received=text[:80]
        ) from None
    moment = moment_of(moments.timeline, key, scope)
    if moment is None:
        dropped = sum(moments.timeline.dropped().values())
        gone = f"; {dropped} older events made room for newer ones" if dropped else ""
        raise MomentNotFound(
            f"nothing of the key {str(key)[:80]} is kept{gone}",
            hint="call timeline without a key to see the newest",
            key=str(key)[:80],
        )
    return key_of(moment), moment.event.at


def _shown(seen: Picture, moments: Moments) -> ShownTimeline:
    return ShownTimeline(
        around=seen.around.key if seen.around else "",
        at=iso(seen.at if seen.items else moments.clock()),
        moments=[_reported(item, seen.links, seen.at, moments) for item in seen.items],
        left_out={str(lane): number for lane, number in seen.left_out.items()},
        dropped=moments.timeline.dropped(),
    )


def _reported(item: TimelineItem, links: list[ItemLink], at: float, moments: Moments) -> ShownItem:
    return ShownItem(
        key=item.key,
        lane=item.lane,
        at=iso(item.at),
        offset_ms=round(item.at - at, 1),
        level=item.level,
        text=one_line(moments.mask(item.text), MOST_CHARACTERS),
        links=[_joint(link, item.key) for link in links if item.key in (link.cause, link.effect)],
    )


def _joint(link: ItemLink, key: str) -> Joint:
    is_effect = link.cause == key
    return Joint(
        key=link.effect if is_effect else link.cause,
        role="effect" if is_effect else "cause",
        how=link.how,
        guess=link.is_guess,
        why=link.why,
    )


# Causes


class CausesArgs(Args):
    of: str = Field(description="Key, as timeline shows it")
    depth: int = Field(default=8, ge=1, le=50, description="Most links back")
    session_id: SessionId = None


class Causes(Result):
    of: str = Field(description="The moment asked for")
    root: str = Field(description="Where it began, as far as is known")
    certain: bool = Field(description="Whether every link is known by an id")
    chain: list[ShownItem] = Field(description="What led to it, causes before effects")
    near: list[ShownItem] = Field(
        description="What went wrong shortly before: only the time speaks for it"
    )

    def tell(self, story: Story) -> None:
        if len(self.chain) == 1:
            story.say(f"Nothing is known to have led to {_safe(self.of)}.")
        else:
            sure = "by ids all the way" if self.certain else "? marks a guess by time"
            story.say(f"{_safe(self.of)} goes back to {_safe(self.root)}; {sure}.")
        for told in self.chain:
            story.quote(_label(told), told.text)
            for joint in told.links:
                if joint.role == "cause":
                    story.quote(f"  why {_safe(joint.key)}", joint.why)
        if self.near:
            story.say("What is only near in time is marked near.")
        for told in self.near:
            story.quote(f"near {_label(told)}", told.text)


@tool(
    TIMELINE,
    effect="read",
    raises=(MomentNotFound, BrowserSessionNotFound),
    examples=(Example(title="Why the console shows an error", args={"of": "console:123"}),),
)
async def causes(args: CausesArgs, moments: Moments) -> Causes:
    """Walk back from a moment to the step that began it; each link says how it is known."""
    scope = moments.scope(args.session_id)
    key, at = _found(moments, args.of, scope)
    whole = await joined(moments.timeline, scope, at, CAUSES_WINDOW_MS)
    item = whole.find(str(key))
    assert item is not None  # it lies in the middle of what was looked at
    chain = causes_of(item, whole.items, whole.links, args.depth)
    return Causes(
        of=item.key,
        root=chain.items[0].key,
        certain=not any(link.is_guess for link in chain.links),
        chain=[_reported(one, chain.links, item.at, moments) for one in chain.items],
        near=[_reported(one, [], item.at, moments) for one in chain.near],
    )
