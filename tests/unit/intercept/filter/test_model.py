"""How filters are read: what each part means, and where a bad one goes wrong."""

from __future__ import annotations

import pytest

from pilothouse.intercept.filter.explain import described, explained, render
from pilothouse.intercept.filter.model import MOST_CONDITIONS, And, Compare, Or, parse
from pilothouse.intercept.model import BadFilter

GET = Compare("method", "==", "GET")
POST = Compare("method", "==", "POST")


@pytest.mark.parametrize(
    ("text", "root"),
    [
        (
            "status >= 400 && status <= 599",
            And((Compare("status", ">=", 400), Compare("status", "<=", 599))),
        ),
        ("length > 10000", Compare("length", ">", 10000)),
        (
            "url =~ /api/ && (method == GET || method == POST)",
            And((Compare("url", "=~", "/api/"), Or((GET, POST)))),
        ),
        ("full_text_i =~ authorization", Compare("full_text_i", "=~", "authorization")),
        ("type == WebSocket", Compare("type", "==", "WebSocket")),
        (
            "method == POST && url =~ /login && status == 401",
            And((POST, Compare("url", "=~", "/login"), Compare("status", "==", 401))),
        ),
        ("method == GET && url =~ /api/", And((GET, Compare("url", "=~", "/api/")))),
        ("method == GET", GET),
        ("status != 200", Compare("status", "!=", 200)),
        ("length >= 1000", Compare("length", ">=", 1000)),
        ("status <= 299", Compare("status", "<=", 299)),
        ("url =~ /api/v[0-9]+/", Compare("url", "=~", "/api/v[0-9]+/")),
        ("url !~ /static/", Compare("url", "!~", "/static/")),
        ("method == POST && status >= 400", And((POST, Compare("status", ">=", 400)))),
        ("method == GET || method == POST", Or((GET, POST))),
    ],
)
def test_each_filter_of_the_spec_is_read_as_it_stands(text: str, root: object) -> None:
    assert parse(text).root == root


def test_and_binds_tighter_than_or() -> None:
    one = Compare("id", "==", 1)
    assert parse("id == 1 || method == GET && method == POST").root == Or((one, And((GET, POST))))
    assert parse("(id == 1 || method == GET) && method == POST").root == And((Or((one, GET)), POST))


def test_brackets_that_change_nothing_leave_no_trace() -> None:
    text = "((method == GET) && (method == POST && ((id == 1))))"
    assert parse(text).root == And((GET, POST, Compare("id", "==", 1)))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("h(2|3)", "h(2|3)"),
        ("(?i)login|logout", "(?i)login|logout"),
        ("a=1&b=2", "a=1&b=2"),
        ("  two  words  ", "two  words"),
        (r"\(x\)", r"\(x\)"),
        ("((a)(b))c", "((a)(b))c"),
        ("a (b) c", "a (b) c"),
        ("it's", "it's"),
        ('say "hi"', 'say "hi"'),
        ('"a || b"', "a || b"),
        ("'a && b'", "a && b"),
        ('" blanks "', " blanks "),
        (r'"say \"hi\""', 'say "hi"'),
        (r"'it\'s'", "it's"),
        (r'"\d+\\d"', r"\d+\d"),
        ('"a)"', "a)"),
        ("/api/", "/api/"),
        ("日本語 テスト", "日本語 テスト"),
        ("a\nb", "a\nb"),
        ("==", "=="),
    ],
)
def test_values_keep_what_they_say(written: str, value: str) -> None:
    assert parse(f"full_text == {written}").root == Compare("full_text", "==", value)
    wrapped = parse(f"(full_text == {written})&&method==GET").root
    assert wrapped == And((Compare("full_text", "==", value), GET))


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("time >= 2025-01-15T10:30:00Z", "time", 1_736_937_000_000),
        ("time >= 2025-01-15T12:30:00+02:00", "time", 1_736_937_000_000),
        ("time >= 2025-01-15T10:30:00", "time", 1_736_937_000_000),
        ("time >= 2025-01-15T10:30:00.1239Z", "time", 1_736_937_000_123),
        ("time >= 2025-01-15 10:30", "time", 1_736_937_000_000),
        ("time >= 2025-01-15", "time", 1_736_899_200_000),
        ("time >= 1736937000000", "time", 1_736_937_000_000),
        ("time >= 1736937000000.75", "time", 1_736_937_000_000),
        ("resend == true", "resend", 1),
        ("resend == 1", "resend", 1),
        ("modified != false", "modified", 0),
        ("modified != 0", "modified", 0),
        ("length < -5", "length", -5),
        ("id <= 9223372036854775807", "id", 2**63 - 1),
    ],
)
def test_values_are_read_in_the_kind_of_their_column(text: str, column: str, value: int) -> None:
    root = parse(text).root
    assert isinstance(root, Compare)
    assert (root.column, root.value) == (column, value)


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("method === GET", 7, "operator"),
        ("url =~~ x", 4, "operator"),
        ("length >> 1", 7, "operator"),
        ("", 0, "a column"),
        ("   ", 3, "a column"),
        ("method", 6, "an operator"),
        ("method = GET", 7, "an operator"),
        ("method GET", 7, "an operator"),
        ("method ==", 9, "a value"),
        ("method ==   ", 12, "a value"),
        ("method == && id == 1", 10, "a value"),
        ('method == ""', 11, "a value"),
        ("method == GET)", 13, "the end"),
        ("(method == GET", 14, ")"),
        ("method == GET && ", 17, "a column"),
        ("method == GET &&& id == 1", 16, "a column"),
        ('method == "GET" garbage', 16, "the end"),
        ('method == "GET', 10, 'a closing "'),
        ("url =~ (a", 9, "a closing parenthesis"),
        ("url =~ (a && id == 1", 10, "a closing parenthesis"),
        ("methd == GET", 0, "a column"),
        ("id == 1 && Method == GET", 11, "a column"),
        ("status == abc", 10, "a whole number"),
        ("status == 1.5", 10, "a whole number"),
        ("id == 9223372036854775808", 6, "a whole number"),
        ("id == 99999999999999999999999", 6, "a whole number"),
        ("resend == yes", 10, "true or false"),
        ("time > yesterday", 7, "ISO 8601"),
        ("time > 2025-13-01", 7, "ISO 8601"),
        ("url > 5", 4, "one of =="),
        ("resend =~ t", 7, "one of =="),
        ("full_text >= 5", 10, "one of =="),
        ("url =~ [a", 7, "an RE2 pattern"),
        (r"url =~ (?=a)", 7, "an RE2 pattern"),
        (r'url =~ "(a)\1"', 8, "an RE2 pattern"),
        ("url =~ " + "a" * 1001, 7, "an RE2 pattern"),
        ("url =~ ((a{100}){100}){10}", 7, "an RE2 pattern"),
        ("!(id == 1)", 0, "a column"),
        ("full_text == \ud800", 13, "whole characters"),
    ],
)
def test_a_bad_filter_says_where_and_what_was_expected(
    text: str, position: int, expected: str
) -> None:
    with pytest.raises(BadFilter) as caught:
        parse(text)
    fault = caught.value
    assert fault.details["position"] == position
    assert expected in str(fault.details["expected"])
    assert f"position {position}" in fault.message
    assert "for example: " in fault.hint


def test_a_misspelt_column_is_answered_with_the_right_one() -> None:
    for written, meant in (("methd", "method"), ("Status", "status"), ("fulltext", "full_text")):
        with pytest.raises(BadFilter) as caught:
            parse(f"{written} == 1")
        assert f"did you mean {meant}?" in caught.value.hint
    with pytest.raises(BadFilter) as caught:
        parse("wxyz == 1")
    assert "columns are id, request" in caught.value.hint


def test_an_unknown_type_is_read_but_warned_of() -> None:
    assert parse("type == websocket").warnings[0].startswith("no packet has the type 'websocket'")
    assert parse("type == gRPC || type =~ ^web").warnings == ()


def test_a_time_in_seconds_is_read_but_warned_of() -> None:
    assert "so as 1970-01-21" in parse("time > 1736937000").warnings[0]
    assert parse("time > 0").warnings == ()


def test_brackets_may_be_deep_but_conditions_are_counted() -> None:
    assert parse("(" * 3000 + "id == 1" + ")" * 3000).root == Compare("id", "==", 1)
    assert parse("full_text == " + "(" * 3000 + ")" * 3000)
    most = " && ".join(["id > 1"] * MOST_CONDITIONS)
    assert parse(most)
    with pytest.raises(BadFilter, match="too many conditions"):
        parse(f"{most} && id > 1")
    with pytest.raises(BadFilter, match="too long"):
        parse("id == 1" + " " * 8000)


def test_a_filter_is_told_in_words() -> None:
    root = parse("url =~ /api/ && (method == GET || time < 2025-01-15) && length != 5").root
    assert described(root) == (
        "url matches /api/ and (method is exactly GET or time of either packet is less than"
        " 2025-01-15T00:00:00.000Z) and length of neither packet is exactly 5"
    )
    assert described(parse("request != x || full_text_i == y").root) == (
        "the request does not contain x or the request or the response, in any case, contains y"
    )
    assert render(root) == "url =~ /api/ && (method == GET || time < 1736899200000) && length != 5"


def test_the_plan_is_explained_without_sql() -> None:
    plan = explained("full_text =~ (error|except[a-z]+) && url == /api/users")["plan"]
    assert plan["literals"] == ["error", "except", "/api/users"]
    assert plan["scan"] is False
    slow = explained("full_text =~ a.b")
    assert slow["plan"]["scan"] is True
    assert "3 or more characters" in slow["warning"]
    quick = explained("status == 404 && full_text =~ a.b")
    assert quick["plan"]["indexes"] == ["status"]
    assert "warning" not in quick
    assert explained(" ")["meaning"] == "every exchange"
    assert "not even !=" in explained("status != 200")["note"]


@pytest.mark.parametrize(
    "text",
    ["url =~ /api and status == 200", "method == GET | method == POST", "url == /a OR length>5"],
)
def test_conditions_that_are_swallowed_by_a_value_carry_a_warning(text: str) -> None:
    (warning,) = parse(text).warnings
    assert "joined by && and ||" in warning
    assert parse("full_text =~ salt and pepper || url =~ a|b").warnings == ()


def test_a_method_in_small_letters_carries_a_warning() -> None:
    assert "case" in parse("method == get").warnings[0]
    assert parse("method == GET || method =~ get").warnings == ()
