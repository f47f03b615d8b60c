"""Network and page events of the spec in their exact shapes, made from what a browser sends."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.observe.normalize.events import INTERESTING, Normalizer
from pilothouse.observe.normalize.network import MAX_REQUESTS

URL = "http://shop.test/items"
OTHER = {"kind": "other"}
TIMING = {"requestTime": 10.0, "sendEnd": 1.5, "receiveHeadersEnd": 7.25, "pushStart": 0.0}


def normalizer(max_bytes: int = 64_000) -> Normalizer:
    return Normalizer(lambda: max_bytes)


def request(request_id: str = "1.1", url: str = URL, **more: Any) -> dict[str, Any]:
    """`Network.requestWillBeSent`; `request_*` arguments belong to the request itself."""
    inner = {
        name.removeprefix("request_"): more.pop(name) for name in list(more) if "request_" in name
    }
    return {
        "requestId": request_id,
        "request": {"url": url, "method": "GET", "headers": {"Accept": "*/*"}, **inner},
        "initiator": {"type": "script"},
        "type": "Fetch",
        "timestamp": 10.5,
        "wallTime": 1_790_000_000.5,
        **more,
    }


def response(url: str = URL, status: int = 200, **more: Any) -> dict[str, Any]:
    return {
        "url": url,
        "status": status,
        "statusText": "OK",
        "mimeType": "application/json",
        "headers": {"Server": "shop"},
        "remoteIPAddress": "93.184.216.34",
        "remotePort": 443,
        "protocol": "h2",
        "timing": TIMING,
        **more,
    }


def one(made: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(made) == 1
    return made[0]


def test_a_request_its_response_and_its_end_have_the_shapes_of_the_spec() -> None:
    made = normalizer()
    assert made.receive("Network.requestWillBeSent", request()) == [
        {
            "kind": "request",
            "requestId": "1.1",
            "url": URL,
            "method": "GET",
            "headers": {"Accept": "*/*"},
            "postDataPreview": None,
            "initiator": "script",
            "resourceType": "Fetch",
            "cdpTime": 10.5,
            "wallTime": 1_790_000_000.5,
        }
    ]
    received = {"requestId": "1.1", "response": response(), "type": "Fetch", "timestamp": 11.0}
    assert made.receive("Network.responseReceived", received) == [
        {
            "kind": "response",
            "requestId": "1.1",
            "url": URL,
            "method": "GET",
            "status": 200,
            "statusText": "OK",
            "mimeType": "application/json",
            "headers": {"Server": "shop"},
            "fromDiskCache": False,
            "fromServiceWorker": False,
            "remoteAddress": "93.184.216.34:443",
            "protocol": "h2",
            "timing": {"requestTime": 10.0, "sendEnd": 1.5, "receiveHeadersEnd": 7.25},
            "resourceType": "Fetch",
            "cdpTime": 11.0,
        }
    ]
    ended = {"requestId": "1.1", "encodedDataLength": 12_345, "timestamp": 12.0}
    assert made.receive("Network.loadingFinished", ended) == [
        {
            "kind": "loadingFinished",
            "requestId": "1.1",
            "url": URL,
            "method": "GET",
            "status": 200,
            "encodedDataLength": 12_345,
            "cdpTime": 12.0,
        }
    ]


def test_a_response_from_nowhere_has_no_address_and_no_timing() -> None:
    cached = response(remoteIPAddress="", timing=None, fromDiskCache=True, fromServiceWorker=True)
    params = {"requestId": "1.1", "response": cached}
    made = one(normalizer().receive("Network.responseReceived", params))
    assert made["remoteAddress"] is None
    assert made["timing"] == {}
    assert made["fromDiskCache"] is made["fromServiceWorker"] is True
    assert made["method"] == ""


def test_each_hop_of_a_redirect_is_a_response_and_a_request_of_its_own() -> None:
    made = normalizer()
    made.receive("Network.requestWillBeSent", request(url="http://a.test/", request_method="POST"))
    second = made.receive(
        "Network.requestWillBeSent",
        request(url="http://b.test/", redirectResponse=response("http://a.test/", 302)),
    )
    third = made.receive(
        "Network.requestWillBeSent",
        request(url="http://c.test/", redirectResponse=response("http://b.test/", 307)),
    )
    told = [
        (e["kind"], e["url"], e["method"], e.get("status"), e.get("hop", 0), e.get("redirect"))
        for e in [*second, *third]
    ]
    assert told == [
        ("response", "http://a.test/", "POST", 302, 0, True),
        ("request", "http://b.test/", "GET", None, 1, None),
        ("response", "http://b.test/", "GET", 307, 1, True),
        ("request", "http://c.test/", "GET", None, 2, None),
    ]
    answer = {"requestId": "1.1", "response": response("http://c.test/", 200)}
    last = one(made.receive("Network.responseReceived", answer))
    end = one(made.receive("Network.loadingFinished", {"requestId": "1.1"}))
    assert (last["hop"], last["method"], last["status"]) == (2, "GET", 200)
    assert (end["url"], end["hop"], end["status"]) == ("http://c.test/", 2, 200)


def test_a_failed_request_says_why_and_carries_its_url() -> None:
    made = normalizer()
    made.receive("Network.requestWillBeSent", request())
    failed = {"requestId": "1.1", "errorText": "net::ERR_TIMED_OUT", "timestamp": 12.0}
    end = {"kind": "loadingFailed", "url": URL, "method": "GET", "canceled": False, "cdpTime": 12.0}
    assert made.receive("Network.loadingFailed", failed) == [
        {**end, "requestId": "1.1", "errorText": "net::ERR_TIMED_OUT"}
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"blockedReason": "mixed-content"}, "mixed-content"),
        ({"corsErrorStatus": {"corsError": "InvalidResponse"}}, "InvalidResponse"),
        ({"canceled": True}, None),
    ],
)
def test_a_blocked_request_names_what_blocked_it(said: dict[str, Any], reason: str | None) -> None:
    params = {"requestId": "9.9", "errorText": "net::ERR_FAILED", **said}
    made = one(normalizer().receive("Network.loadingFailed", params))
    assert made.get("blockedReason") == reason
    assert made["canceled"] is bool(said.get("canceled"))
    assert "url" not in made  # its request was never seen


def test_post_data_is_shown_or_said_to_be_too_large_to_show() -> None:
    posted = request(request_method="POST", request_postData="a=1", request_hasPostData=True)
    made = one(normalizer().receive("Network.requestWillBeSent", posted))
    assert made["postDataPreview"] == "a=1"
    assert "hasPostData" not in made
    large = request(request_method="POST", request_hasPostData=True)
    made = one(normalizer().receive("Network.requestWillBeSent", large))
    assert made["postDataPreview"] is None
    assert made["hasPostData"] is True


def test_a_url_keeps_its_fragment_and_a_request_without_initiator_comes_from_other() -> None:
    params = request(request_urlFragment="#top", initiator=None)
    made = one(normalizer().receive("Network.requestWillBeSent", params))
    assert made["url"] == f"{URL}#top"
    assert made["initiator"] == "other"


def test_a_websocket_is_told_from_its_creation_to_its_close() -> None:
    made = normalizer()
    socket = {"requestId": "5.1", "timestamp": 1.0}
    shake: dict[str, Any] = {
        "status": 101,
        "headers": {"Upgrade": "websocket"},
        "requestHeaders": {"Host": "x"},
    }
    sent = {"opcode": 1, "payloadData": "ping"}
    received = {"opcode": 2, "payloadData": "AAEC"}
    played: list[tuple[str, dict[str, Any]]] = [
        ("Created", {"url": "ws://x/"}),
        ("HandshakeResponseReceived", {"response": shake}),
        ("FrameSent", {"response": sent}),
        ("FrameReceived", {"response": received}),
        ("FrameError", {"errorMessage": "Invalid UTF-8"}),
        ("Closed", {}),
    ]
    told = [
        one(made.receive(f"Network.webSocket{name}", {**socket, **more})) for name, more in played
    ]
    head = {"kind": "websocket", "requestId": "5.1", "url": "ws://x/"}
    timed = {**head, "cdpTime": 1.0}
    headers = {"headers": shake["headers"], "requestHeaders": shake["requestHeaders"]}
    frame = {**timed, "event": "frame"}
    assert told == [
        {**head, "event": "created"},
        {**timed, "event": "open", "status": 101, **headers},
        {**frame, "direction": "sent", "opcode": 1, "payloadPreview": "ping", "payloadLength": 4},
        {**frame, "direction": "recv", "opcode": 2, "payloadPreview": "AAEC", "payloadLength": 3},
        {**timed, "event": "error", "errorText": "Invalid UTF-8"},
        {**timed, "event": "closed"},
    ]


def test_a_server_sent_event_carries_the_url_of_its_stream() -> None:
    made = normalizer()
    made.receive("Network.requestWillBeSent", request())
    params = {"requestId": "1.1", "eventName": "tick", "eventId": "7", "data": "now"}
    assert made.receive("Network.eventSourceMessageReceived", params) == [
        {**OTHER, "type": "serverSentEvent", "url": URL, **params}
    ]


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("Inspector.targetCrashed", {}, [{**OTHER, "type": "targetCrashed"}]),
        ("Inspector.detached", {"reason": "g"}, [{**OTHER, "type": "detached", "reason": "g"}]),
        (
            "Page.frameNavigated",
            {"frame": {"url": "u"}},
            [{**OTHER, "type": "navigated", "url": "u"}],
        ),
        ("Page.frameNavigated", {"frame": {"id": "G", "parentId": "F", "url": URL}}, []),
        ("Network.requestServedFromCache", {"requestId": "1.1"}, []),
        ("Network.dataReceived", {"requestId": "1.1"}, []),
    ],
)
def test_what_happens_to_the_page_is_an_other_event(
    method: str, params: dict[str, Any], told: list[dict[str, Any]]
) -> None:
    assert normalizer().receive(method, params) == told


def test_only_events_that_are_let_through_have_makers() -> None:
    assert set(normalizer()._makers) <= INTERESTING


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("Network.requestWillBeSent", request(request_postData="x" * 5000), "postDataPreview"),
        (
            "Network.webSocketFrameSent",
            {"requestId": "5", "response": {"payloadData": "x" * 5000}},
            "payloadPreview",
        ),
        ("Network.eventSourceMessageReceived", {"requestId": "1", "data": "x" * 5000}, "data"),
        ("Log.entryAdded", {"entry": {"level": "info", "text": "x" * 5000}}, "text"),
        ("Runtime.exceptionThrown", {"exceptionDetails": {"text": "x" * 5000}}, "text"),
    ],
)
def test_a_long_text_is_cut_and_its_true_length_is_told(
    method: str, params: dict[str, Any], name: str
) -> None:
    made = one(normalizer(max_bytes=100).receive(method, params))
    assert len(made[name]) == 100
    assert made["truncated"] == {name: 5000}
    assert "truncated" not in one(normalizer(max_bytes=5000).receive(method, params))


def test_a_data_url_of_megabytes_does_not_stay_whole_in_each_of_its_events() -> None:
    made, url = normalizer(), "data:text/plain," + "x" * 2_000_000
    sent = one(made.receive("Network.requestWillBeSent", request(url=url)))
    received = {"requestId": "1.1", "response": response(url)}
    answered = one(made.receive("Network.responseReceived", received))
    ended = one(made.receive("Network.loadingFinished", {"requestId": "1.1"}))
    for event in (sent, answered, ended):
        assert len(event["url"]) <= 64_000
        assert event["url"].startswith("data:text/plain,x")
    assert sent["truncated"]["url"] == len(url)


@pytest.mark.parametrize("method", ["Network.requestWillBeSent", "Network.webSocketCreated"])
def test_requests_are_remembered_up_to_a_bound_and_the_oldest_are_forgotten(method: str) -> None:
    made = normalizer()
    for number in range(MAX_REQUESTS + 10):
        made.receive(method, {**request(str(number)), "url": "ws://x/"})
    assert len(made.requests) == MAX_REQUESTS
    assert "9" not in made.requests
    assert "10" in made.requests


def test_a_text_is_cut_by_its_bytes_and_never_within_a_character() -> None:
    said = {"type": "log", "args": [{"type": "string", "value": "舵" * 8}]}
    made = one(normalizer(max_bytes=10).receive("Runtime.consoleAPICalled", said))
    assert made["text"] == "舵舵舵"
    assert made["truncated"] == {"text": 24, "args": [24]}
    whole = one(normalizer(max_bytes=24).receive("Runtime.consoleAPICalled", said))
    assert "truncated" not in whole
