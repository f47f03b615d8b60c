"""Selectors by what a user reads, as Playwright knows them and as a test writes them."""

from __future__ import annotations

import pytest

from pilothouse.e2e.browser.elements.selectors import as_code, for_playwright, is_by_text


@pytest.mark.parametrize(
    ("selector", "engine", "code"),
    [
        ("label=Name", 'internal:label="Name"i', 'get_by_label("Name")'),
        ('label="Name"', 'internal:label="Name"s', 'get_by_label("Name", exact=True)'),
        (
            "form >> placeholder=Say >>nth=1",
            'form >> internal:attr=[placeholder="Say"i] >> nth=1',
            'locator("form").get_by_placeholder("Say").locator("nth=1")',
        ),
        ("label=a >> b", 'internal:label="a"i >> b', 'get_by_label("a").locator("b")'),
        ('label="a >> b"', 'internal:label="a >> b"s', 'get_by_label("a >> b", exact=True)'),
        ("[aria-label=Name]", "[aria-label=Name]", 'locator("[aria-label=Name]")'),
        ('text="a >> label=b"', 'text="a >> label=b"', "locator('text=\"a >> label=b\"')"),
        ("label=", "label=", 'locator("label=")'),
    ],
)
def test_a_selector_is_translated(selector: str, engine: str, code: str) -> None:
    assert for_playwright(selector) == engine
    assert as_code(selector) == code


def test_what_is_named_by_text() -> None:
    assert all(map(is_by_text, ("text=Save", '"Save"', "label=Name", " placeholder=x")))
    assert not any(map(is_by_text, ("#save", "role=button[name=text]", "e12", "textarea")))
