"""Source maps: hand-made ones, hostile ones, and those that esbuild made of TypeScript.

The bundles in maps/ were made by `esbuild --bundle --minify --sourcemap`; the sources stand
in the maps.
"""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.observe.read import source_map
from pilothouse.observe.read.source_map import (
    SourceMap,
    SourcePosition,
    inline_map,
    map_url,
    resolve_source,
)

MAPS = Path(__file__).parents[1] / "maps"
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def vlq(number: int) -> str:
    rest = -number << 1 | 1 if number < 0 else number << 1
    text = ""
    while rest > 31:
        text += DIGITS[rest & 31 | 32]
        rest >>= 5
    return text + DIGITS[rest]


def plain(mappings: str, **fields: Any) -> dict[str, Any]:
    return {
        "version": 3,
        "sources": ["a.ts", "b.ts"],
        "names": ["one", "two"],
        "mappings": mappings,
        **fields,
    }


def parsed(mappings: str, **fields: Any) -> SourceMap:
    return SourceMap.parse(json.dumps(plain(mappings, **fields)))


def encoded(lines: list[list[tuple[int, ...]]]) -> str:
    """Lines of (column), (column, source, line, column) or (…, name), all absolute."""
    before = [0, 0, 0, 0, 0]
    texts = []
    for line in lines:
        before[0] = 0
        segments = []
        for segment in line:
            segments.append("".join(vlq(a - b) for a, b in zip(segment, before, strict=False)))
            before[: len(segment)] = segment
        texts.append(",".join(segments))
    return ";".join(texts)


def test_a_position_between_two_mappings_belongs_to_the_one_before_it() -> None:
    found = parsed(encoded([[(0, 0, 4, 2), (10, 1, 7, 0, 1)]]))
    assert found.original(1, 1) == SourcePosition("a.ts", 5, 3, "")
    assert found.original(1, 10) == SourcePosition("a.ts", 5, 3, "")
    assert found.original(1, 11) == SourcePosition("b.ts", 8, 1, "two")
    assert found.original(1, 10_000) == SourcePosition("b.ts", 8, 1, "two")


def test_a_mapping_of_one_number_ends_the_one_before_it() -> None:
    found = parsed(encoded([[(0, 0, 0, 0), (5,), (8, 0, 1, 0)]]))
    assert found.original(1, 5) == SourcePosition("a.ts", 1, 1, "")
    assert found.original(1, 6) is None
    assert found.original(1, 9) == SourcePosition("a.ts", 2, 1, "")


def test_a_line_without_mappings_does_not_borrow_those_of_the_line_before() -> None:
    found = parsed(";" + encoded([[(3, 0, 0, 0)], [], [(0, 0, 9, 0)]]))
    assert [found.original(line, 50) for line in (1, 3, 5)] == [None, None, None]
    assert found.original(2, 3) is None
    assert found.original(2, 4) == SourcePosition("a.ts", 1, 1, "")
    assert found.original(4, 1) == SourcePosition("a.ts", 10, 1, "")


@pytest.mark.parametrize(("line", "column"), [(0, 1), (1, 0), (-1, 5), (10**30, 1), (2, 10**30)])
def test_a_position_outside_the_bundle_has_no_place(line: int, column: int) -> None:
    assert parsed("AAAA").original(line, column) is None


def test_columns_that_go_back_are_put_in_order() -> None:
    found = parsed(encoded([[(20, 0, 2, 0), (0, 0, 0, 0), (10, 0, 1, 0)]]))
    assert [found.original(1, column) for column in (1, 11, 21)] == [
        SourcePosition("a.ts", line, 1, "") for line in (1, 2, 3)
    ]


def test_empty_segments_are_passed_over_however_many() -> None:
    commas = "," * 50_000
    found = parsed(f"{commas}AAAA{commas};{commas}KACA{commas}")
    assert found.original(1, 1) == SourcePosition("a.ts", 1, 1, "")
    assert found.original(2, 6) == SourcePosition("a.ts", 2, 1, "")


def test_a_mapping_to_a_source_or_line_that_is_not_there_has_no_place() -> None:
    assert parsed(encoded([[(0, 2, 0, 0)]])).original(1, 1) is None
    assert parsed(encoded([[(0, -1, 0, 0)]])).original(1, 1) is None
    assert parsed(encoded([[(0, 0, -1, 0)]])).original(1, 1) is None
    assert parsed(encoded([[(0, 0, 0, -1)]])).original(1, 1) is None
    assert parsed("AAAA", sources=[None]).original(1, 1) is None


def test_a_name_that_is_not_there_is_left_empty() -> None:
    assert parsed(encoded([[(0, 0, 0, 0, 9)]])).original(1, 1) == SourcePosition("a.ts", 1, 1, "")
    assert parsed("AAAAA", names=None).original(1, 1) == SourcePosition("a.ts", 1, 1, "")


NUMBERS = "A=0 B=0 C=1 D=-1 e=15 f=-15 gB=16 hB=-16 2H=123 qxmvrH=123456789 rxmvrH=-123456789"
UNUSUAL = "gA=0 ggggggA=0 +/////D=2147483647 //////D=-2147483647"


@pytest.mark.parametrize("known", [*NUMBERS.split(), *UNUSUAL.split()])
def test_a_number_is_read_from_its_digits(known: str) -> None:
    text, _, said = known.partition("=")
    number = int(said)
    base = max(0, -number)  # no column may be negative, so the first is that far away
    found = parsed(f"AAA{vlq(base)},CAA{text}").original(1, 2)
    assert found == SourcePosition("a.ts", 1, base + number + 1, "")


@pytest.mark.parametrize(
    "segment",
    ["AAAg", "g", "AA", "AAA", "AAAAAA", "AAAggggggE", "A" * 50, "g" * 200_000],
)
def test_a_segment_that_is_no_mapping_is_named_when_it_is_reached(segment: str) -> None:
    found = parsed("AAAA;" * 10_000 + segment)
    assert found.original(1, 1) == SourcePosition("a.ts", 1, 1, "")
    for _ in range(2):
        with pytest.raises(ValueError, match="a mapping is not of 1, 4 or 5 numbers of 32 bits"):
            found.original(10_001, 1)
    assert found.original(1, 1) == SourcePosition("a.ts", 1, 1, "")


@pytest.mark.parametrize("character", ["-", "_", "=", " ", "\n", "é", "\0", "\ud800", "?"])
def test_a_character_outside_base_64_is_refused(character: str) -> None:
    with pytest.raises(ValueError, match="no digit of base 64"):
        parsed(f"AAAA,{character}AAA")


small = st.integers(0, 40)
segments = st.one_of(
    st.tuples(small),
    st.tuples(small, st.integers(0, 1), st.integers(0, 2**20), st.integers(0, 2**20)),
    st.tuples(small, st.integers(0, 1), small, small, st.integers(0, 1)),
)


@given(
    st.lists(st.lists(segments, max_size=6), max_size=8),
    st.sampled_from([1, 7, 1 << 13]),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 45)), min_size=1, max_size=6),
)
def test_what_was_encoded_is_found_again_wherever_the_chunks_are_cut(
    lines: list[list[tuple[int, ...]]], chunk: int, positions: list[tuple[int, int]]
) -> None:
    lines = [sorted(line, key=lambda segment: segment[0]) for line in lines]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_map, "_CHUNK", chunk)
        found = parsed(encoded(lines))
        for line, column in positions:
            before = [s for s in (lines[line] if line < len(lines) else []) if s[0] <= column]
            assert found.original(line + 1, column + 1) == (place(before[-1]) if before else None)


def place(segment: tuple[int, ...]) -> SourcePosition | None:
    if len(segment) == 1:
        return None
    _, source, line, column, *name = segment
    return SourcePosition(
        "ab"[source] + ".ts", line + 1, column + 1, ["one", "two"][name[0]] if name else ""
    )


# Whole maps


def test_a_guard_line_and_a_byte_order_mark_are_passed_over() -> None:
    for guard in (")]}'\n", ")]}\n", ")]}'garbage\r\n", "\ufeff", "\ufeff)]}'\n"):
        found = SourceMap.parse(guard + json.dumps(plain("AAAA")))
        assert found.original(1, 1) == SourcePosition("a.ts", 1, 1, "")


def test_sources_stand_under_the_source_root() -> None:
    found = parsed("AAAA,CCAA", sourceRoot="webpack:///./src", sources=["a.ts", "webpack://lib/b"])
    assert found.original(1, 1) == SourcePosition("webpack:///src/a.ts", 1, 1, "")
    assert found.original(1, 2) == SourcePosition("webpack://lib/b", 1, 1, "")
    assert parsed("AAAA", sourceRoot=None).original(1, 1) == SourcePosition("a.ts", 1, 1, "")


def test_an_excerpt_is_the_line_with_its_neighbours() -> None:
    text = "first\r\nsecond\nthird\u2028fourth\rfifth"
    found = parsed("AAAA", sourcesContent=[text])
    at = SourcePosition("a.ts", 3, 2, "")
    assert found.excerpt(at) == "third"
    assert found.excerpt(at, around=1) == "second\nthird\nfourth"
    assert found.excerpt(at, around=9) == "first\nsecond\nthird\nfourth\nfifth"
    assert found.excerpt(SourcePosition("a.ts", 1, 1, ""), around=1) == "first\nsecond"
    assert found.excerpt(SourcePosition("a.ts", 5, 1, ""), around=1) == "fourth\nfifth"


def test_there_is_no_excerpt_where_there_is_no_such_line() -> None:
    found = parsed("AAAA", sourcesContent=["only", None, "of no source"])
    assert found.excerpt(SourcePosition("a.ts", 2, 1, "")) is None
    assert found.excerpt(SourcePosition("a.ts", 0, 1, "")) is None
    assert found.excerpt(SourcePosition("b.ts", 1, 1, "")) is None
    assert found.excerpt(SourcePosition("c.ts", 1, 1, "")) is None
    assert parsed("AAAA").excerpt(SourcePosition("a.ts", 1, 1, "")) is None


def section(line: int, column: int, inner: dict[str, Any]) -> dict[str, Any]:
    return {"offset": {"line": line, "column": column}, "map": inner}


def indexed(*sections: dict[str, Any]) -> str:
    return json.dumps({"version": 3, "sections": sections})


def test_each_section_of_an_indexed_map_answers_from_its_offset_on() -> None:
    first = plain("AAAA;AACA", sources=["x.ts"], sourcesContent=["x"])
    second = plain("AAAAC;AACA", sources=["y.ts"], sourceRoot="lib", sourcesContent=["y"])
    inner = json.loads(indexed(section(0, 5, first), section(2, 0, second)))
    found = SourceMap.parse(
        indexed(section(0, 0, first), section(1, 10, second), section(9, 3, inner))
    )
    assert found.original(1, 3) == SourcePosition("x.ts", 1, 1, "")
    assert found.original(2, 10) == SourcePosition("x.ts", 2, 1, "")
    assert found.original(2, 11) == SourcePosition("lib/y.ts", 1, 1, "two")
    assert found.original(3, 1) == SourcePosition("lib/y.ts", 2, 1, "")
    assert found.original(4, 1) is None
    assert found.original(10, 8) is None
    assert found.original(10, 9) == SourcePosition("x.ts", 1, 1, "")
    assert found.original(12, 1) == SourcePosition("lib/y.ts", 1, 1, "two")
    assert found.excerpt(SourcePosition("lib/y.ts", 1, 1, "")) == "y"


def test_before_the_first_section_and_in_a_map_of_none_nothing_is_mapped() -> None:
    assert SourceMap.parse(indexed(section(4, 0, plain("AAAA")))).original(4, 9) is None
    assert SourceMap.parse(indexed()).original(1, 1) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        (")]}'", "not JSON"),
        ("<!doctype html>", "not JSON"),
        ("[]", "not of version 3"),
        ("null", "not of version 3"),
        ('{"version": 2, "sources": [], "mappings": ""}', "not of version 3"),
        ('{"version": 3, "sources": []}', "without mappings"),
        ('{"version": 3, "mappings": 5}', "without mappings"),
        ('{"version": 3, "sections": [5]}', "no offset"),
        (indexed({"offset": {"line": 0, "column": 0}, "url": "x"}), "no map"),
        (indexed({"offset": {"line": 1.5, "column": 0}, "map": plain("")}), "no offset"),
        ('{"version": 3, "sections": {"offset": 1}}', "without mappings"),
        (json.dumps(plain("", sources="a.ts")), "of another type"),
        (json.dumps(plain("", sources=[7])), "of another type"),
        (json.dumps(plain("", names=[["x"]])), "of another type"),
        (json.dumps(plain("", sourcesContent={"a.ts": ""})), "of another type"),
        (json.dumps(plain("", sourceRoot=["x"])), "of another type"),
        (indexed(section(1, 0, plain("")), section(0, 9, plain(""))), "not in order"),
        (indexed(section(-1, 0, plain(""))), "not in order"),
    ],
    ids=range(19),
)
def test_what_is_no_map_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SourceMap.parse(text)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("MAX_TEXT", "characters, more than 3"),
        ("MAX_SEGMENTS", "more than 3 segments"),
        ("MAX_SECTIONS", "many sections"),
    ],
)
def test_a_map_over_a_limit_is_refused(
    limit: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = indexed(*(section(n, 0, plain("A")) for n in range(4)))
    assert SourceMap.parse(text).original(1, 1) is None
    monkeypatch.setattr(source_map, limit, 3)
    with pytest.raises(ValueError, match=reason):
        SourceMap.parse(text)


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"version":3,"sections":['])
def test_json_nested_without_end_is_refused(opening: str) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        SourceMap.parse(opening * 100_000)


def test_sections_nested_deeply_are_refused() -> None:
    depth = 3_000
    head = '{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":'
    with pytest.raises(ValueError, match="recursion"):
        SourceMap.parse(head * depth + json.dumps(plain("")) + "}]}" * depth)


@given(st.text(alphabet=DIGITS + ",;", max_size=200), st.integers(1, 9), st.integers(1, 99))
def test_mappings_of_any_digits_are_a_place_none_or_a_value_error(
    mappings: str, line: int, column: int
) -> None:
    found: SourcePosition | None = None
    with contextlib.suppress(ValueError):
        found = parsed(mappings).original(line, column)
    assert found is None or (found.source in ("a.ts", "b.ts") and min(found.line, found.column) > 0)


def at(text: str, part: str) -> int:
    """The column of a part of a line, in UTF-16 as browsers and maps count."""
    return len(text[: text.index(part)].encode("utf-16-le")) // 2 + 1


def test_a_throw_in_a_minified_bundle_is_found_in_its_typescript() -> None:
    bundle = (MAPS / "shop.min.js").read_text().split("\n")[0]
    found = SourceMap.parse((MAPS / "shop.min.js.map").read_text())
    thrown = found.original(1, at(bundle, "throw new"))
    assert thrown == SourcePosition("../src/basket.ts", 16, 5, "")
    assert found.excerpt(thrown) == "    throw new EmptyBasketError(customer);"
    assert found.excerpt(thrown, around=1) == (
        "  if (lines.length === 0) {\n    throw new EmptyBasketError(customer);\n  }"
    )
    called = found.original(1, at(bundle, "o(e);return"))
    assert called == SourcePosition("../src/basket.ts", 16, 15, "EmptyBasketError")


def test_the_stack_that_the_engine_reported_is_found_frame_by_frame() -> None:
    # As Node printed it for this bundle; two of the columns come after a surrogate pair.
    found = SourceMap.parse((MAPS / "shop.min.js.map").read_text())
    stack = [found.original(1, column) for column in (149, 276, 353)]
    assert stack == [
        SourcePosition("../src/basket.ts", 16, 11, ""),
        SourcePosition("../src/main.ts", 7, 15, "totalOf"),
        SourcePosition("../src/main.ts", 12, 1, "checkout"),
    ]
    assert [found.excerpt(frame) for frame in stack if frame] == [
        "    throw new EmptyBasketError(customer);",
        "  const due = totalOf(customer, lines);",
        'checkout("Grace", true);',
    ]


def test_a_bundle_names_its_map_beside_it() -> None:
    script = (MAPS / "shop.min.js").read_text()
    url = map_url("http://localhost:5173/assets/shop.min.js?v=3", script, {})
    assert url == "http://localhost:5173/assets/shop.min.js.map"
    assert resolve_source(url, "", "../src/main.ts") == "http://localhost:5173/src/main.ts"


def test_a_map_within_the_bundle_is_read_from_its_data_url() -> None:
    script = (MAPS / "greet.inline.js").read_text()
    url = map_url("http://localhost/greet.js", script, {})
    assert url is not None
    found = SourceMap.parse(inline_map(url))
    thrown = found.original(1, at(script, "throw"))
    assert thrown == SourcePosition("https://sources.example/src/greet.ts", 2, 14, "")
    assert found.excerpt(thrown) == '  if (!name) throw new TypeError("nobody to greet");'
    assert "Grüß Gott" in str(found.excerpt(thrown, around=1))


# Where maps are

SCRIPT = "https://site.example/js/app.js?x=/y"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("f()\n//# sourceMappingURL=app.js.map", "https://site.example/js/app.js.map"),
        ("f()\n//@ sourceMappingURL=/m/app.map\n", "https://site.example/m/app.map"),
        ("f();//# sourceMappingURL=../a.map?v=1#z  \r\n", "https://site.example/a.map?v=1#z"),
        ("b{}\n/*# sourceMappingURL=app.css.map */\n", "https://site.example/js/app.css.map"),
        ("b{}/*# sourceMappingURL=app.css.map*/", "https://site.example/js/app.css.map"),
        ("//# sourceMappingURL=//cdn.example/./a.map", "https://cdn.example/a.map"),
        ("//# sourceMappingURL=http://other.example/a.map", "http://other.example/a.map"),
        ("//# sourceMappingURL=a\n//# sourceMappingURL=b", "https://site.example/js/b"),
        ("//# sourceMappingURL=data:application/json,{}", "data:application/json,{}"),
        ("//# sourceMappingURL=a*b.map", "https://site.example/js/a*b.map"),
        ("f()", None),
        ("", None),
        ("//# sourceMappingURL=", None),
        ("//# sourceMappingURL=\nf()", None),
        ("//# sourceMappingURL=a.map b.map", None),
        ("x = '//# sourceMappingURL=a.map';", None),
        ("x = `//# sourceMappingURL=${a}`;", None),
        ("sourceMappingURL=a.map", None),
        ("# sourceMappingURL=a.map", None),
    ],
)
def test_a_comment_says_where_the_map_is(text: str, url: str | None) -> None:
    assert map_url(SCRIPT, text, {}) == url


def test_a_header_says_where_the_map_is_and_goes_before_the_comment() -> None:
    text = "//# sourceMappingURL=comment.map"
    assert map_url(SCRIPT, text, {"sourcemap": "a.map"}) == "https://site.example/js/a.map"
    assert map_url(SCRIPT, text, {"X-SourceMap": " /b.map "}) == "https://site.example/b.map"
    both = {"X-SourceMap": "old.map", "SourceMap": "new.map"}
    assert map_url(SCRIPT, text, both) == "https://site.example/js/new.map"
    assert map_url(SCRIPT, text, {"SourceMap": ""}) == "https://site.example/js/comment.map"


@pytest.mark.parametrize(
    "script", ["", "<anonymous>", "blob:https://site.example/1-2", "data:text/javascript,1"]
)
def test_a_relative_map_of_a_script_without_an_address_is_nowhere(script: str) -> None:
    assert map_url(script, "//# sourceMappingURL=a.map", {}) is None
    assert map_url(script, "//# sourceMappingURL=data:,x", {}) == "data:,x"


def test_many_marks_without_an_end_take_no_time_in_their_square() -> None:
    assert map_url(SCRIPT, "//# sourceMappingURL=" * 200_000 + "'", {}) is None


@pytest.mark.parametrize("text", ['{"version": 3}', "Größe 🎩", ""])
def test_an_inline_map_is_decoded_in_every_form(text: str) -> None:
    packed = base64.b64encode(text.encode()).decode()
    for url in (
        f"data:application/json;base64,{packed}",
        f"data:application/json;charset=utf-8;base64,{packed.rstrip('=')}",
        f"DATA:application/json;BASE64,{quote(packed)}",
        f"data:application/json,{quote(text)}",
        f"data:,{quote(text, safe='')}",
    ):
        assert inline_map(url) == text


@pytest.mark.parametrize(
    "url",
    [
        "https://site.example/a.map",
        "data:application/json;base64",
        "data:application/json;base64,A",
        "data:application/json;base64,//79",
        "data:application/json,%ff",
        "data:,\ud800",
        "",
    ],
)
def test_what_is_no_inline_map_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"inline map|data: URL"):
        inline_map(url)


def test_an_inline_map_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_map, "MAX_TEXT", 10)
    assert inline_map("data:," + "x" * 20) == "x" * 20
    with pytest.raises(ValueError, match="more than 20 characters"):
        inline_map("data:," + "x" * 21)


@pytest.mark.parametrize(
    ("base", "root", "source", "url"),
    [
        ("http://h/js/a.js.map", "", "../src/a.ts", "http://h/src/a.ts"),
        ("http://h/js/a.js.map", "", "../../../a.ts", "http://h/a.ts"),
        ("http://h/js/a.js.map?q=a/b", "", "./a.ts?raw", "http://h/js/a.ts?raw"),
        ("http://h", "", "a.ts", "http://h/a.ts"),
        ("http://h/js/a.js.map", "/base", "a.ts", "http://h/base/a.ts"),
        ("http://h/js/a.js.map", "base/", "a.ts", "http://h/js/base/a.ts"),
        ("http://h/js/a.js.map", "https://cdn.example/x", "a.ts", "https://cdn.example/x/a.ts"),
        ("http://h/js/a.js.map", "ignored", "https://z/a.ts", "https://z/a.ts"),
        ("http://h/a.map", "", "webpack://app/./App.vue?1a2b", "webpack://app/App.vue?1a2b"),
        ("http://h/a.map", "", "webpack:///./src/../lib/a.ts", "webpack:///lib/a.ts"),
        ("http://h/a.map", "webpack:///", "src/a.ts", "webpack:///src/a.ts"),
        ("http://h/a.map", "", "webpack:///(webpack)/b.js", "webpack:///(webpack)/b.js"),
        ("http://h/a.map", "", "/home/me/app/src/a.ts", "http://h/home/me/app/src/a.ts"),
        ("http://h/a.map", "", "/@fs/home/me/a.ts", "http://h/@fs/home/me/a.ts"),
        ("http://h/a.map", "", "//cdn.example/a.ts", "http://cdn.example/a.ts"),
        ("http://h/a.map", "", "C:\\app\\a.ts", "C:\\app\\a.ts"),
        ("http://[::1]:5173/x/a.map", "", "a.ts", "http://[::1]:5173/x/a.ts"),
        ("chrome-extension://abc/js/a.map", "", "../src/a.ts", "chrome-extension://abc/src/a.ts"),
        ("file:///app/dist/a.map", "", "../src/a.ts", "file:///app/src/a.ts"),
        ("data:application/json,{}", "", "../src/a.ts", "../src/a.ts"),
        ("", "", "src/a.ts", "src/a.ts"),
        ("", "", "", ""),
        ("http://[", "", "a.ts", "http://[/a.ts"),
    ],
)
def test_a_source_is_resolved_as_browsers_do(base: str, root: str, source: str, url: str) -> None:
    assert resolve_source(base, root, source) == url
    # A Place has its root already: nothing changes if only the map's URL comes later.
    assert resolve_source(base, "", resolve_source("", root, source)) == url
