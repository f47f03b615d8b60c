"""Two agents of one proxy: neither is told of the other's jobs, nor can stop them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client

from tests.support.intercepting import App, config, token_of
from tests.support.ports import free_port
from tests.support.servers import http_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def agent(url: str, token: str) -> AsyncIterator[Any]:
    async with Client(url, mode="legacy") as client:

        async def call(tool: str, **args: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, {"access_token": token, **args})
            shown: dict[str, Any] = result.structured_content or {}
            return shown

        yield call


async def test_an_agent_sees_and_stops_its_own_jobs_alone(tmp_path: Path, shop: App) -> None:
    import httpx

    token, port = token_of(tmp_path), free_port()
    env = {
        "PILOTHOUSE_HOME": str(tmp_path),
        "PILOTHOUSE_REST_PORT": "0",
        "PILOTHOUSE_CONFIG_PORT": "0",
    }
    with http_server("--profile", "full", module="pilothouse", env=env) as server:
        async with (
            agent(f"{server.url}/mcp", token) as mine,
            agent(f"{server.url}/mcp", token) as theirs,
        ):
            await mine("update_config", config_json=config(port))
            async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{port}") as client:
                await client.get(f"{shop.url}/apart")
            (packet, *_) = (await mine("get_history", order="id asc"))["packets"]
            plan = {"packet_id": packet["id"], "count": 1000, "interval_ms": 1000, "async": True}
            job_id = (await mine("resend_packet", **plan))["job_id"]
            assert [job["job_id"] for job in (await mine("get_job_status"))["jobs"]] == [job_id]
            assert (await theirs("get_job_status"))["jobs"] == []
            for stop in (False, True):
                refused = await theirs("get_job_status", job_id=job_id, stop=stop)
                assert refused["error"]["code"] == -32602
            stopped = await mine("get_job_status", job_id=job_id, stop=True)
            assert stopped["status"] == "stopped"
