"""Messages of a shared DevTools pipe: how they are cut, and whose they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.net.devtools import FIRST_OWN_ID, Cutter, MessageRoutes, session_of

OWN, CHILD, OTHER = "A" * 32, "B" * 32, "C" * 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("sessionId"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["sessionId", "id", "method", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def packed(**message: Any) -> bytes:
    """Write a message as Chromium does: nothing but what is needed, in this order."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def attached(child: str, session: str) -> bytes:
    return packed(
        method="Target.attachedToTarget",
        params={"sessionId": child, "targetInfo": {"type": "page"}, "waitingForDebugger": True},
        sessionId=session,
    )


@pytest.fixture
def routes() -> MessageRoutes:
    made = MessageRoutes()
    made.add(OWN)
    return made


@given(st.lists(st.binary().map(lambda one: one.replace(b"\0", b"")), max_size=6), st.data())
def test_however_bytes_come_the_same_messages_are_cut_from_them(
    messages: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(message + b"\0" for message in messages) + b"a rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    one, other = Cutter(), Cutter()
    assert [found for piece in pieces for found in one.feed(piece)] == messages
    passed = [other.whole(piece) for piece in pieces]
    assert b"".join(passed) == whole.removesuffix(b"a rest")
    assert all(piece.endswith(b"\0") for piece in passed if piece)


@given(JSON, st.sampled_from(["", OWN, OTHER, 'say "sessionId":"x"', "\\"]), st.booleans())
def test_the_session_is_that_of_the_outermost_object_alone(
    inner: Any, session: str, first: bool
) -> None:
    own = {"sessionId": session} if session else {}
    message = {**own, "params": inner} if first else {"method": "a", "params": inner, **own}
    for text in (packed(**message), json.dumps(message).encode()):
        assert session_of(text) == session.encode()


def test_text_that_looks_like_the_end_of_a_message_is_no_session() -> None:
    for text in (f',"sessionId":"{OWN}"}}', f'\\","sessionId":"{OWN}', f'"sessionId":"{OWN}'):
        assert session_of(packed(method="a", params={"text": text})) == b""
        assert session_of(packed(id=1, result=text)) == b""


def test_events_go_by_their_session_and_answers_by_it_or_their_number(
    routes: MessageRoutes,
) -> None:
    for message, is_own in (
        (packed(method="Runtime.consoleAPICalled", params={}, sessionId=OWN), True),
        (packed(method="Runtime.consoleAPICalled", params={"sessionId": OWN}), False),
        (packed(method="Runtime.consoleAPICalled", params={}, sessionId=OTHER), False),
        (packed(method="Target.targetCreated", params={"id": FIRST_OWN_ID}), False),
        (packed(id=7, result={}, sessionId=OWN), True),
        (packed(id=7, result={"sessionId": OWN}), False),
        (packed(id=7, result={}), False),
        (packed(id=FIRST_OWN_ID, result={"sessionId": OTHER}), True),
        # Of a session that is over the browser says so without naming it, or in its name.
        (packed(id=FIRST_OWN_ID + 9, error={"code": -32001}), True),
        (packed(id=FIRST_OWN_ID + 9, error={"code": -32001}, sessionId=OTHER), True),
        # Written in another way than Chromium does.
        (json.dumps({"sessionId": OWN, "method": "a"}).encode(), True),
        (json.dumps({"result": {}, "id": FIRST_OWN_ID}, indent=1).encode(), True),
        (b"no JSON at all", False),
        (b"[1]", False),
    ):
        assert routes.is_own(message) is is_own, message


@pytest.mark.parametrize(
    "odd",
    [
        b'{"id":' + b"9" * 5_000 + b"}",
        b'{"id":1,"result":{},"sessionId":"\\ud800"}',
        b'{"id":[1],"sessionId":{"a":1}}',
        b'{"id":NaN}',
        b"[" * 100_000,
        b"\xff",
    ],
    ids=lambda odd: ascii(odd[:20]),
)
def test_what_makes_no_sense_is_nobodys_own(routes: MessageRoutes, odd: bytes) -> None:
    assert routes.is_own(odd) is False


def test_a_session_with_half_of_a_character_is_known_again(routes: MessageRoutes) -> None:
    routes.add("\ud800")
    assert routes.is_own(rb'{"id":1,"sessionId":"\ud800"}')


@pytest.mark.parametrize("spaced", [False, True])
def test_what_a_session_attaches_to_is_its_own_until_it_is_left(
    routes: MessageRoutes, spaced: bool
) -> None:
    def written(message: bytes) -> bytes:
        return (
            json.dumps({"sessionId": None, **json.loads(message)}).encode() if spaced else message
        )

    event = packed(method="Network.requestWillBeSent", params={}, sessionId=CHILD)
    assert not routes.is_own(written(attached(CHILD, OTHER)))
    assert not routes.is_own(event)
    assert routes.is_own(written(attached(CHILD, OWN)))
    assert routes.is_own(event)
    assert routes.is_own(written(attached("D" * 32, CHILD)))
    assert routes.is_own(packed(method="a", params={}, sessionId="D" * 32))
    left = packed(method="Target.detachedFromTarget", params={"sessionId": CHILD}, sessionId=OWN)
    assert routes.is_own(written(left))
    assert not routes.is_own(event)
