"""The title of a tab, as the browser tells it."""

import pytest

from pilothouse.observe.cdp.targets import own_title


@pytest.mark.parametrize(
    ("title", "url"),
    [
        ("act", "http://127.0.0.1:8000/act"),
        ("Cart", "https://shop.test/Cart?step=2"),
        ("The second page", "http://localhost/second.html"),
    ],
)
def test_a_title_stays_also_when_its_address_has_the_same_word(title: str, url: str) -> None:
    assert own_title(title, url) == title


@pytest.mark.parametrize(
    ("title", "url"),
    [
        ("127.0.0.1:8000/act", "http://127.0.0.1:8000/act"),
        ("shop.test", "https://www.shop.test/"),
        ("about:blank", "about:blank"),
        ("", "http://localhost/"),
    ],
)
def test_an_address_in_place_of_a_title_is_none(title: str, url: str) -> None:
    assert own_title(title, url) == ""
