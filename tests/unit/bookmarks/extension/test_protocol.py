"""The messages between extension and server: each is understood, or named for what is wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.bookmarks.extension import protocol
from pilothouse.bookmarks.extension.chrome_errors import fault_of
from pilothouse.bookmarks.extension.protocol import (
    CallAnswer,
    Garbage,
    Happening,
    Heartbeat,
    NotAdmitted,
    parse,
    parse_hello,
)
from pilothouse.bookmarks.model import (
    BookmarkNotFound,
    ChromeRefused,
    FolderNotEmpty,
    InvalidUrl,
    RootFolder,
)
from tests.support.extension_peer import hello

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def message(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def test_a_hello_says_who_it_is() -> None:
    said = parse_hello(json.dumps(hello("CODE", "a-Z_9", " Home ")))
    assert (said.token, said.profile_id, said.name) == ("CODE", "a-Z_9", "Home")
    assert (said.version, said.chrome, said.boot) == ("0.1.0", "156.0.0.0", "boot")
    assert "CODE" not in repr(said)


def test_a_profile_without_a_name_gets_one_that_tells_it_from_others() -> None:
    first, second = (parse_hello(json.dumps(hello("CODE", id, ""))) for id in ("one1", "two2"))
    assert first.name
    assert first.name != second.name


def with_params(**changed: Any) -> str:
    return json.dumps({**hello("CODE"), "params": {**hello("CODE")["params"], **changed}})


WRONG_HELLOS: dict[str, str | bytes] = {
    "nothing": "",
    "no JSON": "hello",
    "a list": "[]",
    "a number": "1",
    "no version": json.dumps({**hello("CODE"), "jsonrpc": "1.0"}),
    "another method": json.dumps({**hello("CODE"), "method": "heartbeat"}),
    "another id": json.dumps({**hello("CODE"), "id": 1}),
    "no id": json.dumps({k: v for k, v in hello("CODE").items() if k != "id"}),
    "params that are a list": json.dumps({**hello("CODE"), "params": []}),
    "no profile": with_params(profile=None),
    "a profile that is a text": with_params(profile="profile-1"),
    "no profile id": with_params(profile={"id": "", "name": "x"}),
    "a path as profile id": with_params(profile={"id": "../../etc", "name": "x"}),
    "a line as profile id": with_params(profile={"id": "a\n", "name": "x"}),
    "a long profile id": with_params(profile={"id": "a" * 65, "name": "x"}),
    "a long name": with_params(profile={"id": "a", "name": "x" * 201}),
    "a number as name": with_params(profile={"id": "a", "name": 7}),
    "a number as token": with_params(token=1),
    "a list as token": with_params(token=["CODE"]),
    "a long token": with_params(token="A" * 201),
    "a number as version": with_params(version=1),
    "bytes": json.dumps(hello("CODE")).encode(),
    "nested without end": "[" * 100_000,
}


@pytest.mark.parametrize("what", WRONG_HELLOS)
def test_what_is_no_hello_is_refused_with_the_reason(what: str) -> None:
    with pytest.raises(NotAdmitted) as caught:
        parse_hello(WRONG_HELLOS[what])
    assert caught.value.code == 4400
    assert caught.value.message.startswith("the first message must be a hello: ")
    assert "CODE" not in caught.value.message


def test_the_welcome_and_the_refusal_answer_the_hello() -> None:
    assert json.loads(protocol.welcome("pilothouse 1")) == {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {"server": "pilothouse 1", "heartbeatSec": 20},
    }
    assert json.loads(protocol.refusal(NotAdmitted(4429, "wait", 1.5))) == {
        "jsonrpc": "2.0",
        "id": 0,
        "error": {"code": 4429, "message": "wait", "data": {"retryAfterSec": 1.5}},
    }
    assert "data" not in json.loads(protocol.refusal(NotAdmitted(4401, "wrong")))["error"]


def only(raw: bytes) -> Any:
    """The one message."""
    [said] = parse(raw)
    return said


def test_answers_events_and_heartbeats_are_told_apart() -> None:
    assert only(protocol.HEARTBEAT) == Heartbeat()
    assert only(message(id=7, result=[1])) == CallAnswer(7, [1], None)
    assert only(message(id=7, result=None)) == CallAnswer(7, None, None)
    assert only(message(id=7, error={"code": 1})) == CallAnswer(7, None, {"code": 1})
    assert only(message(id=7, error="oh")) == CallAnswer(7, None, {"message": "oh"})
    happened = {"type": "moved", "id": "4", "data": {"parentId": "1"}, "own": True}
    told = only(message(method="bookmark_event", params=happened))
    assert told == Happening("moved", "4", {"parentId": "1"}, True)
    bare = only(message(method="bookmark_event", params={"type": "import_began"}))
    assert bare == Happening("import_began", "", {}, False)


def test_several_messages_at_once_keep_their_order() -> None:
    answers = b",".join(message(id=number, result=number) for number in (3, 1, 2))
    assert parse(b"[%b]" % answers) == [CallAnswer(number, number, None) for number in (3, 1, 2)]
    sent = json.loads(protocol.together([protocol.request(1, "get", {}), protocol.HEARTBEAT]))
    assert [part["method"] for part in sent] == ["get", "heartbeat"]
    assert protocol.together([protocol.HEARTBEAT]) == protocol.HEARTBEAT


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\xff\xfe", b"{", b"[]", b"[[]]", b"null", b'{"id":1,"result":2}', message(result=1),
        message(id="1", result=1), message(id=True, result=1), message(id=1.0, result=1),
        message(id=None, result=1), message(method="eval", params={}), message(method=5),
        message(method="bookmark_event"), message(method="bookmark_event", params={"type": "x"}),
        message(method="bookmark_event", params={"type": ["created"]}), b"[" * 100_000,
    ],
)  # fmt: skip
def test_anything_else_is_garbage(raw: bytes) -> None:
    with pytest.raises(Garbage):
        parse(raw)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_raise_anything_but_garbage(raw: bytes) -> None:
    for read in (parse, lambda text: parse_hello(text.decode("utf-8", "replace"))):
        with suppress(Garbage, NotAdmitted):
            read(raw)


@given(st.dictionaries(st.text(max_size=5), json_values), st.sampled_from(sorted(protocol.CHANGES)))
def test_an_event_of_any_data_becomes_one_of_the_timeline(data: Any, change: str) -> None:
    event = Happening(change, "7", data, True).event(5.0, "Work")
    assert (event.at, event.change, event.profile, event.id, event.own) == (
        5.0, change, "Work", "7", True,
    )  # fmt: skip


def test_a_removed_bookmark_is_told_with_its_title_and_address() -> None:
    node = {"title": "News", "url": "https://news.test/"}
    event = Happening("removed", "7", {"parentId": "1", "node": node}, False).event(1.0, "Work")
    assert (event.title, event.url) == ("News", "https://news.test/")
    created = Happening("created", "7", node, False).event(1.0, "Work")
    assert (created.title, created.url) == ("News", "https://news.test/")


def test_half_a_character_passes_in_both_directions() -> None:
    assert only(b'{"jsonrpc":"2.0","id":1,"result":"\\ud83d"}') == CallAnswer(1, "\ud83d", None)
    sent = json.loads(protocol.request(1, "search", {"query": "\ud83d"}))
    assert sent["params"] == {"query": "\ud83d"}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Can't find bookmark for id.", BookmarkNotFound),
        ("Can't find parent bookmark for id.", BookmarkNotFound),
        ("Bookmark id is invalid.", BookmarkNotFound),
        ("Invalid URL.", InvalidUrl),
        ("Can't modify the root bookmark folders.", RootFolder),
        ("Can't remove non-empty folder (use recursive to force).", FolderNotEmpty),
        ("Index out of bounds.", ChromeRefused),
        ("Parameter 'parentId' does not specify a folder.", ChromeRefused),
        ("Can't move a folder to itself or its descendant.", ChromeRefused),
        ("Can't set URL of a bookmark folder.", ChromeRefused),
        ("Can't modify managed bookmarks.", ChromeRefused),
        ("Bookmark editing is disabled.", ChromeRefused),
        ("Something new.", ChromeRefused),
    ],
)
def test_chromes_own_words_are_passed_on_with_a_hint(said: str, kind: type[Exception]) -> None:
    fault = fault_of({"code": -32000, "message": said}, "move", {"id": "7", "index": 3})
    assert type(fault) is kind
    assert fault.message == said
    assert fault.hint
    assert fault.details == {"id": "7"}


@pytest.mark.parametrize("code", [-32601, -32602])
def test_an_extension_that_does_not_know_a_call_is_to_be_loaded_again(code: int) -> None:
    fault = fault_of({"code": code, "message": "no method"}, "getTree", {})
    assert type(fault) is ChromeRefused
    assert "getTree" in fault.message
    assert "chrome://extensions" in fault.hint


def test_an_error_without_words_is_still_one() -> None:
    assert fault_of({}, "get", {}).message
