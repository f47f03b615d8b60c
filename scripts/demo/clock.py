"""The chapter in which all that happened stands on one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scripts.demo.telling import DemoFailed, Moment, Moments

if TYPE_CHECKING:
    from scripts.demo.agent import Agent
    from scripts.demo.telling import Teller

WINDOW_MS = 1_500
LANES = {"steps", "network", "packets", "server", "console"}
"""Where the story's fault must be seen."""


async def tell(agent: Agent, teller: Teller, error: dict[str, Any]) -> None:
    """Walk back from the console's error, which the dossier names. Raises DemoFailed."""
    teller.begin("Put it on one clock: from the click to the console")
    key = next((one["key"] for one in error.get("console", ())), "")
    if not key:
        raise DemoFailed("the dossier has no console error, although the page threw one")
    found = await agent.call("causes", of=key)
    chain = tuple(map(_moment, found["chain"]))
    missing = LANES - {row.lane for row in chain}
    if missing:
        raise DemoFailed(f"the chain of {key} has nothing of {', '.join(sorted(missing))}")
    known = "known by ids" if found["certain"] else "known by an id, or a guess that says so"
    teller.say(f"{key} goes back to {found['root']}; each link is {known}.")
    teller.show(Moments("What led to the error", chain))
    around = await agent.call("timeline", around=found["root"], window=WINDOW_MS)
    rows = tuple(map(_moment, around["moments"]))
    teller.show(Moments(f"Everything around {found['root']}", rows), only_in_report=True)


def _moment(told: dict[str, Any]) -> Moment:
    joined = (one for one in told.get("links", ()) if one["role"] == "cause")
    why = "; ".join(f"after {one['key']}: {one['why']}" for one in joined)
    when = f"{told['offsetMs'] / 1000:+.3f} s"
    return Moment(when, told["lane"], told["text"], why, told["level"] == "error")
