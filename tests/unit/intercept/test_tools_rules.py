"""Mock rules and breakpoints: what is handed to the proxy and what is shown of it."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from pilothouse.core.faults import InvalidInput
from pilothouse.core.fence import visible_json
from pilothouse.core.secret_shapes import MASK
from pilothouse.intercept.rule_tools import breakpoints, held_packets, mock_rules, release_packet
from tests.support.fake_interceptor import FakeInterceptor, call

pytestmark = pytest.mark.anyio

HEAD = b"POST /pay HTTP/1.1\r\nHost: shop\r\nAuthorization: Bearer hunter22\r\n\r\n"


def holding() -> FakeInterceptor:
    fake = FakeInterceptor()
    fake.hold("h1", HEAD, b'{"amount": 5}')
    return fake


async def test_mocks_are_replaced_as_a_whole() -> None:
    fake = FakeInterceptor()
    rule = {"url": "/api/cart", "method": "GET", "body": "[]", "headers": {"X-A": "1"}, "times": 2}
    shown = await call(mock_rules, fake, rules=[rule])
    assert fake.asked == [
        ("set_rules", ([{**rule, "status": 200, "delay_ms": 0}], None)),
    ]
    assert [one["url"] for one in shown["rules"]] == ["/api/cart"]
    assert await call(mock_rules, fake, rules=[]) == {"rules": []}


async def test_without_rules_those_that_hold_are_listed_and_stay() -> None:
    fake = FakeInterceptor()
    await call(mock_rules, fake, rules=[{"url": "/a"}])
    await call(breakpoints, fake, rules=[{"url": "/b", "on": "both"}])
    assert [one["url"] for one in (await call(mock_rules, fake))["rules"]] == ["/a"]
    assert (await call(breakpoints, fake))["rules"] == [{"url": "/b", "on": "both"}]
    assert fake.asked[-1] == ("set_rules", (None, None))


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"url": ""},
        {"url": "/a", "status": 199},
        {"url": "/a", "status": 600},
        {"url": "/a", "delay_ms": 60_001},
        {"url": "/a", "times": 0},
        {"url": "/a", "code": 200},
    ],
    ids=repr,
)
async def test_a_rule_that_is_not_sound_changes_nothing(rule: dict[str, Any]) -> None:
    fake = FakeInterceptor()
    with pytest.raises(InvalidInput):
        await call(mock_rules, fake, rules=[rule])
    assert fake.asked == []


async def test_what_is_held_is_listed_masked() -> None:
    shown = await call(held_packets, holding())
    (held,) = shown["held"]
    assert (held["held_id"], held["body"]) == ("h1", '{"amount": 5}')
    assert "hunter22" not in visible_json(shown)


async def test_what_is_held_is_sent_on_as_it_is() -> None:
    fake = holding()
    shown = await call(release_packet, fake, held_id="h1")
    assert shown == {"held_id": "h1", "action": "forward", "edited": False}
    assert fake.asked == [("decide", ("h1", "forward", {}))]


async def test_what_is_held_is_dropped() -> None:
    fake = holding()
    await call(release_packet, fake, held_id="h1", action="drop")
    assert fake.asked == [("decide", ("h1", "drop", {}))]


async def test_an_edited_head_keeps_the_masked_values_of_untouched_lines() -> None:
    fake = holding()
    (held,) = (await call(held_packets, fake))["held"]
    edited = held["head"].replace("/pay", "/pay?twice")
    await call(release_packet, fake, held_id="h1", head=edited, body="ü")
    ((_, (_, _, edit)),) = fake.asked
    assert b64decode(edit["head"]) == HEAD.replace(b"/pay", b"/pay?twice")
    assert b64decode(edit["body"]) == "ü".encode()


async def test_a_mask_is_never_sent_as_a_body() -> None:
    fake = holding()
    with pytest.raises(InvalidInput, match="would be sent as it stands"):
        await call(release_packet, fake, held_id="h1", body=f'{{"password": "{MASK}"}}')
    assert fake.asked == []


async def test_what_is_no_longer_held_cannot_be_decided_on() -> None:
    with pytest.raises(InvalidInput, match="nothing is held"):
        await call(release_packet, holding(), held_id="h2", head="GET / HTTP/1.1")
