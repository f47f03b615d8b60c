"""A name that leads elsewhere after it was judged leads nowhere that it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.apart import told_apart
from tests.support.rounds import IS_SOAK

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

GUARD_S = 280


def faults(cell: dict[str, Any]) -> list[str]:
    """What is wrong with a cell of the matrix, in words."""
    found = []
    reached = cell["reached"]
    if reached["metadata"]:
        found.append("the metadata service was reached")
    # A listed name is trusted as far as the local network.
    may_be_private = cell["listed"] and not cell.get("own")
    if reached["private"] and not may_be_private:
        found.append("a private address was reached")
    if any("# HELP" in text for text in cell.get("texts", ())):
        found.append("a port of Pilothouse's was reached")
    if cell.get("own") and cell["lookups"] != 1:
        found.append("an own name was looked up again")
    # A way that leads nowhere would prove nothing.
    if "before" not in cell["entry"] and not reached["public"]:
        found.append("the public address was not reached either")
    return found


def test_no_name_leads_elsewhere_after_it_was_judged(tmp_path: Path) -> None:
    cells = told_apart(
        "tests.integration.e2e.rebinding",
        str(tmp_path),
        within_s=GUARD_S,
        cannot="there can be no network of its own here",
    )
    kinds = {(cell["mode"], cell["listed"], cell["intercept"]) for cell in cells}
    assert len(kinds) == (8 if IS_SOAK else 4)
    failing = [{**cell, "faults": wrong} for cell in cells if (wrong := faults(cell))]
    assert not failing, "\n".join(map(str, failing))
