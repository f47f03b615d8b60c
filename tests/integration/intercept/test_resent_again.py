"""What is sent again is judged as what it was made from, however often that is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.core.net.url_policy import Policy
from pilothouse.e2e.egress_proxy.proxy import open_proxy
from tests.support.engine_rig import Rig, running_engine
from tests.support.ports import free_port
from tests.support.upstreams import http_upstream

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def listing(*hosts: str) -> str:
    """Return the option of an engine whose sessions' browsers may go there alone."""
    return "--policy=" + json.dumps({"allowed_hosts": hosts})


async def packet(rig: Rig, port: int, url: str) -> int:
    """Return the packet of a request through a listener."""
    async with rig.client(port) as client:
        assert (await client.get(url)).status_code == 200
    asked, _ = await rig.pair("/hello")
    return int(asked["id"])


async def again(rig: Rig, packet_id: int) -> dict[str, Any]:
    plan = {"packet_id": packet_id, "session": "s1"}
    answer: dict[str, Any] = await rig.ask("resend", plan=plan)
    return answer


async def newest(rig: Rig) -> int:
    rows = [row for row in await rig.packets() if row["resend"] and not row["is_response"]]
    return int(rows[-1]["id"])


async def test_what_nobody_judged_goes_out_however_often_it_is_sent(tmp_path: Path) -> None:
    async with running_engine(tmp_path, listing("nothing.example")) as rig, http_upstream() as web:
        port = free_port()
        await rig.listen(listen=[{"port": port}])
        packet_id = await packet(rig, port, f"http://{web.address}/hello")
        for _ in range(3):
            assert (await again(rig, packet_id))["failed_count"] == 0
            packet_id = await newest(rig)


@pytest.mark.parametrize(("listed", "failed"), [("localhost", 0), ("other.example", 1)])
async def test_what_a_browser_had_asked_for_is_judged_however_often_it_is_sent(
    tmp_path: Path, listed: str, failed: int
) -> None:
    async with running_engine(tmp_path, listing(listed)) as rig, http_upstream() as web:
        url = f"http://localhost:{web.port}/hello"
        async with open_proxy(lambda: Policy(development=True), lambda _: None) as proxy:
            port = await rig.session("s1", upstream=proxy.port)
            first = await packet(rig, port, url)
            assert (await again(rig, first))["failed_count"] == 0
            assert await newest(rig) > first
        await rig.ask("close_browser", name="s1")
        for _ in range(3):  # the first of them is the first to go without that proxy
            answer = await again(rig, await newest(rig))
            assert answer["failed_count"] == failed
            assert ("nothing may be sent" in json.dumps(answer)) is bool(failed)
