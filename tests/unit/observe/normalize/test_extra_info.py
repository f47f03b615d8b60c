"""What the network tells of a request finds its event, in whatever order both come."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from pilothouse.observe.model import KINDS
from pilothouse.observe.record.observation import Observation

SENT, ANSWERED = "Network.requestWillBeSentExtraInfo", "Network.responseReceivedExtraInfo"
SITE = "http://shop.test"


def observed() -> Observation:
    return Observation("T", "127.0.0.1", 9222, lambda: 0.0, lambda _: None, 100, 3600)


def request(path: str, redirect: int = 0) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {
        "requestId": "1",
        "request": {"url": SITE + path, "method": "GET", "headers": {"accept": "*/*"}},
    }
    if redirect:
        answer = {"url": SITE, "status": redirect, "headers": {}}
        params |= {"redirectResponse": answer, "redirectHasExtraInfo": True}
    return "Network.requestWillBeSent", params


def response(status: int = 200, *, extra: bool = True) -> tuple[str, dict[str, Any]]:
    answer = {"url": SITE, "status": status, "headers": {"Content-Type": "text/plain"}}
    told = {"requestId": "1", "response": answer, "hasExtraInfo": extra}
    return "Network.responseReceived", told


def sent(cookie: str) -> tuple[str, dict[str, Any]]:
    return SENT, {"requestId": "1", "headers": {"Accept": "*/*", "Cookie": cookie}}


def answered(status: int) -> tuple[str, dict[str, Any]]:
    head = f"HTTP/1.1 {status} X\r\n\r\n"
    facts = {"statusCode": status, "headers": {"etag": str(status)}, "headersText": head}
    return ANSWERED, {"requestId": "1", **facts}


def events(*told: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    observation = observed()
    for method, params in told:
        observation.take(method, params, "S")
    assert observation.tally.malformed == 0
    return [seen.unpack() for _, seen in observation.ring]


PARTS = [request("/a"), sent("c=1"), answered(304), response(200)]
IN_ORDER = [
    order
    for order in permutations(PARTS)
    if order.index(PARTS[0]) < order.index(PARTS[3])
    and order.index(PARTS[1]) < order.index(PARTS[2])
]


@pytest.mark.parametrize("order", IN_ORDER, ids=lambda order: "-".join(m[8:20] for m, _ in order))
def test_no_order_matters(order: tuple[tuple[str, dict[str, Any]], ...]) -> None:
    asked, answer = events(*order)
    assert asked["headers"] == {"Accept": "*/*", "Cookie": "c=1"}
    assert (answer["status"], answer["wireStatus"]) == (200, 304)
    assert answer["headers"] == {"Content-Type": "text/plain", "etag": "304"}
    assert answer["headersSize"] == len("HTTP/1.1 304 X\r\n\r\n")


def test_each_hop_gets_what_was_told_of_it_also_before_it_came() -> None:
    told = events(
        request("/a"),
        sent("hop=0"),
        answered(302),
        sent("hop=1"),
        answered(200),
        request("/b", redirect=302),
        response(200),
    )
    cookies = [e["headers"]["Cookie"] for e in told if e["kind"] == "request"]
    assert cookies == ["hop=0", "hop=1"]
    assert [e["wireStatus"] for e in told if e["kind"] == "response"] == [302, 200]


def test_what_is_told_of_several_hops_before_the_first_of_them_came_waits_for_each() -> None:
    told = events(
        request("/a"),
        sent("hop=0"),
        answered(302),
        sent("hop=1"),
        answered(307),
        sent("hop=2"),
        answered(200),
        request("/b", redirect=302),
        request("/c", redirect=307),
        response(200),
    )
    cookies = [e["headers"]["Cookie"] for e in told if e["kind"] == "request"]
    assert cookies == ["hop=0", "hop=1", "hop=2"]
    assert [e["wireStatus"] for e in told if e["kind"] == "response"] == [302, 307, 200]


def test_an_answer_that_the_page_does_not_get_is_told_with_its_failure() -> None:
    failed = ("Network.loadingFailed", {"requestId": "1", "errorText": "net::ERR_FAILED"})
    for order in ((answered(403), failed), (failed, answered(403))):
        *_, failure = events(request("/a"), *order)
        assert failure["kind"] in KINDS
        assert (failure["wireStatus"], failure["headers"]) == (403, {"etag": "403"})


def test_what_is_no_header_is_counted_and_changes_nothing() -> None:
    observation = observed()
    observation.take(*request("/a"), "S")
    observation.take(SENT, {"requestId": "1", "headers": {"Cookie": 7}}, "S")
    assert observation.tally.malformed == 1
    (only,) = [seen.unpack() for _, seen in observation.ring]
    assert only["headers"] == {"accept": "*/*"}
