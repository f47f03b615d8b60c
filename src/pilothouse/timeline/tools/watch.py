"""Standing watches, and the resources that report them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.declare.fence import Story, visible_json
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Example, tool
from pilothouse.timeline.conditions import FORMS, parse
from pilothouse.timeline.model import (
    WATCHES_URI,
    BadWatch,
    BrowserSessionNotFound,
    TooManyWatches,
    WatchNotFound,
)
from pilothouse.timeline.ports import Watches
from pilothouse.timeline.tools.view import TIMELINE, SessionId


class WatchArgs(Args):
    when: str | None = Field(default=None, max_length=1_200, description=FORMS)
    action: Literal["add", "list", "remove"] | None = Field(
        default=None, description="Default: add with when, else list"
    )
    id: str | None = Field(default=None, description="Watch to remove")
    session_id: SessionId = None


class WatchList(Result):
    id: str = Field(default="", description="The watch that was added or removed")
    uri: str = Field(description="Resource to subscribe to")
    watches: list[dict[str, Any]] = Field(
        description="All that stand: id, when, since, count, texts, first and last time, ended"
    )

    def tell(self, story: Story) -> None:
        count = len(self.watches)
        if self.id:
            stands = any(one["id"] == self.id for one in self.watches)
            story.say(f"{self.id} {'stands' if stands else 'is removed'}.")
        story.say(f"{count} watch{'es' if count != 1 else ''}; {self.uri} changes when one fires,")
        story.say("and the next answer of this session says so below its own text.")
        for one in self.watches:
            story.quote(one["id"], {name: one[name] for name in one if name != "id"})


@tool(
    TIMELINE,
    effect="write",
    raises=(BadWatch, BrowserSessionNotFound, WatchNotFound, TooManyWatches),
    examples=(
        Example(title="Be told of errors in the console", args={"when": "console.error"}),
        Example(title="Be told of answers that failed", args={"when": "status >= 500"}),
        Example(title="See what is watched"),
    ),
)
async def watch(args: WatchArgs, watches: Watches) -> WatchList:
    """Be told when something happens, once, below the next answer whatever it is about."""
    action = args.action or ("add" if args.when is not None else "list")
    touched = ""
    if action == "add":
        if args.when is None:
            raise _missing("when", FORMS)
        condition = parse(args.when)
        touched = (await watches.add(args.when.strip(), condition, args.session_id)).id
    elif action == "remove":
        if args.id is None:
            raise _missing("id", "the id of a watch, such as w1")
        touched = (await watches.remove(args.id)).id
    uri = f"{WATCHES_URI}/{args.session_id}" if args.session_id else WATCHES_URI
    return WatchList(id=touched, uri=uri, watches=watches.reported())


def _missing(field: str, expected: str) -> InvalidInput:
    return InvalidInput(
        f"{field}: is required for this action",
        hint=f"pass {field} as {expected}",
        field=field,
        expected=expected,
        received="nothing",
    )


@resource(TIMELINE, WATCHES_URI)
async def watches(watches: Watches) -> str:
    """The standing watches of this agent: how often each fired, on what, first and last."""
    return visible_json({"watches": watches.reported()})


@resource(TIMELINE, f"{WATCHES_URI}/{{sessionId}}")
async def session_watches(sessionId: str, watches: Watches) -> str:  # as in the URI
    """The standing watches of one browser session."""
    return visible_json({"watches": watches.reported(sessionId)})
