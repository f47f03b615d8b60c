"""Console lines, log entries and exceptions: what a person would read, and the structure beside."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.observe.normalize.events import Normalizer
from pilothouse.observe.normalize.preview import argument_text, argument_value, message_text
from tests.support.rounds import examples

TRACE = {
    "callFrames": [{"url": "app.js", "lineNumber": 9, "columnNumber": 4, "functionName": "buy"}],
    "parent": {
        "callFrames": [{"url": "lib.js", "lineNumber": 0, "columnNumber": 0, "functionName": ""}]
    },
}


def console(kind: str, *args: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "args": list(args), **more}


def string(value: str) -> dict[str, Any]:
    return {"type": "string", "value": value}


def normalizer(max_bytes: int = 64_000) -> Normalizer:
    return Normalizer(lambda: max_bytes)


def one(made: list[dict[str, Any]]) -> dict[str, Any]:
    (event,) = made
    return event


def number(value: float) -> dict[str, Any]:
    return {"type": "number", "value": value, "description": str(value)}


def preview(
    description: str = "Object", *properties: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {"type": "object", "description": description, "properties": list(properties), **more}


def prop(name: str, kind: str, value: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "value": value, **more}


def thing(shown: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "description": shown["description"], "preview": shown, **more}


def test_a_console_line_has_the_shape_of_the_spec() -> None:
    count = {"type": "number", "value": 3, "description": "3"}
    params = console("log", string("line"), count, stackTrace=TRACE)
    assert normalizer().receive("Runtime.consoleAPICalled", params) == [
        {
            "kind": "console",
            "type": "log",
            "text": "line 3",
            "args": ["line", "3"],
            "argsPreview": ["line", 3],
            "stack": {"url": "app.js", "line": 10, "column": 5},
        }
    ]


@pytest.mark.parametrize(
    ("called", "told", "call"),
    [
        *((plain, plain, None) for plain in ("log", "error", "info", "debug", "trace")),
        ("warning", "warn", None),
        ("assert", "error", None),
        *((odd, "log", odd) for odd in ("table", "dir", "startGroup", "count", "timeEnd", "clear")),
    ],
)
def test_a_console_call_is_told_as_one_of_six_types(
    called: str, told: str, call: str | None
) -> None:
    made = one(normalizer().receive("Runtime.consoleAPICalled", console(called, string("x"))))
    assert made["type"] == told
    assert made.get("call") == call
    assert made["stack"] is None


def test_an_exception_is_a_log_entry_with_its_whole_stack() -> None:
    details = {
        "text": "Uncaught",
        "url": "app.js",
        "lineNumber": 9,
        "columnNumber": 4,
        "exception": {"type": "object", "subtype": "error", "description": "Error: no\n at buy"},
        "stackTrace": TRACE,
    }
    made = normalizer().receive("Runtime.exceptionThrown", {"exceptionDetails": details})
    assert made == [
        {
            "kind": "log",
            "type": "error",
            "source": "exception",
            "text": "Error: no\n at buy",
            "args": [],
            "url": "app.js",
            "stack": {"url": "app.js", "line": 10, "column": 5},
            "frames": [
                {"function": "buy", "url": "app.js", "line": 10, "column": 5},
                {"function": "", "url": "lib.js", "line": 1, "column": 1},
            ],
        }
    ]


def test_a_rejection_that_nobody_handled_says_so_and_a_missing_stack_gives_the_place() -> None:
    place = {"url": "app.js", "lineNumber": 0, "columnNumber": 0}
    details = {**place, "text": "Uncaught (in promise)", "exception": string("gone")}
    made = one(normalizer().receive("Runtime.exceptionThrown", {"exceptionDetails": details}))
    assert (made["inPromise"], made["text"]) == (True, "gone")
    assert made["stack"] == {"url": "app.js", "line": 1, "column": 1}
    assert made["frames"] == []


def test_a_thrown_plain_object_shows_what_is_in_it() -> None:
    thrown = thing(preview("Object", prop("code", "number", "5")))
    details = {"text": "Uncaught (in promise)", "exception": thrown}
    made = one(normalizer().receive("Runtime.exceptionThrown", {"exceptionDetails": details}))
    assert "code: 5" in made["text"]


def test_an_endless_asynchronous_stack_is_cut_at_about_fifty_frames() -> None:
    trace: dict[str, Any] = {"callFrames": TRACE["callFrames"]}
    trace["parent"] = trace
    details = {"text": "Uncaught", "stackTrace": trace}
    made = one(normalizer().receive("Runtime.exceptionThrown", {"exceptionDetails": details}))
    assert len(made["frames"]) == 50


def test_a_log_entry_names_its_source_its_request_and_its_place() -> None:
    said = {"source": "network", "text": "404", "url": "app.js"}
    entry = {**said, "level": "error", "lineNumber": 2, "networkRequestId": "1.1"}
    place = {"url": "app.js", "line": 3, "column": 0}
    assert normalizer().receive("Log.entryAdded", {"entry": entry}) == [
        {"kind": "log", "type": "error", **said, "args": [], "stack": place, "requestId": "1.1"}
    ]


@pytest.mark.parametrize(("level", "told"), [("verbose", "debug"), ("warning", "warn")])
def test_levels_of_log_entries_are_told_in_the_words_of_the_spec(level: str, told: str) -> None:
    entry = {"source": "javascript", "level": level, "text": "x"}
    made = one(normalizer().receive("Log.entryAdded", {"entry": entry}))
    assert made["type"] == told
    assert made["stack"] is None


def test_a_workers_line_is_not_told_a_second_time_by_its_page() -> None:
    entry = {"source": "worker", "level": "info", "text": "from a worker"}
    assert normalizer().receive("Log.entryAdded", {"entry": entry}) == []


NAN = {"type": "number", "description": "NaN"}
BIG = {"type": "bigint", "description": "12n"}
SYMBOL = {"type": "symbol", "description": "Symbol(x)"}
ARROW = {"type": "function", "description": "() => 1"}
NESTED = preview("Object", prop("b", "boolean", "true"))
ENTRY = {"key": preview("k", type="string"), "value": preview("Object", prop("c", "number", "1"))}


@pytest.mark.parametrize(
    ("remote", "text", "value"),
    [
        (string("hi"), "hi", "hi"),
        (string(""), "", ""),
        (number(1.5), "1.5", 1.5),
        ({"type": "boolean", "value": False}, "false", False),
        ({"type": "undefined"}, "undefined", {"type": "undefined"}),
        ({"type": "object", "subtype": "null", "value": None}, "null", None),
        ({**NAN, "unserializableValue": "NaN"}, "NaN", NAN),
        ({**BIG, "unserializableValue": "12n"}, "12n", BIG),
        (SYMBOL, "Symbol(x)", SYMBOL),
        ({**ARROW, "className": "Function"}, "() => 1", ARROW),
        ({"type": "object", "className": "Window"}, "Window", {"type": "object"}),
        (
            thing(preview("Object", prop("a", "number", "1"), prop("s", "string", "x"))),
            '{a: 1, s: "x"}',
            {"type": "object", "properties": {"a": 1, "s": "x"}},
        ),
        (
            thing(preview("Cart", prop("in", "object", "Object", valuePreview=NESTED))),
            "Cart {in: {b: true}}",
            {
                "type": "object",
                "description": "Cart",
                "properties": {"in": {"type": "object", "properties": {"b": True}}},
            },
        ),
        (
            thing(preview("Array(9)", prop("0", "number", "7"), subtype="array", overflow=True)),
            "[7, …]",
            {"type": "array", "description": "Array(9)", "properties": {"0": 7}, "overflow": True},
        ),
        (
            thing(preview("Map(1)", subtype="map", entries=[ENTRY])),
            'Map(1) {"k" => {c: 1}}',
            {"type": "map", "description": "Map(1)", "entries": ['"k" => {c: 1}']},
        ),
        (
            thing(preview("Error: no\n at f", subtype="error")),
            "Error: no\n at f",
            {"type": "error", "description": "Error: no\n at f"},
        ),
        (
            thing(preview("Object", prop("f", "function"), prop("z", "object", subtype="null"))),
            "{f: function, z: null}",
            {"type": "object", "properties": {"f": "", "z": None}},
        ),
        (
            thing(preview("Object", prop("n", "number", "NaN"), prop("m", "number", "-0.5"))),
            "{n: NaN, m: -0.5}",
            {"type": "object", "properties": {"n": "NaN", "m": -0.5}},
        ),
    ],
)
def test_an_argument_is_told_as_text_and_as_structure(
    remote: dict[str, Any], text: str, value: Any
) -> None:
    assert argument_text(remote) == text
    assert argument_value(remote) == value


def test_a_typed_array_shows_its_elements_and_not_its_buffer() -> None:
    listed = [prop("0", "number", "1"), prop("buffer", "object", "ArrayBuffer(1)")]
    shown = preview("Uint8Array(1)", *listed, subtype="typedarray")
    assert argument_text(thing(shown)) == "Uint8Array(1) [1]"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], ""),
        ([string("a"), number(1)], "a 1"),
        ([string("%s is %d"), string("x"), number(4.9), string("more")], "x is 4 more"),
        ([string("%i%%"), number(50)], "50%"),
        ([string("%cred"), string("color:red")], "red"),
        ([string("%s %s"), string("only")], "only %s"),
        ([string("%d"), string("words")], "NaN"),
        ([string("%d"), {"type": "number", "unserializableValue": "Infinity"}], "NaN"),
        ([string("%f"), number(0.25)], "0.25"),
        ([string("%f"), number(1234567.891)], "1234567.891"),
        ([string("%o %O"), thing(NESTED), thing(NESTED)], "{b: true} {b: true}"),
        ([number(1), string("%s")], "1 %s"),
        ([string("100% sure"), string("x")], "100% sure x"),
    ],
)
def test_a_message_is_what_the_console_would_show(args: list[dict[str, Any]], text: str) -> None:
    assert message_text(args, [argument_text(arg) for arg in args]) == text


def test_a_long_argument_is_cut_and_its_preview_left_out() -> None:
    params = console("log", string("x" * 500), string("short"))
    made = one(normalizer(100).receive("Runtime.consoleAPICalled", params))
    assert made["args"] == ["x" * 100, "short"]
    assert made["text"] == "x" * 100
    assert made["truncated"] == {"text": 506, "args": [500, 5]}
    assert "argsPreview" not in made


NAMES = st.sampled_from(
    "type subtype className description value unserializableValue preview properties entries "
    "overflow name valuePreview key".split()
)
WORDS = st.sampled_from(
    "object function string number boolean undefined symbol bigint array map null error regexp "
    "date node proxy typedarray accessor Object NaN -0 12n 1e400 %s%d%c".split()
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=5))
REMOTES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=8,
)
DOCUMENTED = (KeyError, TypeError, ValueError, AttributeError)


@settings(max_examples=examples(100))
@given(args=st.lists(st.dictionaries(NAMES, REMOTES, max_size=5), max_size=2))
def test_no_argument_raises_anything_but_the_documented_errors(args: list[Any]) -> None:
    texts: list[str] = []
    with contextlib.suppress(*DOCUMENTED):
        texts = [argument_text(arg) for arg in args]
        assert all(isinstance(text, str) for text in texts)
        assert "[object Object]" not in message_text(args, texts)
    with contextlib.suppress(*DOCUMENTED):
        json.dumps([argument_value(arg) for arg in args])
