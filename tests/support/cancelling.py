"""Calls that a client cancels while they are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from tests.support.until import GUARD_S

if TYPE_CHECKING:
    from mcp.client import Client


async def cancel_under_way(client: Client) -> None:
    """Call the fixture tool that never ends, and cancel the call once it says that it has begun."""
    with anyio.fail_after(GUARD_S), anyio.CancelScope() as calling:

        async def begun(progress: float, total: float | None, message: str | None) -> None:
            calling.cancel()

        await client.call_tool("forever", {}, progress_callback=begun)
    assert calling.cancelled_caught
