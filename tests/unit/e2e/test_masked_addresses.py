"""What an e2e session shows is masked once, and anew when it has learned another secret."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from pilothouse.core.secrets.shapes import MASK
from pilothouse.core.timeline.timeline import Timeline
from pilothouse.e2e.session import E2eSession

if TYPE_CHECKING:
    from pathlib import Path


def test_an_address_that_was_shown_is_masked_once_a_secret_in_it_is_learned(tmp_path: Path) -> None:
    async def run() -> None:
        part = cast("Any", None)
        session = E2eSession("id", lambda: 0.0, tmp_path, Timeline(), part, part)
        url = "http://127.0.0.1:3000/of/mellon-friend"
        assert session.mask(url) == url
        session.keep_secret("mellon-friend")
        assert session.mask(url) == f"http://127.0.0.1:3000/of/{MASK}"
        assert session.mask([]) == []
        assert session.mask(["", "mellon-friend"]) == ["", MASK]

    asyncio.run(run())
