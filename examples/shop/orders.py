"""What an order costs, and its receipt."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

ARTICLES: dict[str, dict[str, Any]] = {
    article["sku"]: article
    for article in json.loads(Path(__file__).with_name("articles.json").read_text("utf-8"))
}
POSTAGE = ((500, 4), (2_000, 7), (10_000, 12))
"""Up to so many grams, so many euros."""
FREIGHT = 39

_numbers = count(1042)


def place(order: dict[str, Any]) -> dict[str, Any]:
    """The receipt of an order: `items` maps an article's `sku` to how many of it."""
    items = {ARTICLES[sku]["name"]: wanted for sku, wanted in order["items"].items()}
    goods = sum(ARTICLES[sku]["price"] * wanted for sku, wanted in order["items"].items())
    postage = postage_of(order["items"])
    return {
        "number": next(_numbers),
        "name": order["name"],
        "items": items,
        "goods": goods,
        "postage": postage,
        "total": goods + postage,
    }


def postage_of(items: dict[str, int]) -> int:
    """By weight, as the post has it."""
    grams = 0
    for sku, wanted in items.items():
        grams += ARTICLES[sku]["weight_g"] * wanted
    return next((price for limit, price in POSTAGE if grams <= limit), FREIGHT)
