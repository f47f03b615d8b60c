"""HAR 1.2 from the normalised events of one target, masked, for any HAR viewer.

Each hop of a redirect chain is an entry of its own. Nothing that was seen is left out: failures,
requests still under way, sockets with their messages, and answers whose request the ring has
dropped. What HAR has no field for stands under names with an underscore, those of Chrome's own
export where it has one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilothouse.observe.har import message
from pilothouse.observe.har.timing import Clocks, iso, number, timings, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pilothouse.core.secrets.redactor import Redactor
    from pilothouse.observe.model import Body

    type Event = dict[str, Any]

_FIRST_PAGE = "before the first recorded navigation"


def har(
    events: Iterable[tuple[int, Event]],
    body_of: Callable[[str], Body | None],
    redactor: Redactor,
    *,
    version: str,
    missing: int = 0,
) -> dict[str, Any]:
    """Return the whole archive.

    `events` are those of one target in order, as they were kept: unpacked and not yet masked.
    `body_of` gives the kept body of a request id. `missing` is how many events came before these
    and are not among them, which the archive says.
    """
    seen = [event for _, event in events]
    recording = _Recording()
    for event in seen:
        recording.add(event)
    writer = _Writer(Clocks.of(seen), body_of, redactor)
    pages = recording.used_pages()
    for place, page in enumerate(pages, 1):
        page.id = f"page_{place}"
    told = [exchange for exchange in recording.exchanges if exchange.reported("url")]
    entries = [writer.entry(exchange) for exchange in told]
    entries.sort(key=lambda entry: str(entry["startedDateTime"]))
    log = {
        "version": "1.2",
        "creator": {"name": "Pilothouse", "version": version},
        "pages": [writer.page(page) for page in pages],
        "entries": entries,
    }
    comments = []
    if missing:
        comments.append(f"{missing} events before these are not in this archive")
    if unknown := len(recording.exchanges) - len(told):
        comments.append(f"{unknown} requests are left out: only their end was recorded, no address")
    if comments:
        log["comment"] = "; ".join(comments)
    return {"log": log}


@dataclass(eq=False, slots=True)
class _Page:
    """A document of the main frame, or the time before the first one."""

    navigated: Event | None = None
    id: str = ""
    exchanges: list[_Exchange] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Exchange:
    """One request with all that followed it: one hop."""

    request_id: str
    first: Event
    page: _Page
    request: Event | None = None
    response: Event | None = None
    end: Event | None = None
    """The end of loading, a failure, or the close of a socket."""
    failure: Event | None = None
    messages: list[Event] = field(default_factory=list)
    is_superseded: bool = False
    """A later hop or request took over its id, and with it the body."""

    @property
    def is_socket(self) -> bool:
        return self.first.get("kind") == "websocket"

    def reported(self, name: str) -> Any:
        """Return a field from the first event that has it."""
        events = (self.request, self.response, self.end, self.failure, self.first)
        return next((event[name] for event in events if event and event.get(name)), None)


class _Recording:
    """The exchanges that events are sorted into, and the pages of those."""

    def __init__(self) -> None:
        self.exchanges: list[_Exchange] = []
        self._page = _Page()
        self._pages = [self._page]
        self._chains: dict[str, dict[int, _Exchange]] = {}
        self._documents: dict[str, str] = {}
        """URL → the request that last loaded it as a document."""

    def add(self, event: Event) -> None:
        if event.get("kind") == "other" and event.get("type") == "navigated":
            self._navigate(event)
            return
        request_id = event.get("requestId")
        if not isinstance(request_id, str) or not request_id:
            return
        match event.get("kind"), event.get("event") or event.get("type"):
            case ("request", _) | ("websocket", "created"):
                self._send(event, request_id)
            case ("response", _) | ("websocket", "open"):
                self._exchange(event, request_id).response = event
            case ("loadingFinished", _) | ("websocket", "closed"):
                self._exchange(event, request_id).end = event
            case ("loadingFailed", _) | ("websocket", "error"):
                self._exchange(event, request_id).failure = event
            case ("websocket", "frame") | ("other", "serverSentEvent"):
                self._exchange(event, request_id).messages.append(event)

    def used_pages(self) -> list[_Page]:
        """Return pages in order, with their exchanges; the first only if something came before."""
        for exchange in self.exchanges:
            exchange.page.exchanges.append(exchange)
        return [page for page in self._pages if page.navigated or page.exchanges]

    def _exchange(self, event: Event, request_id: str) -> _Exchange:
        """Return the hop that an event belongs to, a new one if its request was dropped."""
        chain = self._chains.setdefault(request_id, {})
        hop = whole(event.get("hop"))
        if hop not in chain:
            chain[hop] = _Exchange(request_id, event, self._page)
            self.exchanges.append(chain[hop])
        return chain[hop]

    def _send(self, event: Event, request_id: str) -> None:
        chain = self._chains.setdefault(request_id, {})
        for earlier in chain.values():
            earlier.is_superseded = True
        chain.pop(whole(event.get("hop")), None)  # a browser that was restarted counts anew
        self._exchange(event, request_id).request = event
        if event.get("resourceType") == "Document":
            self._documents[_without_fragment(event)] = request_id

    def _navigate(self, event: Event) -> None:
        """Open a page; its document was requested before the browser moved to it."""
        self._page = _Page(event)
        self._pages.append(self._page)
        request_id = self._documents.pop(_without_fragment(event), "")
        for exchange in self._chains.get(request_id, {}).values():
            exchange.page = self._page


def _without_fragment(event: Event) -> str:
    return str(event.get("url")).partition("#")[0]


@dataclass(frozen=True, slots=True)
class _Writer:
    """A writer of pages and entries as HAR has them."""

    clocks: Clocks
    body_of: Callable[[str], Body | None]
    redactor: Redactor

    def page(self, page: _Page) -> dict[str, Any]:
        starts = [self._started(exchange) for exchange in page.exchanges]
        title = _FIRST_PAGE
        if page.navigated is not None:
            starts.append(self.clocks.epoch(page.navigated))
            title = self.redactor.url(str(page.navigated.get("url", "")))
        return {
            "startedDateTime": iso(min(starts)),
            "id": page.id,
            "title": title,
            "pageTimings": {
                "onContentLoad": self._after(page, "contentLoadTime", min(starts)),
                "onLoad": self._after(page, "loadTime", min(starts)),
            },
        }

    def _after(self, page: _Page, name: str, started: float) -> float:
        """Return the milliseconds from a page's beginning to the named moment, -1 if unknown."""
        at = number((page.navigated or {}).get(name))
        return -1 if at is None else round(max(0.0, at + self.clocks.offset - started) * 1000, 3)

    def entry(self, exchange: _Exchange) -> dict[str, Any]:
        # An answer that the browser refused to hand on is reported with its failure.
        sent, answer = exchange.request or {}, exchange.response or exchange.failure or {}
        started = iso(self._started(exchange))
        method = str(exchange.reported("method") or "GET")
        has_body = not (exchange.is_superseded or exchange.is_socket)
        phases, total = self._timings(exchange)
        outcome = self._outcome(exchange)
        response = message.response(
            answer,
            exchange.reported("status"),
            self.body_of(exchange.request_id) if has_body else None,
            (exchange.end or {}).get("encodedDataLength"),
            self.redactor,
        )
        if "_error" in outcome:
            response["_error"] = outcome["_error"]  # where Chrome looks for it
        return {
            "pageref": exchange.page.id,
            "startedDateTime": started,
            "time": total,
            "request": message.request(
                sent, answer, str(exchange.reported("url") or ""), method, self.redactor
            ),
            "response": response,
            "cache": message.cache(answer, started, self.redactor),
            "timings": phases,
            **self._address(answer),
            "_requestId": exchange.request_id,
            **self._origin(exchange),
            **outcome,
            **self._messages(exchange),
        }

    def _started(self, exchange: _Exchange) -> float:
        if exchange.request is None and (asked := _request_time(exchange)):
            return asked + self.clocks.offset
        return self.clocks.epoch(exchange.first)

    def _timings(self, exchange: _Exchange) -> tuple[dict[str, float], float]:
        answer = exchange.response or {}
        began = self.clocks.steady(exchange.request) or _request_time(exchange)
        # A redirect ends with its answer.
        end = exchange.response if answer.get("redirect") else exchange.failure or exchange.end
        responded, ended = self.clocks.steady(exchange.response), self.clocks.steady(end)
        return timings(answer.get("timing"), began, responded, ended)

    def _address(self, answer: Event) -> dict[str, str]:
        address = answer.get("remoteAddress")
        if not isinstance(address, str):
            return {}
        host, _, port = address.rpartition(":")
        made = {"serverIPAddress": self.redactor.text(host.strip("[]"))}
        return {**made, "connection": port} if port.isdecimal() else made

    def _origin(self, exchange: _Exchange) -> dict[str, Any]:
        made: dict[str, Any] = {}
        resource_type = "websocket" if exchange.is_socket else exchange.reported("resourceType")
        if resource_type:
            made["_resourceType"] = str(resource_type).lower()
        if initiator := exchange.reported("initiator"):
            made["_initiator"] = {"type": str(initiator), **self._place(exchange.request or {})}
        if priority := exchange.reported("priority"):
            made["_priority"] = str(priority)
        for name in ("fromServiceWorker", "fromDiskCache"):
            if exchange.reported(name):
                made[f"_{name}"] = True
        return made

    def _place(self, sent: Event) -> dict[str, Any]:
        """Return the line that a request goes back to, in the terms of Chrome's own export."""
        place = sent.get("initiatedAt")
        if not isinstance(place, dict):
            return {}
        made: dict[str, Any] = {
            "url": self.redactor.url(str(place.get("url", ""))),
            "lineNumber": whole(place.get("line")) - 1,
            "columnNumber": whole(place.get("column")) - 1,
        }
        function = place.get("function")
        return {**made, "functionName": self.redactor.text(str(function))} if function else made

    def _outcome(self, exchange: _Exchange) -> dict[str, Any]:
        made: dict[str, Any] = {}
        is_redirect = bool(exchange.response and exchange.response.get("redirect"))
        if exchange.failure is not None:
            made["_error"] = self.redactor.text(str(exchange.failure.get("errorText") or "failed"))
            if blocked := exchange.failure.get("blockedReason"):
                made["_blockedReason"] = self.redactor.text(str(blocked))
            if exchange.failure.get("canceled"):
                made["_canceled"] = True
        elif exchange.end is None and not is_redirect:
            made["_state"] = "pending"
        lacks_answer = exchange.response is None and exchange.end is not None
        if exchange.request is None or (lacks_answer and exchange.failure is None):
            made["_incomplete"] = True
        if not exchange.reported("method") and not exchange.is_socket:
            made["comment"] = "it was sent before it was recorded: GET is a guess"
        return made

    def _messages(self, exchange: _Exchange) -> dict[str, Any]:
        write = message.frame if exchange.is_socket else message.server_sent
        told = [
            {"time": round(self.clocks.epoch(event), 6), **write(event, self.redactor)}
            for event in exchange.messages
        ]
        if exchange.is_socket:
            return {"_webSocketMessages": told}
        return {"_eventSourceMessages": told} if told else {}


def _request_time(exchange: _Exchange) -> float | None:
    timing = (exchange.response or {}).get("timing")
    return number(timing.get("requestTime")) if isinstance(timing, dict) else None
