"""Browsers of different workers: kept apart, and seen through the hub's proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.ports import listens
from tests.support.until import until

if TYPE_CHECKING:
    from tests.support.intercepting import App
    from tests.support.services_rig import Agent, Rig

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.fixture
def rig(services: Rig) -> Rig:
    return services


async def test_another_worker_s_browser_is_out_of_reach_from_its_first_page_on(
    rig: Rig, shop: App
) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    hers = await ann.call("startSession", url=shop.url, debugPort=True)
    port = hers["cdpPort"]
    fault = await ben.fault("cdp_list_targets", port=port)
    assert fault["code"] == "SECURITY_BLOCKED"
    assert (await ann.call("cdp_list_targets", port=port))["targets"]
    await ben.call("startSession", url=shop.url)
    refused = await ben.fault("navigate", url=f"http://127.0.0.1:{port}/json/version")
    assert "type" in refused
    script = f"fetch('http://127.0.0.1:{port}/json/version').then(() => 1, () => 0)"
    assert (await ben.call("evaluate", script=script))["result"] == 0
    joined = await ben.fault("startSession", cdp=f"http://127.0.0.1:{port}")
    assert "another session" in joined["message"]
    assert rig.runtime.debug_ports.foreign("") >= {port}
    assert len(rig.runtime.debug_ports) == 2
    await ann.kill()
    while await listens(port):  # her browser outlives her worker by a moment
        fault = await ben.fault("cdp_list_targets", port=port)
        # Between the two it may have closed.
        assert fault["code"] == "SECURITY_BLOCKED" or not await listens(port)
    await until(lambda: len(rig.runtime.debug_ports) == 1)
    gone = await ben.fault("cdp_list_targets", port=port)
    assert gone["code"] != "SECURITY_BLOCKED"


async def test_a_page_reaches_no_port_of_the_hub_nor_of_another_worker(rig: Rig, shop: App) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await ann.call("startSession", url=shop.url)
    await ben.call("startSession", url=shop.url)
    await ben.call("get_config", access_token=rig.token)  # opens the REST API, in the hub
    ports = sorted(rig.runtime.listeners)
    assert len(ports) >= 4
    for agent in (ann, ben):
        for port in ports:
            await agent.fault("navigate", url=f"http://127.0.0.1:{port}/")


async def started(rig: Rig, agent: Agent, shop: App) -> dict[str, Any]:
    session = await agent.call("startSession", url=shop.url, intercept=True)
    await agent.call("navigate", url="/page")
    return session


async def test_a_session_goes_through_the_hub_s_proxy_and_its_listener_dies_with_its_worker(
    rig: Rig, shop: App
) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    await started(rig, ann, shop)
    filter = "url == /page"

    async def rows() -> Any:
        wish = {"access_token": rig.token, "filter": filter, "fields": ["id", "session"]}
        return (await ann.call("get_history", **wish))["packets"]

    found = await until(rows)
    assert {one["session"] for one in found} == {ann.name}
    other = await ben.call("get_history", access_token=rig.token, filter=filter)
    assert other["packets"] == []
    assert await until(lambda: ann.events("PacketRecorded"))
    from pilothouse.intercept.proxy import Proxy

    proxy: Proxy = await rig.runtime.shared.port(Proxy)
    (opened,) = proxy._opened.values()
    assert await listens(opened["port"])
    await ann.kill()

    async def closed() -> bool:
        return not proxy._opened and not await listens(opened["port"])

    await until(closed)


async def test_ending_a_session_closes_its_listener_in_the_hub(rig: Rig, shop: App) -> None:
    from pilothouse.intercept.proxy import Proxy

    ann = await rig.agent()
    await started(rig, ann, shop)
    proxy: Proxy = await rig.runtime.shared.port(Proxy)
    assert len(proxy._opened) == 1
    await ann.call("endSession")
    await until(lambda: not proxy._opened)
