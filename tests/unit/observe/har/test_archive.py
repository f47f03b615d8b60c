"""HAR from protocol events: all that viewers need is there, each hop and page in its place."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.core.secrets.redactor import Redactor
from pilothouse.core.secrets.shapes import MASK
from pilothouse.observe.har.timing import timings
from pilothouse.observe.model import Body
from tests.support.rounds import examples
from tests.unit.observe.har_tape import FORM, TIMING, WALL, Tape, answer, header

REUSED = {**dict.fromkeys(TIMING, -1.0), "requestTime": 100.0, "sendStart": 1.0, "sendEnd": 2.0}


@pytest.fixture
def tape() -> Tape:
    return Tape()


# One exchange


def test_an_ordinary_exchange_has_all_that_a_viewer_shows(tape: Tape) -> None:
    url = "https://api.example/items?page=2&q=red+shoes&empty=#top"
    tape.request("1", url, headers={"Accept": "*/*", "Cookie": "theme=dark; lang=en"})
    headers = {
        "content-type": "application/json; charset=utf-8",
        "content-length": "17",
        "set-cookie": "a=1; Path=/; Domain=api.example; HttpOnly\n"
        "b=2; Secure; Expires=Wed, 21-Oct-2026 07:28:00 GMT",
    }
    tape.response("1", url, headers=headers, timing=TIMING)
    tape.finish("1", size=321)
    tape.bodies["1"] = Body("application/json", '{"name": "Schön"}', encoded=False)

    made = tape.har(Redactor(reveal=True))
    assert made["log"]["creator"] == {"name": "Pilothouse", "version": "1.0"}
    (entry,) = made["log"]["entries"]
    request, response = entry["request"], entry["response"]
    assert entry["startedDateTime"] == "2026-09-21T14:15:00.000Z"
    assert (entry["serverIPAddress"], entry["connection"]) == ("93.184.216.34", "443")
    assert (entry["_resourceType"], entry["_initiator"]) == ("fetch", {"type": "script"})
    assert entry["_requestId"] == "1"
    assert not {"_error", "_state", "_incomplete"} & entry.keys()
    assert (request["method"], request["httpVersion"]) == ("GET", "HTTP/2")
    assert request["url"] == "https://api.example/items?page=2&q=red+shoes&empty="
    assert request["queryString"] == [
        {"name": "page", "value": "2"},
        {"name": "q", "value": "red shoes"},
        {"name": "empty", "value": ""},
    ]
    assert request["cookies"] == [
        {"name": "theme", "value": "dark"},
        {"name": "lang", "value": "en"},
    ]
    assert request["bodySize"] == 0
    assert (response["status"], response["statusText"]) == (200, "OK")
    assert header(response, "set-cookie") == headers["set-cookie"].split("\n")
    assert response["cookies"] == [
        {
            "name": "a",
            "value": "1",
            "path": "/",
            "domain": "api.example",
            "httpOnly": True,
            "secure": False,
        },
        {
            "name": "b",
            "value": "2",
            "expires": "2026-10-21T07:28:00+00:00",
            "httpOnly": False,
            "secure": True,
        },
    ]
    assert response["content"] == {
        "size": 18,
        "mimeType": "application/json; charset=utf-8",
        "text": '{"name": "Schön"}',
    }
    assert (response["bodySize"], response["_transferSize"]) == (17, 321)


@pytest.mark.parametrize(
    ("protocol", "version"),
    [
        ("h2", "HTTP/2"),
        ("h3", "HTTP/3"),
        ("h3-29", "HTTP/3"),
        ("http/1.1", "HTTP/1.1"),
        ("http/1.0", "HTTP/1.0"),
        ("data", "data"),
        (None, ""),
    ],
)
def test_protocols_are_named_as_http_versions(
    tape: Tape, protocol: str | None, version: str
) -> None:
    tape.request("1", "https://a.example/")
    tape.response("1", "https://a.example/", protocol=protocol)
    (entry,) = tape.entries()
    assert entry["request"]["httpVersion"] == entry["response"]["httpVersion"] == version


def test_an_ipv6_server_is_given_without_brackets(tape: Tape) -> None:
    tape.request("1", "https://a.example/")
    tape.response("1", "https://a.example/", remoteIPAddress="[::1]", remotePort=8443)
    (entry,) = tape.entries()
    assert (entry["serverIPAddress"], entry["connection"]) == ("::1", "8443")


def test_a_posted_form_has_its_text_and_its_fields(tape: Tape) -> None:
    body = "name=Ada+Lovelace&tag=%C3%BC"
    tape.request(
        "1", "https://a.example/", method="POST", headers={"Content-Type": FORM}, postData=body
    )
    (entry,) = tape.entries()
    assert entry["request"]["method"] == "POST"
    assert entry["request"]["bodySize"] == len(body)
    assert entry["request"]["postData"] == {
        "mimeType": FORM,
        "text": body,
        "params": [{"name": "name", "value": "Ada Lovelace"}, {"name": "tag", "value": "ü"}],
    }


def test_post_data_that_was_cut_or_withheld_says_so() -> None:
    tape = Tape(max_bytes=10)
    headers = {"Content-Type": "text/plain", "Content-Length": "25"}
    tape.request("1", "https://a.example/1", headers=headers, postData="x" * 25, method="POST")
    tape.request("2", "https://a.example/2", hasPostData=True, method="POST")
    cut, withheld = (entry["request"] for entry in tape.entries())
    assert cut["postData"]["text"] == "x" * 10
    assert cut["postData"]["comment"] == "cut; 25 bytes in full"
    assert cut["bodySize"] == 25
    assert withheld["postData"]["text"] == ""
    assert "too large" in withheld["postData"]["comment"]
    assert withheld["bodySize"] == -1


def test_a_binary_body_stays_base64(tape: Tape) -> None:
    raw = b"\x89PNG\r\n\x1a\n\x00\xff"
    tape.request("1", "https://a.example/logo.png")
    tape.response("1", "https://a.example/logo.png", mimeType="image/png", headers={})
    tape.bodies["1"] = Body("image/png", b64encode(raw).decode(), encoded=True)
    content = tape.entries()[0]["response"]["content"]
    assert b64decode(content["text"]) == raw
    assert (content["encoding"], content["size"]) == ("base64", len(raw))
    assert content["mimeType"] == "image/png"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_an_encoded_body_of_a_text_type_is_decoded_and_masked(tape: Tape, encoding: str) -> None:
    tape.load("1", "https://a.example/me")
    raw = '{"user": "ada", "password": "hunter22"}'.encode(encoding)
    tape.bodies["1"] = Body("application/json", b64encode(raw).decode(), encoded=True)
    content = tape.entries()[0]["response"]["content"]
    assert json.loads(content["text"]) == {"user": "ada", "password": MASK}
    assert content["size"] == len(raw)
    assert "encoding" not in content


def test_a_body_that_was_not_kept_is_told_apart_from_an_empty_one(tape: Tape) -> None:
    tape.load("kept-not", "https://a.example/1")
    tape.request("none", "https://a.example/2", 101.0)
    tape.response("none", "https://a.example/2", 101.05, status=204)
    tape.finish("none", 101.06)
    lost, none = (entry["response"]["content"] for entry in tape.entries())
    assert lost["comment"] == "the body was not kept"
    assert "text" not in lost
    assert "comment" not in none


def test_caches_and_service_workers_are_marked(tape: Tape) -> None:
    tape.request("1", "https://a.example/")
    tape.response("1", "https://a.example/", fromDiskCache=True, fromServiceWorker=True)
    tape.finish("1", size=0)
    (entry,) = tape.entries()
    assert entry["_fromDiskCache"] is True
    assert entry["_fromServiceWorker"] is True
    assert entry["response"]["bodySize"] == 0
    before = {"lastAccess": entry["startedDateTime"], "eTag": "", "hitCount": 0}
    assert entry["cache"] == {"beforeRequest": before}


# Redirects, failures, what is under way, what is missing


def test_each_hop_of_a_redirect_is_an_entry_and_only_the_last_has_the_body(tape: Tape) -> None:
    first, second, third = "http://a.example/", "https://a.example/", "https://a.example/home"
    tape.request("D", first, 100.0, kind="Document")
    for number, (source, target) in enumerate([(first, second), (second, third)], 1):
        moved = answer(source, status=301 + number, headers={"Location": target})
        tape.request("D", target, 100.0 + number, kind="Document", redirect=moved)
    tape.response("D", third, 102.5)
    tape.finish("D", 102.75)
    tape.bodies["D"] = Body("text/html", "<p>home</p>", encoded=False)

    entries = tape.entries()
    assert [entry["request"]["url"] for entry in entries] == [first, second, third]
    assert [entry["response"]["status"] for entry in entries] == [302, 303, 200]
    assert [entry["response"]["redirectURL"] for entry in entries] == [second, third, ""]
    assert ["text" in entry["response"]["content"] for entry in entries] == [False, False, True]
    assert [entry["time"] for entry in entries] == [1000.0, 1000.0, 750.0]
    assert not any("_state" in entry for entry in entries)
    assert entries[0]["startedDateTime"] < entries[1]["startedDateTime"]


def test_a_failed_request_has_status_0_and_says_why(tape: Tape) -> None:
    tape.request("1", "https://ads.example/")
    tape.play(
        "Network.loadingFailed",
        100.25,
        requestId="1",
        errorText="net::ERR_BLOCKED_BY_CLIENT",
        canceled=True,
        blockedReason="inspector",
    )
    (entry,) = tape.entries()
    assert entry["response"]["status"] == 0
    assert entry["_error"] == entry["response"]["_error"] == "net::ERR_BLOCKED_BY_CLIENT"
    assert (entry["_blockedReason"], entry["_canceled"]) == ("inspector", True)
    assert entry["time"] == entry["timings"]["blocked"] == 250.0
    assert "_state" not in entry


def test_a_download_that_breaks_off_keeps_its_status(tape: Tape) -> None:
    tape.request("1", "https://a.example/big")
    tape.response("1", "https://a.example/big", status=206)
    tape.play("Network.loadingFailed", 101.0, requestId="1", errorText="net::ERR_ABORTED")
    (entry,) = tape.entries()
    assert entry["response"]["status"] == 206
    assert entry["_error"] == "net::ERR_ABORTED"


def test_a_request_without_an_end_is_pending(tape: Tape) -> None:
    tape.request("1", "https://a.example/slow")
    tape.request("2", "https://a.example/stream", 101.0)
    tape.response("2", "https://a.example/stream", 101.5)
    waiting, streaming = tape.entries()
    assert waiting["_state"] == streaming["_state"] == "pending"
    assert (waiting["time"], waiting["response"]["status"]) == (0, 0)
    assert (streaming["time"], streaming["response"]["status"]) == (500.0, 200)


def test_an_answer_whose_request_was_dropped_is_still_an_entry(tape: Tape) -> None:
    tape.request("1", "https://a.example/early?page=1", method="PUT")
    tape.response("1", "https://a.example/early?page=1", timing=TIMING)
    tape.finish("1")
    del tape.events[0]
    (entry,) = tape.entries()
    assert entry["_incomplete"] is True
    assert entry["request"]["method"] == "PUT"
    assert entry["request"]["queryString"] == [{"name": "page", "value": "1"}]
    assert entry["response"]["status"] == 200
    # By the browser's own mark of when it asked, not by when the answer came.
    assert entry["startedDateTime"] == "2026-09-21T14:15:00.013Z"


def test_an_end_whose_beginning_was_dropped_keeps_what_it_knows(tape: Tape) -> None:
    tape.load("1", "https://a.example/early")
    del tape.events[:2]
    (entry,) = tape.entries()
    assert entry["_incomplete"] is True
    assert entry["request"]["url"] == "https://a.example/early"
    assert entry["response"]["status"] == 200


def test_a_request_id_used_again_by_a_restarted_browser_is_another_entry(tape: Tape) -> None:
    tape.load("77.1", "https://a.example/before")
    tape.load("77.1", "https://a.example/after", 200.0)
    tape.bodies["77.1"] = Body("text/plain", "after", encoded=False)
    before, after = tape.entries()
    assert before["request"]["url"].endswith("/before")
    assert "text" not in before["response"]["content"]
    assert after["response"]["content"]["text"] == "after"


# Sockets and server-sent events


def test_a_socket_is_an_entry_with_its_messages_as_chrome_exports_them(tape: Tape) -> None:
    tape.socket()
    tape.frame(101.0, "Sent", "hello")
    tape.frame(101.25, "Received", "AAH/", opcode=2)
    tape.play("Network.webSocketClosed", 102.5, requestId="W")
    entry = tape.entries()[1]
    assert entry["_resourceType"] == "websocket"
    assert entry["request"]["method"] == "GET"
    assert header(entry["request"], "sec-websocket-version") == ["13"]
    assert (entry["response"]["status"], entry["response"]["httpVersion"]) == (101, "HTTP/1.1")
    assert entry["_webSocketMessages"] == [
        {"type": "send", "time": WALL + 101.0, "opcode": 1, "data": "hello"},
        {"type": "receive", "time": WALL + 101.25, "opcode": 2, "data": "AAH/"},
    ]
    assert entry["timings"]["receive"] == 2000.0
    assert "_state" not in entry


def test_an_open_socket_is_pending_and_a_broken_one_has_its_error(tape: Tape) -> None:
    tape.socket()
    assert tape.entries()[1]["_state"] == "pending"
    assert tape.entries()[1]["_webSocketMessages"] == []
    tape.play("Network.webSocketFrameError", 101.0, requestId="W", errorMessage="Bad frame")
    assert tape.entries()[1]["_error"] == "Bad frame"


def test_a_message_that_was_cut_says_its_true_length() -> None:
    tape = Tape(max_bytes=4)
    tape.socket()
    tape.frame(101.0, "Sent", "hello world")
    (message,) = tape.entries()[1]["_webSocketMessages"]
    assert (message["data"], message["_length"]) == ("hell", 11)


def test_messages_of_a_socket_whose_opening_was_dropped_are_kept(tape: Tape) -> None:
    tape.socket()
    tape.frame(101.0, "Received", "tick")
    del tape.events[:3]
    (entry,) = tape.entries()
    assert entry["_incomplete"] is True
    assert entry["request"]["url"] == "wss://a.example/live"
    assert [message["data"] for message in entry["_webSocketMessages"]] == ["tick"]


def test_server_sent_events_stand_with_their_stream(tape: Tape) -> None:
    tape.request("1", "https://a.example/events", kind="EventSource")
    tape.response("1", "https://a.example/events", mimeType="text/event-stream")
    tape.play(
        "Network.eventSourceMessageReceived",
        101.0,
        requestId="1",
        eventName="tick",
        eventId="7",
        data='{"n": 1}',
    )
    (entry,) = tape.entries()
    (message,) = entry["_eventSourceMessages"]
    assert message.pop("time") == pytest.approx(WALL + 101.003)
    assert message == {"eventName": "tick", "eventId": "7", "data": '{"n": 1}'}
    assert "_webSocketMessages" not in entry


# Time


def test_phases_come_from_the_browsers_marks_and_add_up_to_the_whole(tape: Tape) -> None:
    tape.request("1", "https://a.example/", 100.0)
    tape.response("1", "https://a.example/", 100.05, timing=TIMING)
    tape.finish("1", 100.06)
    (entry,) = tape.entries()
    assert entry["timings"] == pytest.approx(
        {
            "blocked": 11.0,  # 10 in the queue and 1 until the name was looked up
            "dns": 2.0,
            "connect": 10.0,
            "ssl": 7.5,
            "send": 1.0,
            "wait": 20.0,
            "receive": 16.0,
        }
    )
    assert entry["time"] == pytest.approx(60.0)


def test_a_reused_connection_has_no_dns_connect_and_ssl(tape: Tape) -> None:
    tape.request("1", "https://a.example/", 100.0)
    tape.response("1", "https://a.example/", timing={**REUSED, "receiveHeadersEnd": 40.0})
    tape.finish("1", 100.06)
    (entry,) = tape.entries()
    assert [entry["timings"][name] for name in ("dns", "connect", "ssl")] == [-1, -1, -1]
    assert entry["time"] == pytest.approx(60.0)


def test_marks_that_a_memory_cache_repeats_from_an_earlier_load_are_not_believed(
    tape: Tape,
) -> None:
    tape.request("1", "https://a.example/logo.svg", 500.0)
    tape.response("1", "https://a.example/logo.svg", 500.001, timing=TIMING)
    tape.finish("1", 500.002)
    assert tape.entries()[0]["time"] == pytest.approx(2.0)


MARKS = st.floats(min_value=-1, max_value=1e5) | st.just(-1.0)
MOMENTS = st.none() | st.floats(min_value=0, max_value=1e6)


@settings(max_examples=examples(200))
@given(st.dictionaries(st.sampled_from(list(TIMING)), MARKS), MOMENTS, MOMENTS, MOMENTS)
def test_time_is_always_the_sum_of_the_phases_that_apply(
    timing: dict[str, float], began: float | None, responded: float | None, ended: float | None
) -> None:
    phases, total = timings(timing, began, responded, ended)
    assert set(phases) == {"blocked", "dns", "connect", "ssl", "send", "wait", "receive"}
    assert all(spent >= 0 or spent == -1 for spent in phases.values())
    assert min(phases["send"], phases["wait"], phases["receive"]) >= 0
    assert phases["ssl"] <= phases["connect"]
    counted = [spent for name, spent in phases.items() if spent >= 0 and name != "ssl"]
    assert total == pytest.approx(sum(counted), abs=0.001)


def test_without_the_browsers_clocks_the_time_of_arrival_counts(tape: Tape) -> None:
    tape.load("1", "https://a.example/")
    for _, event in tape.events:
        event.pop("wallTime", None)
        event.pop("cdpTime")
    (entry,) = tape.entries()
    assert entry["startedDateTime"] == "2026-09-21T14:15:00.003Z"
    assert entry["time"] == pytest.approx(60, abs=2)


def test_entries_are_sorted_by_when_they_began(tape: Tape) -> None:
    tape.request("late", "https://a.example/late", 105.0)
    tape.request("early", "https://a.example/early", 101.0)
    assert [entry["_requestId"] for entry in tape.entries()] == ["early", "late"]


# Pages


def test_each_navigation_is_a_page_that_begins_with_its_document(tape: Tape) -> None:
    tape.load("D1", "https://a.example/", 100.0, kind="Document")
    tape.navigate("https://a.example/", 100.055)
    tape.load("1", "https://a.example/app.js", 100.1)
    tape.request("D2", "https://a.example/next#part", 110.0, kind="Document")
    tape.load("beacon", "https://a.example/leaving", 110.01)
    tape.response("D2", "https://a.example/next", 110.05)
    tape.navigate("https://a.example/next", 110.055)
    tape.load("2", "https://a.example/next.js", 110.1)

    log = tape.har()["log"]
    assert [(page["id"], page["title"]) for page in log["pages"]] == [
        ("page_1", "https://a.example/"),
        ("page_2", "https://a.example/next"),
    ]
    assert log["pages"][1]["startedDateTime"] == "2026-09-21T14:15:10.000Z"
    assert log["pages"][0]["pageTimings"] == {"onContentLoad": -1, "onLoad": -1}
    assert {entry["_requestId"]: entry["pageref"] for entry in log["entries"]} == {
        "D1": "page_1",
        "1": "page_1",
        "beacon": "page_1",
        "D2": "page_2",
        "2": "page_2",
    }


def test_what_came_before_the_first_navigation_has_a_page_of_its_own(tape: Tape) -> None:
    tape.load("0", "https://a.example/poll", 99.0)
    tape.navigate("https://b.example/", 100.0)
    log = tape.har()["log"]
    assert [page["title"] for page in log["pages"]] == [
        "before the first recorded navigation",
        "https://b.example/",
    ]
    assert log["entries"][0]["pageref"] == log["pages"][0]["id"]


def test_no_events_make_an_empty_archive(tape: Tape) -> None:
    assert tape.har()["log"]["entries"] == []
    assert tape.har()["log"]["pages"] == []
