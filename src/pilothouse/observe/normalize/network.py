"""Requests, responses and sockets: from the protocol's network events to normalised ones.

Chrome reuses the request id across redirects, so each hop is told as a response and a request of
its own with its `hop` number. Responses and the ends of loading carry their request's url and
method, so that filters work on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pilothouse.observe.normalize.extra_info import (
    NOT_KEPT,
    RequestFacts,
    answer_facts,
    merged,
    place_answer,
    place_sent,
    sent_facts,
)
from pilothouse.observe.normalize.parts import cut, frames_of, place_of, text_of
from pilothouse.observe.record.packed_bodies import size, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable

    type Params = dict[str, Any]
    type Made = list[dict[str, Any]]
    type Amend = Callable[[int, dict[str, Any]], None]

MAX_REQUESTS = 20_000
"""Requests whose url is remembered for the events that follow; the oldest are forgotten."""
MAX_EARLY = 1_000
"""Most requests on which the network may report before the browser does."""
MAX_URL_CHARACTERS = 16_384
"""A data: URL holds megabytes, and three events and the request itself would each keep it."""


class NetworkNormalizer:
    """The maker of the network events of one target, its frames and its workers."""

    def __init__(self, max_bytes: Callable[[], int], amend: Amend) -> None:
        """Let `amend` put facts into the event of a seq that is kept already."""
        self._max_bytes = max_bytes
        self._amend = amend
        self.requests: dict[str, RequestFacts] = {}
        self._early: dict[str, list[Params]] = {}
        """Reports of the network on requests that have no event yet."""
        self.makers: dict[str, Callable[[Params], Made]] = {
            "Network.requestWillBeSent": self._request,
            "Network.requestWillBeSentExtraInfo": self._extra,
            "Network.responseReceivedExtraInfo": self._extra,
            "Network.responseReceived": self._response,
            "Network.loadingFinished": self._finished,
            "Network.loadingFailed": self._failed,
            "Network.webSocketCreated": self._socket_created,
            "Network.webSocketHandshakeResponseReceived": self._socket_handshake,
            "Network.webSocketFrameSent": lambda p: self._frame(p, "sent"),
            "Network.webSocketFrameReceived": lambda p: self._frame(p, "recv"),
            "Network.webSocketFrameError": self._socket_error,
            "Network.webSocketClosed": self._socket_closed,
            "Network.eventSourceMessageReceived": self._server_sent,
        }

    def kept(self, event: dict[str, Any], seq: int) -> None:
        """Remember where an event was kept; what the network reported meanwhile goes there."""
        known = self.requests.get(event["requestId"])
        if known is not None and known.hop != event.get("hop", 0):
            known = known.at_hop(event.get("hop", 0))
        if known is None:
            return
        if event["kind"] == "request":
            known.sent_seq = seq
        elif event["kind"] == "response" or known.answer_seq == NOT_KEPT:
            known.answer_seq = seq

    # Requests

    def _request(self, params: Params) -> Made:
        request_id, request = params["requestId"], params["request"]
        made: Made = []
        hop = 0
        redirect = params.get("redirectResponse")
        before = self.requests.pop(request_id, None)
        if redirect is None:
            before = None
        else:
            hop = (before.hop if before else 0) + 1
            made.append(self._redirected(redirect, params, before, hop - 1))
        whole = request["url"] + request.get("urlFragment", "")
        url = whole[:MAX_URL_CHARACTERS]
        known = RequestFacts(
            url, request["method"], hop, str(params.get("type", "")), before=before
        )
        self._remember(request_id, known)
        initiator = params.get("initiator") or {}
        sent: dict[str, Any] = {
            "kind": "request",
            "requestId": request_id,
            "url": url,
            "method": request["method"],
            "headers": request.get("headers", {}),
            "postDataPreview": request.get("postData"),
            "initiator": text_of(initiator, "type") or "other",
            "resourceType": params.get("type"),
            "cdpTime": params.get("timestamp"),
            "wallTime": params.get("wallTime"),
        }
        if priority := request.get("initialPriority"):
            sent["priority"] = priority
        if place := _initiated_at(initiator):
            sent["initiatedAt"] = place
        if hop:
            sent["hop"] = hop
        if request.get("hasPostData") and sent["postDataPreview"] is None:
            sent["hasPostData"] = True  # files, or too large for the browser to send along
        cut(sent, self._max_bytes(), "postDataPreview")
        if len(whole) > len(url):
            sent["truncated"] = {**sent.get("truncated", {}), "url": len(whole)}
        if early := self._early.pop(request_id, None):
            sent = self._with_early(sent, known, early, request_id)
        made.append(sent)
        return made

    def _redirected(
        self, redirect: Params, params: Params, before: RequestFacts | None, hop: int
    ) -> dict[str, Any]:
        """Tell of the answer that led to the request at hand."""
        method = before.method if before else ""
        told = self._reported_response(redirect, params["requestId"], method, hop)
        told |= {"redirect": True, "cdpTime": params.get("timestamp")}
        if before is None:
            return told
        before.has_extra = bool(params.get("redirectHasExtraInfo"))
        return _with_waiting(told, before)

    def _with_early(
        self, sent: dict[str, Any], known: RequestFacts, early: list[Params], request_id: str
    ) -> dict[str, Any]:
        """Add to a request what the network reported on it, keep its answer until that comes,
        and what is of later hops until they do."""
        later: list[Params] = []
        for params in early:
            if "statusCode" in params:
                if not place_answer(known, answer_facts(params), self._amend):
                    later.append(params)
            elif known.is_sent_reported:
                later.append(params)
            else:
                known.is_sent_reported = True
                sent = merged(sent, sent_facts(params))
        if later:
            self._early[request_id] = later
        return sent

    def _extra(self, params: Params) -> Made:
        """Put what the network reports where it belongs; it makes no event of its own."""
        known = self.requests.get(params["requestId"])
        if known is None:
            is_placed = False
        elif "statusCode" in params:
            is_placed = place_answer(known, answer_facts(params), self._amend)
        else:
            is_placed = place_sent(known, sent_facts(params), self._amend)
        if not is_placed:  # the request, or the next hop of it, is yet to come
            if len(self._early) >= MAX_EARLY:
                del self._early[next(iter(self._early))]
            self._early.setdefault(params["requestId"], []).append(params)
        return []

    def _remember(self, request_id: str, request: RequestFacts) -> None:
        if len(self.requests) >= MAX_REQUESTS and request_id not in self.requests:
            del self.requests[next(iter(self.requests))]
        self.requests[request_id] = request

    def _response(self, params: Params) -> Made:
        request_id, response = params["requestId"], params["response"]
        known = self.requests.get(request_id)
        if known is not None:
            known.mime_type = text_of(response, "mimeType")
            known.charset = text_of(response, "charset")
            known.has_extra = bool(params.get("hasExtraInfo"))
            known.status = int(response.get("status", 0))
            known.from_worker = bool(response.get("fromServiceWorker"))
        method = known.method if known else ""
        told = self._reported_response(response, request_id, method, known.hop if known else 0)
        told["resourceType"] = params.get("type")
        told["cdpTime"] = params.get("timestamp")
        return [_with_waiting(told, known) if known is not None else told]

    def _reported_response(
        self, response: Params, request_id: str, method: str, hop: int
    ) -> dict[str, Any]:
        address = response.get("remoteIPAddress")
        timing = response.get("timing") or {}
        told: dict[str, Any] = {
            "kind": "response",
            "requestId": request_id,
            "url": response["url"][:MAX_URL_CHARACTERS],
            "method": method,
            "status": response["status"],
            "statusText": response.get("statusText", ""),
            "mimeType": response.get("mimeType", ""),
            "headers": response.get("headers", {}),
            "fromDiskCache": bool(response.get("fromDiskCache")),
            "fromServiceWorker": bool(response.get("fromServiceWorker")),
            "remoteAddress": f"{address}:{response.get('remotePort')}" if address else None,
            "protocol": response.get("protocol"),
            "timing": {
                name: timing[name]
                for name in (
                    "requestTime",
                    "dnsStart",
                    "dnsEnd",
                    "connectStart",
                    "connectEnd",
                    "sslStart",
                    "sslEnd",
                    "sendStart",
                    "sendEnd",
                    "receiveHeadersStart",
                    "receiveHeadersEnd",
                )
                if name in timing
            },
        }
        if hop:
            told["hop"] = hop
        return told

    def _end(self, params: Params) -> dict[str, Any]:
        """Return what both ends of loading have in common."""
        known = self.requests.get(params["requestId"])
        made: dict[str, Any] = {"requestId": params["requestId"]}
        if known is not None:
            made |= {"url": known.url, "method": known.method}
            if known.status:
                made["status"] = known.status
            if known.hop:
                made["hop"] = known.hop
        return made

    def _finished(self, params: Params) -> Made:
        return [
            {
                "kind": "loadingFinished",
                **self._end(params),
                "encodedDataLength": params.get("encodedDataLength", 0),
                "cdpTime": params.get("timestamp"),
            }
        ]

    def _failed(self, params: Params) -> Made:
        made = {
            "kind": "loadingFailed",
            **self._end(params),
            "errorText": text_of(params, "errorText"),
            "canceled": bool(params.get("canceled")),
            "cdpTime": params.get("timestamp"),
        }
        blocked = params.get("blockedReason") or (params.get("corsErrorStatus") or {}).get(
            "corsError"
        )
        if blocked:
            made["blockedReason"] = blocked
        known = self.requests.get(params["requestId"])
        # What the browser refuses to hand on has come all the same.
        return [_with_waiting(made, known) if known is not None else made]

    # WebSocket and server-sent events

    def _socket_created(self, params: Params) -> Made:
        request_id, url = params["requestId"], params["url"]
        self._remember(request_id, RequestFacts(url, "GET", resource_type="WebSocket"))
        return [{"kind": "websocket", "event": "created", "requestId": request_id, "url": url}]

    def _socket(self, params: Params, event: str, **more: Any) -> Made:
        request_id = params["requestId"]
        known = self.requests.get(request_id)
        url = known.url if known else ""
        made = {"kind": "websocket", "event": event, "requestId": request_id, "url": url, **more}
        return [{**made, "cdpTime": params.get("timestamp")}]

    def _socket_handshake(self, params: Params) -> Made:
        response = params.get("response") or {}
        known = self.requests.get(params["requestId"])
        if known is not None:
            known.status = int(response.get("status", 0))
        return self._socket(
            params,
            "open",
            status=response.get("status", 0),
            headers=response.get("headers", {}),
            requestHeaders=response.get("requestHeaders", {}),
        )

    def _frame(self, params: Params, direction: str) -> Made:
        frame = params["response"]
        payload, opcode = str(frame.get("payloadData", "")), int(frame.get("opcode", 1))
        made = self._socket(
            params,
            "frame",
            direction=direction,
            opcode=opcode,
            payloadPreview=payload,
            payloadLength=size(payload) if opcode == 1 else len(unpacked(payload)),
        )
        return [cut(made[0], self._max_bytes(), "payloadPreview")]

    def _socket_error(self, params: Params) -> Made:
        return self._socket(params, "error", errorText=text_of(params, "errorMessage"))

    def _socket_closed(self, params: Params) -> Made:
        return self._socket(params, "closed")

    def _server_sent(self, params: Params) -> Made:
        known = self.requests.get(params["requestId"])
        made = {
            "kind": "other",
            "type": "serverSentEvent",
            "requestId": params["requestId"],
            "url": known.url if known else "",
            "eventName": text_of(params, "eventName"),
            "eventId": text_of(params, "eventId"),
            "data": text_of(params, "data"),
        }
        return [cut(made, self._max_bytes(), "data")]


def _with_waiting(event: dict[str, Any], known: RequestFacts) -> dict[str, Any]:
    """Return the event with what the network reported on it before it came."""
    facts, known.waiting = known.waiting, None
    return event if facts is None else merged(event, facts)


def _initiated_at(initiator: Params) -> dict[str, Any] | None:
    """Return the line that a request goes back to: the document's, or the innermost call's."""
    if initiator.get("url") and "lineNumber" in initiator:
        return place_of(initiator["url"], initiator["lineNumber"], initiator.get("columnNumber"))
    return next((frame for frame in frames_of(initiator.get("stack")) if frame["url"]), None)
