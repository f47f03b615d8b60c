"""Leases, tokens, and what is kept of a session elsewhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.net.http1 import RequestHead, parse_request_head
from pilothouse.core.settings import BadSetting
from pilothouse.hub.http.forward import PEER
from pilothouse.hub.model import GatewayFault, Key, SessionRecord
from pilothouse.hub.sessions import peers
from pilothouse.hub.sessions.open import peer_url
from pilothouse.hub.sessions.redis_leases import GatewayRecord, Tenure, continues, parse_gate
from pilothouse.hub.sessions.redis_records import MAX_BYTES, decode, encode, key_text, parse_key
from pilothouse.hub.sessions.redis_wire import parse_address

GATE = GatewayRecord("g1", "http://127.0.0.1:4000", "secret-of-g1")
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(asked=st.floats(0, 1e6), took=st.floats(0, 60), lease=st.floats(0.1, 60))
def test_a_gateway_stops_counting_on_its_lease_before_it_ends(
    asked: float, took: float, lease: float
) -> None:
    tenure = Tenure(lease)
    assert not tenure.holds(asked)
    tenure.renewed(asked)
    assert tenure.holds(asked)
    assert not tenure.holds(asked + took + lease)  # Redis heard of it `took` later


def test_a_renewal_that_was_asked_for_earlier_does_not_shorten_a_later_one() -> None:
    tenure = Tenure(10)
    tenure.renewed(105)
    tenure.renewed(100)
    assert tenure.holds(113)
    tenure.end()
    assert not tenure.holds(106)


def test_ownership_continues_only_from_the_token_that_was_held() -> None:
    assert continues(7, before=7)
    assert not continues(7, before=8)
    assert not continues(7, before=0)


def test_a_gateway_is_read_as_it_was_written_and_shows_no_secret() -> None:
    assert parse_gate("g1", GATE.text()) == GATE
    assert "secret-of" not in repr(GATE)
    other = json.dumps({**json.loads(GATE.text()), "v": 2})
    with pytest.raises(GatewayFault, match="another version"):
        parse_gate("g1", other)


# Records


@given(
    key=st.builds(Key, st.sampled_from(["session", "path", "handle"]), TEXT, TEXT),
    initialize=st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.lists(TEXT))),
    uris=st.lists(TEXT, unique=True),
)
def test_a_record_is_read_as_it_was_written(
    key: Key, initialize: dict[str, object], uris: list[str]
) -> None:
    record = SessionRecord("id", key, "2025", 1.5, 2.5, key.principal, initialize, "2025-11-25")
    record.subscriptions = dict.fromkeys(uris)
    read = decode(encode(record))
    assert read == record
    assert list(read.subscriptions) == uris
    assert isinstance(read.key, Key)
    assert parse_key(key_text(key)) == key


def test_a_record_is_bounded_by_leaving_out_the_last_subscriptions() -> None:
    record = SessionRecord("id", Key("local", ""), "2025", 0, 0)
    record.subscriptions = {f"test://{'ü' * 1000}/{number}": None for number in range(1000)}
    text = encode(record)
    kept = list(decode(text).subscriptions)
    assert len(text.encode()) <= MAX_BYTES
    assert 0 < len(kept) < 1000
    assert kept == list(record.subscriptions)[: len(kept)]
    record.initialize = {"clientInfo": "x" * MAX_BYTES}
    with pytest.raises(GatewayFault) as caught:
        encode(record)
    assert "xxx" not in caught.value.message


def test_a_record_of_another_version_is_not_guessed_at() -> None:
    values = json.loads(encode(SessionRecord("id", Key("local", ""), "2026", 0, 0)))
    with pytest.raises(GatewayFault, match="another version"):
        decode(json.dumps({**values, "v": 2}))
    assert decode(json.dumps({**values, "later": True})).id == "id"  # what is added is no harm


# Signatures


def head(method: str = "POST", target: str = "/mcp", **fields: str) -> RequestHead:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    return parse_request_head("\r\n".join(lines).encode())


def signed(gate: GatewayRecord = GATE, principal: str = "ann", now: float = 1000.0) -> str:
    return peers.sign(gate, head(**{"Mcp-Session-Id": "s"}), b"body", principal, now)


def judged(header: str, session: str = "s", now: float = 1000.0, **other: str) -> str | None:
    method, target = other.get("method", "POST"), other.get("target", "/mcp")
    asked = head(method, target, **{"Mcp-Session-Id": session, PEER: header})
    return peers.judge(GATE, asked, other.get("body", "body").encode(), now)


@pytest.mark.parametrize("principal", ["", "ann", "https://issuer.example|ü;:,"])
def test_the_other_gateway_learns_the_principal_from_the_signature(principal: str) -> None:
    assert judged(signed(principal=principal)) == principal


def test_a_signature_is_for_one_request_to_one_gateway_and_for_a_minute() -> None:
    header = signed()
    assert judged(header, now=1059) == judged(header, now=941) == "ann"
    assert judged(header, now=1061) is None
    assert judged(header, now=939) is None
    assert judged(header, session="t") is None
    assert judged(header, method="DELETE") is None
    assert judged(header, target="/mcp/x") is None
    assert judged(header, body="other") is None
    assert judged(signed(GatewayRecord("g2", GATE.url, GATE.secret))) is None
    assert judged(signed(GatewayRecord("g1", GATE.url, "guessed"))) is None


@pytest.mark.parametrize("header", ["", ".", "a.b", "W10=.", "ann", "." * 999])
def test_whoever_knows_no_secret_is_no_gateway(header: str) -> None:
    assert judged(header) is None
    claim = signed().partition(".")[0]
    assert judged(f"{claim}.{'0' * 64}") is None


# Addresses


def test_an_address_of_redis_is_understood_and_shown_without_its_password() -> None:
    plain = parse_address("redis://localhost")
    assert (plain.host, plain.port, plain.database, plain.tls) == ("localhost", 6379, 0, False)
    full = parse_address("rediss://me:p%40ss@[::1]:7000/5")
    assert (full.host, full.port, full.database, full.tls) == ("::1", 7000, 5, True)
    assert (full.user, full.password) == ("me", "p@ss")
    assert "p@ss" not in f"{full} {full!r}"
    assert str(full) == "rediss://[::1]:7000/5"


@pytest.mark.parametrize(
    "url",
    ["memory", "http://hidden@h", "redis://", "redis://:hidden@h:x", "redis://:hidden@h/db"],
)
def test_what_is_no_address_of_redis_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(BadSetting, match="redis://") as caught:
        parse_address(url)
    assert "hidden" not in str(caught.value)


def test_other_gateways_are_told_an_address_that_they_can_reach() -> None:
    assert peer_url("", "http://127.0.0.1:4000") == "http://127.0.0.1:4000"
    assert peer_url("https://gw1.example:4000/", "http://0.0.0.0:1") == "https://gw1.example:4000"
    with pytest.raises(BadSetting, match="--peer-url http://ADDRESS:4000"):
        peer_url("", "http://0.0.0.0:4000")
    for wrong in ("gw1:4000", "http://gw1:x", "http://gw1/path", "redis://gw1"):
        with pytest.raises(BadSetting, match="--peer-url"):
            peer_url(wrong, "http://127.0.0.1:4000")
