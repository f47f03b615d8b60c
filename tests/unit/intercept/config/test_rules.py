"""Rules on traffic: byte for byte what they say, and nothing else."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.intercept.config.rules import BadRule, ReadyRules, change_of

if TYPE_CHECKING:
    from pilothouse.intercept.config.rules import Direction

ALL_BYTES = bytes(range(256))
REQUEST = b"GET /a?b=1 HTTP/1.1\r\nHost: a.test\r\nCookie: id=7\r\n\r\nbody body"


def rule(pattern: str, replaced: str, method: str = "SIMPLE", **other: Any) -> dict[str, Any]:
    return {
        "id": 1,
        "enabled": True,
        "server_id": -1,
        "direction": "ALL",
        "pattern": pattern,
        "method": method,
        "replaced": replaced,
        **other,
    }


def rules(*items: dict[str, Any]) -> ReadyRules:
    return ReadyRules.of({"modifications": items, "sslPassThroughs": [], "servers": []})


def applied(item: dict[str, Any], message: bytes) -> bytes | None:
    return rules(item).apply("CLIENT_REQUEST", None, message)


def passing(*items: tuple[str, int], enabled: bool = True) -> ReadyRules:
    made = [{"server_name": name, "listen_port": p, "enabled": enabled} for name, p in items]
    return ReadyRules.of({"modifications": [], "sslPassThroughs": made, "servers": []})


def test_simple_replaces_every_occurrence_literally() -> None:
    assert applied(rule("body", "x"), REQUEST) == REQUEST.replace(b"body", b"x")
    assert applied(rule(".*", "X-Test: 1"), b"a.*b.*") == b"aX-Test: 1bX-Test: 1"
    assert applied(rule(".*", "X-Test: 1"), REQUEST) is None, "it is no regular expression"


def test_simple_does_not_overlap_and_does_not_look_at_what_it_wrote() -> None:
    assert applied(rule("aa", "a"), b"aaaaa") == b"aaa"
    assert applied(rule("a", "aa"), b"aba") == b"aabaa"


def test_simple_text_is_utf_8() -> None:
    assert applied(rule("é", "ü"), "aéb".encode()) == "aüb".encode()


def test_binary_is_hex_with_blanks_ignored() -> None:
    assert applied(rule("00 FF\r\n0a", "de AD", "BINARY"), ALL_BYTES + b"\x00\xff\x0a!") == (
        ALL_BYTES + b"\xde\xad!"
    )


@pytest.mark.parametrize(
    ("pattern", "replaced", "message", "expected"),
    [
        (r"id=\w+", "id=8", b"id=7;id=9", b"id=8;id=8"),
        (r"(\w+)=(\w+)", "$2=$1", b"a=1", b"1=a"),
        (r"(\w+)=(\w+)", "${2}0=\\1", b"a=1", b"10=a"),
        (r"(?P<key>\w+)=", "${key}:", b"a=1", b"a:1"),
        (r"(a)", "$12", b"a", b"a2"),
        (r"a", "$0$0", b"a", b"aa"),
        (r"a", r"\$1", b"a", b"$1"),
        (r"a", r"\\", b"a", b"\\"),
        (r"a", "b\\", b"a", b"b\\"),
        (r"a", r"1\r\n2", b"a", b"1\r\n2"),
        (r"a", "$ 5", b"a", b"$ 5"),
        (r"(a)|b", "[$1]", b"ab", b"[a][]"),
        (r"^b$", "x", b"a\nb\nc", b"a\nx\nc"),
        (r"a|^c", "x", b"a\nc", b"x\nx"),
        (r"x*", "-", "é".encode(), "-é-".encode()),
        (r"\z", "!", b"a", b"a!"),
        (r"$", ";", b"a\nb\n", b"a;\nb;\n;"),
        (r"x*", "-", b"axb", b"-a-b-"),
        (r"(?i)HOST: [^\r]+", "Host: b", b"host: a\r\n", b"Host: b\r\n"),
    ],
)
def test_a_regex_is_multi_line_re2_with_group_references(
    pattern: str, replaced: str, message: bytes, expected: bytes
) -> None:
    assert applied(rule(pattern, replaced, "REGEX"), message) == expected


@pytest.mark.parametrize(
    ("pattern", "replaced", "expected"),
    [
        ("^Cookie: .*$", "X: 1", REQUEST.replace(b"Cookie: id=7", b"X: 1")),
        ("^Cookie: (.*)$", "Cookie: $1; a=b", REQUEST.replace(b"id=7", b"id=7; a=b")),
        ("^(Cookie: .*)$", "X: y\r\n$1", REQUEST.replace(b"Cookie", b"X: y\r\nCookie")),
        ("^Cookie: id=7\r$", "Cookie: id=8\r", REQUEST.replace(b"id=7", b"id=8")),
        ("^Cookie: .*\r\n", "", REQUEST.replace(b"Cookie: id=7\r\n", b"")),
        ("\r", "", REQUEST.replace(b"\r", b"")),
    ],
)
def test_a_header_line_keeps_its_end(pattern: str, replaced: str, expected: bytes) -> None:
    assert applied(rule(pattern, replaced, "REGEX"), REQUEST) == expected


@pytest.mark.parametrize("replaced", ["$1", "${1}", "${name}", r"\1", "$9999999", "${0x}"])
def test_a_reference_to_no_group_is_refused(replaced: str) -> None:
    with pytest.raises(BadRule) as caught:
        change_of("REGEX", "a", replaced)
    assert caught.value.field == "replaced"
    assert r"\$" in caught.value.expected


def test_every_byte_value_survives_a_regex_that_matches_beside_it() -> None:
    message = ALL_BYTES + b"token=1" + ALL_BYTES
    assert applied(rule(r"token=\d", "token=2", "REGEX"), message) == (
        ALL_BYTES + b"token=2" + ALL_BYTES
    )


def test_a_regex_that_does_not_match_changes_nothing() -> None:
    assert applied(rule("absent", "x", "REGEX"), ALL_BYTES) is None


@given(st.binary(), st.binary(min_size=1, max_size=3), st.binary(max_size=3))
def test_binary_does_what_replacing_bytes_does(message: bytes, old: bytes, new: bytes) -> None:
    expected = message.replace(old, new)
    found = applied(rule(old.hex(" "), new.hex(), "BINARY"), message)
    assert found == (None if expected == message else expected)


@given(st.binary(), st.sampled_from(["a+", "[0-9]", "b?", "x|y", "."]))
def test_a_regex_touches_only_what_it_matched(message: bytes, pattern: str) -> None:
    kept = applied(rule(f"({pattern})", "$1", "REGEX"), message)
    assert kept is None, "each match was put back"


@given(st.text(alphabet="ab1\n -", max_size=40), st.sampled_from(["a+", "[0-9]", "^a", "b$"]))
def test_a_regex_replaces_what_pythons_own_does(text: str, pattern: str) -> None:
    if pattern == "b$":
        text = text.rstrip("\n")  # Python's $ also matches before a last line feed
    expected = re.sub(pattern, "<>", text, flags=re.MULTILINE).encode()
    found = applied(rule(pattern, "<>", "REGEX"), text.encode())
    assert (found or text.encode()) == expected


def test_rules_apply_in_the_order_of_the_table() -> None:
    forth = rules(rule("a", "b"), rule("b", "c"))
    back = rules(rule("b", "c"), rule("a", "b"))
    assert forth.apply("CLIENT_REQUEST", None, b"a") == b"c"
    assert back.apply("CLIENT_REQUEST", None, b"a") == b"b"


def test_a_message_that_ends_up_as_it_was_is_unchanged() -> None:
    assert rules(rule("a", "b"), rule("b", "a")).apply("CLIENT_REQUEST", None, b"a") is None


def test_a_message_that_a_rule_empties_is_dropped_whatever_follows() -> None:
    emptied = rules(rule("(?s).*", "", "REGEX"), rule(r"\A", "x", "REGEX"))
    assert emptied.apply("CLIENT_REQUEST", None, b"a\nb") == b""
    assert emptied.apply("CLIENT_REQUEST", None, b"") is None


@pytest.mark.parametrize(
    ("direction", "server_id", "on", "to", "is_changed"),
    [
        ("ALL", -1, "CLIENT_REQUEST", None, True),
        ("ALL", -1, "SERVER_RESPONSE", 5, True),
        ("CLIENT_REQUEST", -1, "CLIENT_REQUEST", 5, True),
        ("CLIENT_REQUEST", -1, "SERVER_RESPONSE", 5, False),
        ("SERVER_RESPONSE", -1, "CLIENT_REQUEST", 5, False),
        ("SERVER_RESPONSE", 5, "SERVER_RESPONSE", 5, True),
        ("ALL", 5, "SERVER_RESPONSE", 6, False),
        ("ALL", 5, "SERVER_RESPONSE", None, False),
    ],
)
def test_a_rule_concerns_its_direction_and_server_alone(
    direction: str, server_id: int, on: Direction, to: int | None, is_changed: bool
) -> None:
    made = rules(rule("a", "b", direction=direction, server_id=server_id))
    assert made.apply(on, to, b"a") == (b"b" if is_changed else None)
    assert made.concerns(on, to) is is_changed


def test_a_rule_that_is_not_enabled_does_nothing() -> None:
    made = rules(rule("a", "b", enabled=False))
    assert made.apply("CLIENT_REQUEST", None, b"a") is None
    assert not made.concerns("CLIENT_REQUEST", None)


def test_an_evil_regex_ends() -> None:
    started = time.monotonic()
    assert applied(rule("(a+)+$", "x", "REGEX"), b"a" * 100_000 + b"!") is None
    assert time.monotonic() - started < 30, "a guard: it takes milliseconds"


@pytest.mark.parametrize(
    ("pattern", "port", "name", "on", "passes"),
    [
        ("secure.com", -1, "secure.com", 8080, True),
        ("secure.com", -1, "SECURE.com.", 8080, True),
        ("secure.com", -1, "a.secure.com", 8080, False),
        ("secure.com", -1, "secure.com.evil", 8080, False),
        (r".*\.apple\.com", -1, "a.b.apple.com", 1, True),
        (r".*\.apple\.com", -1, "apple.com", 1, False),
        ("a|b", -1, "ab", 1, False),
        ("a", 8080, "a", 8080, True),
        ("a", 443, "a", 8080, False),
    ],
)
def test_pass_through_matches_the_whole_name_on_its_listener(
    pattern: str, port: int, name: str, on: int, passes: bool
) -> None:
    assert passing((pattern, port)).passes_through(name, on) is passes


def test_one_of_several_pass_throughs_is_enough_and_a_disabled_one_counts_for_nothing() -> None:
    assert passing(("a", 1), ("b", 2)).passes_through("b", 2)
    assert not passing(("a", -1), enabled=False).passes_through("a", 1)


def test_a_server_is_found_by_name_or_address_and_port() -> None:
    servers = [
        {"id": 1, "ip": "Target.com", "port": 443},
        {"id": 2, "ip": "2001:DB8:0::1", "port": 80},
        {"id": 3, "ip": "target.com", "port": 443},
    ]
    made = ReadyRules.of({"modifications": [], "sslPassThroughs": [], "servers": servers})
    assert made.server_for("target.COM.", 443) is servers[0]
    assert made.server_for("[2001:db8::1]", 80) is servers[1]
    assert made.server_for("target.com", 80) is None
    assert made.server_for("other.com", 443) is None
