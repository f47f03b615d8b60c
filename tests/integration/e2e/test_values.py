"""Typing replaces what is there, tells what a field has then, and refuses what it does not take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.driving import Driver

pytestmark = pytest.mark.browser

FORM = """
<input id=t value=abcdef><div id=rich contenteditable>abcdef</div>
<input id=day type=date value=2026-02-03><input id=hue type=color value="#102030">
<input id=key type=password><input id=terms type=checkbox>
<select id=size><option>S<option value=large>L</select>
<input id=short maxlength=3>
<iframe srcdoc="<input id=f value=old>"></iframe>
"""


@pytest.fixture
def form(shop: Driver) -> Iterator[Driver]:
    shop.visit("/second.html")
    shop.value(f"() => {{ document.body.innerHTML = {json.dumps(FORM)} }}")
    yield shop
    shop.visit("/")


def test_typing_slowly_replaces_what_is_there(form: Driver) -> None:
    assert form.call("type", selector="#t", text="XY", slowly=True)["value"] == "XY"
    assert form.value("document.querySelector('#t').value") == "XY"
    assert (
        form.call("type", selector="#rich", text="new words", slowly=True)["value"] == "new words"
    )
    assert form.text("#rich") == "new words"


@pytest.mark.parametrize(
    ("selector", "text", "format_", "kept"),
    [
        ("#day", "05/01/2026", "YYYY-MM-DD", "2026-02-03"),
        ("#hue", "reddish", "#rrggbb", "#102030"),
    ],
)
def test_a_value_that_a_field_does_not_take_is_refused_and_leaves_it_as_it_was(
    form: Driver, selector: str, text: str, format_: str, kept: str
) -> None:
    for tool, arguments in (
        ("type", {"selector": selector, "text": text}),
        ("fillForm", {"fields": [{"selector": selector, "value": text}]}),
    ):
        error = form.fault(tool, **arguments)
        assert (error["type"], error["format"]) == ("invalid_value", format_)
        assert format_ in error["suggestion"]
        assert form.value(f"document.querySelector('{selector}').value") == kept
    assert form.call("type", selector="#day", text="2026-01-05")["value"] == "2026-01-05"


@pytest.mark.parametrize("place", ["document.body", "inner"])
def test_what_does_not_take_every_text_is_found_in_a_page_and_in_its_shadow_roots(
    form: Driver, place: str
) -> None:
    form.value(
        "() => { document.body.innerHTML = '<input id=t><div id=outer></div>';"
        " const root = outer.attachShadow({mode: 'open'}); root.innerHTML = '<p></p>';"
        " const inner = root.firstChild.attachShadow({mode: 'open'});"
        " const day = document.createElement('input');"
        " Object.assign(day, {id: 'day', type: 'date', value: '2026-02-03'});"
        f" {place}.append(day) }}"
    )
    assert form.call("type", selector="#t", text="05/01/2026")["value"] == "05/01/2026"
    assert form.fault("type", selector="#day", text="05/01/2026")["type"] == "invalid_value"
    assert form.call("type", selector="#day", text="2026-01-05")["value"] == "2026-01-05"


def test_an_answer_has_the_value_that_the_field_has_afterwards(form: Driver) -> None:
    assert form.call("type", selector="#short", text="abc")["value"] == "abc"
    assert form.call("selectOption", selector="#size", values=["L"])["value"] == "large"
    fields = [
        {"selector": "#t", "value": "Ada"},
        {"selector": "#terms", "value": True},
        {"selector": "#size", "value": "S"},
    ]
    assert form.call("fillForm", fields=fields)["value"] == ["Ada", "true", "S"]
    inner = "iframe >> internal:control=enter-frame >> #f"
    assert form.call("type", selector=inner, text="in the frame")["value"] == "in the frame"
    assert form.call("type", selector="#t", text="x" * 500)["value"] == "x" * 199 + "…"


def test_a_field_that_the_page_empties_again_is_told_to_be_empty(form: Driver) -> None:
    form.value(
        "() => { t.oninput = size.onchange = event => { event.target.value = '' };"
        " size.add(new Option('', '')) }"
    )
    assert form.call("type", selector="#t", text="abc")["value"] == ""
    assert form.call("type", selector="#t", text="abc", slowly=True)["value"] == ""
    assert form.call("fillForm", fields=[{"selector": "#t", "value": "abc"}])["value"] == [""]
    assert form.call("selectOption", selector="#size", values=["L"])["value"] == ""


def test_the_value_of_a_password_or_a_secret_is_masked(form: Driver) -> None:
    for told in (
        form.call("type", selector="#key", text="open sesame"),
        form.call("type", selector="#t", text="hidden-words", secret=True),
        form.call("fillForm", fields=[{"selector": "#key", "value": "another sesame"}]),
    ):
        assert told["value"]
        assert not any(word in str(told) for word in ("sesame", "hidden-words"))


def test_a_click_on_a_file_field_says_that_a_file_chooser_opened(form: Driver) -> None:
    form.value(
        "() => { document.body.innerHTML = `<label id=l>Photo <input id=file type=file></label>"
        "<input id=quiet type=file onclick='return false'>` }"
    )
    for selector in ("#file", "#l"):
        (line,) = form.call("click", selector=selector)["browser"]
        assert line.startswith("file chooser opened")
        assert "uploadFile" in line
    assert "browser" not in form.call("click", selector="#quiet")
