"""From DevTools protocol events to normalised ones: text in, records out, no socket in between.

Chrome reuses the request id across redirects, so each hop is told as a response and a request of
its own with its `hop` number. Responses and the ends of loading carry their request's url and
method, so that filters work on them. Strings longer than `maxBodyBytes` are cut, and the event says
their true length, in bytes too, under `truncated`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pilothouse.observe.packed import first_bytes, size, unpacked
from pilothouse.observe.preview import argument_text, argument_value, message_text

if TYPE_CHECKING:
    from collections.abc import Callable

    type Params = dict[str, Any]
    type Made = list[dict[str, Any]]

MAX_REQUESTS = 20_000
"""Requests whose url is remembered for the events that follow; the oldest are forgotten."""
MAX_URL_CHARACTERS = 16_384
"""A data: URL holds megabytes, and three events and the request itself would each keep it."""

_TYPES = {"warning": "warn", "verbose": "debug", "assert": "error"}
_PLAIN_TYPES = frozenset({"log", "warn", "error", "info", "debug", "trace"})

INTERESTING = frozenset(
    {
        "Runtime.consoleAPICalled",
        "Runtime.exceptionThrown",
        "Log.entryAdded",
        "Network.requestWillBeSent",
        "Network.responseReceived",
        "Network.loadingFinished",
        "Network.loadingFailed",
        "Network.webSocketCreated",
        "Network.webSocketHandshakeResponseReceived",
        "Network.webSocketFrameSent",
        "Network.webSocketFrameReceived",
        "Network.webSocketFrameError",
        "Network.webSocketClosed",
        "Network.eventSourceMessageReceived",
        "Inspector.targetCrashed",
        "Inspector.detached",
        "Page.frameNavigated",
        "Page.downloadWillBegin",
        "Page.downloadProgress",
    }
)
"""Events that become records; all others are passed over without being looked at."""


@dataclass(slots=True)
class Request:
    """What later events of a request need to know of it."""

    url: str
    method: str
    hop: int = 0
    resource_type: str = ""
    mime_type: str = ""
    status: int = 0
    from_worker: bool = False
    """A service worker answered it."""


class Normalizer:
    """Makes the events of one target, its frames and its workers."""

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self._max_bytes = max_bytes
        self.requests: dict[str, Request] = {}
        self._downloads: dict[str, str] = {}
        """URLs of downloads under way."""
        self._makers: dict[str, Callable[[Params], Made]] = {
            "Runtime.consoleAPICalled": self._console,
            "Runtime.exceptionThrown": self._exception,
            "Log.entryAdded": self._log,
            "Network.requestWillBeSent": self._request,
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
            "Inspector.targetCrashed": lambda p: [{"kind": "other", "type": "targetCrashed"}],
            "Inspector.detached": lambda p: [
                {"kind": "other", "type": "detached", "reason": _text(p, "reason")}
            ],
            "Page.frameNavigated": self._navigated,
            "Page.downloadWillBegin": self._download,
            "Page.downloadProgress": self._downloaded,
        }

    def receive(self, method: str, params: Params) -> Made:
        """The normalised events of one protocol event; none for those that say nothing new.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: the browser sent something that does
                not fit the protocol; the caller counts it and goes on.
        """
        maker = self._makers.get(method)
        return [] if maker is None else maker(params)

    # Console and log

    def _console(self, params: Params) -> Made:
        args = params.get("args", [])
        kind = params["type"]
        texts = [argument_text(arg) for arg in args]
        text = message_text(args, texts)
        made: dict[str, Any] = {
            "kind": "console",
            "type": _level(kind),
            "text": text,
            "args": texts,
            "argsPreview": [argument_value(arg) for arg in args],
            "stack": _top(params.get("stackTrace")),
        }
        if kind not in _PLAIN_TYPES and kind not in _TYPES:
            made["call"] = kind  # console.table, group, count, …: shown as log
        if text.isascii() and len(text) <= self._max_bytes() and "%" not in text:
            return [made]  # no argument is longer than the text that it is part of
        return [self._cut(made, "text", "args")]

    def _exception(self, params: Params) -> Made:
        details = params["exceptionDetails"]
        thrown = details.get("exception") or {}
        if thrown.get("subtype") == "error" or "preview" not in thrown:
            said = thrown.get("description") or thrown.get("value") or details.get("text", "")
            if said == "Uncaught" and thrown:  # null, undefined, an empty text
                said = f"Uncaught {argument_text(thrown)}".rstrip()
        else:
            said = argument_text(thrown)  # `throw {code: 5}` is described as "Object" only
        made: dict[str, Any] = {
            "kind": "log",
            "type": "error",
            "source": "exception",
            "text": str(said),
            "args": [],
            "url": _text(details, "url"),
            "stack": _top(details.get("stackTrace"))
            or _place(details.get("url"), details.get("lineNumber"), details.get("columnNumber")),
            "frames": _frames(details.get("stackTrace")),
        }
        if str(details.get("text", "")).startswith("Uncaught (in promise)"):
            made["inPromise"] = True
        return [self._cut(made, "text")]

    def _log(self, params: Params) -> Made:
        entry = params["entry"]
        if entry.get("source") == "worker":
            return []  # the worker's own console tells the same line
        made: dict[str, Any] = {
            "kind": "log",
            "type": _level(entry["level"]),
            "source": _text(entry, "source"),
            "text": str(entry.get("text", "")),
            "args": [argument_text(arg) for arg in entry.get("args", [])],
            "url": _text(entry, "url"),
            "stack": _top(entry.get("stackTrace"))
            or _place(entry.get("url"), entry.get("lineNumber"), None),
        }
        if entry.get("networkRequestId"):
            made["requestId"] = entry["networkRequestId"]
        return [self._cut(made, "text", "args")]

    # Network

    def _request(self, params: Params) -> Made:
        request_id, request = params["requestId"], params["request"]
        made: Made = []
        hop = 0
        redirect = params.get("redirectResponse")
        before = self.requests.pop(request_id, None)
        if redirect is not None:
            hop = (before.hop if before else 0) + 1
            method = before.method if before else ""
            told = self._told_response(redirect, request_id, method, hop - 1)
            made.append({**told, "redirect": True, "cdpTime": params.get("timestamp")})
        whole = request["url"] + request.get("urlFragment", "")
        url = whole[:MAX_URL_CHARACTERS]
        self._remember(
            request_id, Request(url, request["method"], hop, str(params.get("type", "")))
        )
        sent: dict[str, Any] = {
            "kind": "request",
            "requestId": request_id,
            "url": url,
            "method": request["method"],
            "headers": request.get("headers", {}),
            "postDataPreview": request.get("postData"),
            "initiator": _text(params.get("initiator") or {}, "type") or "other",
            "resourceType": params.get("type"),
            "cdpTime": params.get("timestamp"),
            "wallTime": params.get("wallTime"),
        }
        if hop:
            sent["hop"] = hop
        if request.get("hasPostData") and sent["postDataPreview"] is None:
            sent["hasPostData"] = True  # files, or too large for the browser to send along
        self._cut(sent, "postDataPreview")
        if len(whole) > len(url):
            sent["truncated"] = {**sent.get("truncated", {}), "url": len(whole)}
        made.append(sent)
        return made

    def _remember(self, request_id: str, request: Request) -> None:
        if len(self.requests) >= MAX_REQUESTS and request_id not in self.requests:
            del self.requests[next(iter(self.requests))]
        self.requests[request_id] = request

    def _response(self, params: Params) -> Made:
        request_id, response = params["requestId"], params["response"]
        known = self.requests.get(request_id)
        if known is not None:
            known.mime_type = _text(response, "mimeType")
            known.status = int(response.get("status", 0))
            known.from_worker = bool(response.get("fromServiceWorker"))
        method = known.method if known else ""
        told = self._told_response(response, request_id, method, known.hop if known else 0)
        told["resourceType"] = params.get("type")
        told["cdpTime"] = params.get("timestamp")
        return [told]

    def _told_response(
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
        """What both ends of loading have in common."""
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
            "errorText": _text(params, "errorText"),
            "canceled": bool(params.get("canceled")),
            "cdpTime": params.get("timestamp"),
        }
        blocked = params.get("blockedReason") or (params.get("corsErrorStatus") or {}).get(
            "corsError"
        )
        return [{**made, "blockedReason": blocked} if blocked else made]

    # WebSocket and server-sent events

    def _socket_created(self, params: Params) -> Made:
        request_id, url = params["requestId"], params["url"]
        self._remember(request_id, Request(url, "GET", resource_type="WebSocket"))
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
        return [self._cut(made[0], "payloadPreview")]

    def _socket_error(self, params: Params) -> Made:
        return self._socket(params, "error", errorText=_text(params, "errorMessage"))

    def _socket_closed(self, params: Params) -> Made:
        return self._socket(params, "closed")

    def _server_sent(self, params: Params) -> Made:
        known = self.requests.get(params["requestId"])
        made = {
            "kind": "other",
            "type": "serverSentEvent",
            "requestId": params["requestId"],
            "url": known.url if known else "",
            "eventName": _text(params, "eventName"),
            "eventId": _text(params, "eventId"),
            "data": _text(params, "data"),
        }
        return [self._cut(made, "data")]

    # The page itself

    def _navigated(self, params: Params) -> Made:
        frame = params["frame"]
        if frame.get("parentId"):
            return []
        return [{"kind": "other", "type": "navigated", "url": frame.get("url", "")}]

    def _download(self, params: Params) -> Made:
        """A link with `download` is fetched by the browser itself: nothing else tells of it."""
        guid, url = params["guid"], params["url"][:MAX_URL_CHARACTERS]
        self._downloads[guid] = url
        name = _text(params, "suggestedFilename")
        return [{"kind": "other", "type": "downloadBegun", "url": url, "fileName": name}]

    def _downloaded(self, params: Params) -> Made:
        if params["state"] == "inProgress":
            return []
        made = {"kind": "other", "type": "downloadEnded", "state": _text(params, "state")}
        url = self._downloads.pop(params["guid"], "")
        return [{**made, "url": url, "receivedBytes": int(params.get("receivedBytes", 0))}]

    def _cut(self, event: dict[str, Any], *names: str) -> dict[str, Any]:
        """Shorten long texts and say how long they were."""
        most = self._max_bytes()
        truncated: dict[str, Any] = {}
        for name in names:
            value = event[name]
            if isinstance(value, str) and size(value) > most:
                event[name] = first_bytes(value, most)
                truncated[name] = size(value)
            elif isinstance(value, list) and any(size(item) > most for item in value):
                event[name] = [first_bytes(item, most) for item in value]
                truncated[name] = [size(item) for item in value]
        if truncated:
            event["truncated"] = truncated
            event.pop("argsPreview", None)
        return event


def _level(kind: str) -> str:
    mapped = _TYPES.get(kind, kind)
    return mapped if mapped in _PLAIN_TYPES else "log"


def _text(params: Params, name: str) -> str:
    value = params.get(name)
    return "" if value is None else str(value)


def _place(url: Any, line: Any, column: Any) -> dict[str, Any] | None:
    """A place in a script; the protocol counts from zero, people and stacks from one."""
    if not url and line is None:
        return None
    return {
        "url": str(url or ""),
        "line": int(line) + 1 if line is not None else 0,
        "column": int(column) + 1 if column is not None else 0,
    }


def _top(trace: Any) -> dict[str, Any] | None:
    frames = (trace or {}).get("callFrames") or []
    return (
        _place(frames[0]["url"], frames[0]["lineNumber"], frames[0]["columnNumber"])
        if frames
        else None
    )


def _frames(trace: Any) -> list[dict[str, Any]]:
    """All frames of a stack, through its asynchronous parents."""
    listed: list[dict[str, Any]] = []
    while isinstance(trace, dict) and len(listed) < 50:
        for frame in trace.get("callFrames") or []:
            place = _place(frame["url"], frame["lineNumber"], frame["columnNumber"])
            listed.append({"function": _text(frame, "functionName"), **(place or {})})
        trace = trace.get("parent")
    return listed
