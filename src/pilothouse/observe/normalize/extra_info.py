"""What the network itself tells of a request (`…ExtraInfo`), and where it belongs. Pure.

The browser tells it beside the events of a request, before or after them, in the order of the hops
and without their number. No event waits for it: what comes later is put into the event that is kept
already. A hop that never reached the network has none, which its response says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    type Facts = dict[str, Any]

MAX_COOKIES = 50
"""Cookies that a request or response names as blocked."""
NOT_KEPT = -1


@dataclass(slots=True)
class RequestFacts:
    """Facts of a request that its later events need."""

    url: str
    method: str
    hop: int = 0
    resource_type: str = ""
    mime_type: str = ""
    charset: str = ""
    status: int = 0
    from_worker: bool = False
    """A service worker answered it."""
    before: RequestFacts | None = None
    """The hop before, as long as something may still be reported of it."""
    has_extra: bool | None = None
    """The network reports on it; None while that is not known."""
    is_sent_reported: bool = False
    is_answer_reported: bool = False
    sent_seq: int = NOT_KEPT
    answer_seq: int = NOT_KEPT
    """Seq of its response, or of its failure where none came."""
    waiting: Facts | None = None
    """Facts of an answer whose own event has not come yet."""

    def hops(self) -> list[RequestFacts]:
        """Return all hops that are remembered, the first one first."""
        found: list[RequestFacts] = []
        one: RequestFacts | None = self
        while one is not None:
            found.insert(0, one)
            one = one.before
        return found

    def at_hop(self, hop: int) -> RequestFacts | None:
        return next((one for one in self.hops() if one.hop == hop), None)


def place_sent(request: RequestFacts, facts: Facts, amend: Callable[[int, Facts], None]) -> bool:
    """Put what was really sent into the event of its hop; whether there is one."""
    for hop in request.hops() if request.before else (request,):
        if hop.has_extra is not False and not hop.is_sent_reported:
            hop.is_sent_reported = True
            amend(hop.sent_seq, facts)
            return True
    return False


def place_answer(request: RequestFacts, facts: Facts, amend: Callable[[int, Facts], None]) -> bool:
    """Put what really came back into the event of its hop, or keep it until that comes; whether
    there is such a hop."""
    for hop in request.hops() if request.before else (request,):
        if hop.has_extra is not False and not hop.is_answer_reported:
            hop.is_answer_reported = True
            if hop.answer_seq == NOT_KEPT:
                hop.waiting = facts
            else:
                amend(hop.answer_seq, facts)
            return True
    return False


def sent_facts(params: Mapping[str, Any]) -> Facts:
    """Read `requestWillBeSentExtraInfo`."""
    facts: Facts = {"headers": params.get("headers") or {}}
    blocked = [
        _blocked(item.get("cookie") or {}, "", item)
        for item in params.get("associatedCookies") or ()
        if item.get("blockedReasons")
    ]
    return {**facts, "blockedCookies": blocked[:MAX_COOKIES]} if blocked else facts


def answer_facts(params: Mapping[str, Any]) -> Facts:
    """Read `responseReceivedExtraInfo`."""
    facts: Facts = {"wireStatus": params["statusCode"], "headers": params.get("headers") or {}}
    if text := params.get("headersText"):
        facts["headersSize"] = len(text)
    blocked = [
        _blocked(item.get("cookie") or {}, str(item.get("cookieLine") or ""), item)
        for item in params.get("blockedCookies") or ()
    ]
    return {**facts, "blockedCookies": blocked[:MAX_COOKIES]} if blocked else facts


def _blocked(cookie: Mapping[str, Any], line: str, item: Mapping[str, Any]) -> Facts:
    name = cookie.get("name") or line.partition(";")[0].partition("=")[0].strip()
    return {"name": str(name), "reasons": [str(why) for why in item["blockedReasons"]]}


def merged(event: Facts, facts: Facts) -> Facts:
    """Return the event with what the network reported; a header of both is the network's.

    A 304 has few headers of its own: those of the answer that it confirms stay.
    """
    told = facts["headers"]
    names = {name.lower() for name in told}
    known = event.get("headers") or {}
    kept = {name: value for name, value in known.items() if name.lower() not in names}
    return {**event, **facts, "headers": {**kept, **told}}
