"""What exists once on the machine is the hub's, and every worker reaches it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pilothouse.intercept.proxy import Proxy
from tests.support.intercepting import App, config
from tests.support.ports import free_port
from tests.support.services_rig import Rig, both, get, listen, packets, sharing
from tests.support.until import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def rig(services: Rig) -> Rig:
    return services


# The proxy


async def test_workers_share_one_proxy_and_each_sees_its_own_packets(rig: Rig, shop: App) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    port = await listen(rig, ann)
    told = await ben.call("get_config", access_token=rig.token)
    assert [one["port"] for one in told["listenPorts"]] == [port]
    await get(port, f"{shop.url}/shared")
    # A listener that belongs to no session: everybody sees its packets.
    row = (await both(rig, ben, filter="url == /shared"))[0]
    assert row["session"] == ""
    assert await both(rig, ann, filter="url == /shared")
    await ann.call("resend_packet", access_token=rig.token, packet_id=row["id"])
    own = await until(lambda: packets(rig, ann, filter="resend == true"))
    assert {one["session"] for one in own} == {ann.name}
    assert await packets(rig, ben, filter="resend == true") == []
    assert await packets(rig, ben, filter="resend == true", all_sessions=True) != []
    # What happened is on the timeline of whom it concerns.
    recorded = await ann.events("PacketRecorded")
    assert {one["resend"] for one in recorded} == {True}
    assert await ben.events("PacketRecorded") == []
    assert len(await ann.events("ConfigChanged")) == 1
    assert await ben.events("ConfigChanged") == []  # it asked for nothing of the group before
    await listen(rig, ann)
    assert await until(lambda: ben.events("ConfigChanged"))


async def test_the_detail_of_a_packet_comes_whole(rig: Rig, shop: App) -> None:
    ann = await rig.agent()
    port = await listen(rig, ann)
    await get(port, f"{shop.url}/plain?q=%F0%9F%98%80")
    row = (await both(rig, ann, filter="url =~ ^/plain"))[0]
    proxy: Proxy = await rig.runtime.shared.port(Proxy)
    kept = await asyncio.to_thread(proxy.reader.detail, row["id"])
    told = await ann.call("get_packet_detail", access_token=rig.token, packet_id=row["id"])
    assert kept.request is not None
    assert str(told).count("/plain?q=%F0%9F%98%80") >= 1
    assert kept.request.head.startswith(b"GET")


async def test_faults_of_the_hub_are_those_of_the_group(rig: Rig) -> None:
    ann = await rig.agent()
    bad = await ann.fault("get_history", access_token=rig.token, filter="nonsense ==")
    assert bad["code"] == -32002
    assert isinstance(bad["data"]["position"], int)
    missing = await ann.fault("get_packet_detail", access_token=rig.token, packet_id=7)
    assert missing["code"] == -32003
    unsound = await ann.fault("update_config", access_token=rig.token, config_json={"a": 1})
    assert unsound["code"] == -32004


async def test_wrong_tokens_are_counted_in_the_hub_for_each_agent(rig: Rig) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    for _ in range(10):
        fault = await ann.fault("get_config", access_token="wrong")
        assert "missing or wrong" in fault["message"]
    await ann.kill()
    ann = await rig.agent(ann)
    fault = await ann.fault("get_config", access_token=rig.token)
    assert "too many wrong" in fault["message"]
    assert fault["data"]["retryAfterSec"] > 0
    assert await ben.call("get_config", access_token=rig.token)


async def test_a_token_in_a_misspelt_argument_is_not_shown(rig: Rig) -> None:
    ann = await rig.agent()
    await ann.call("get_config", access_token=rig.token)
    result = await ann.result("get_config", access_tokem=rig.token)
    assert result["isError"]
    assert rig.token not in str(result)


async def test_read_only_holds_for_the_agent_that_was_started_so(rig: Rig) -> None:
    ann, ben = await rig.agent(read_only=True), await rig.agent()
    wish = {"access_token": rig.token, "config_json": config(free_port())}
    fault = await ann.fault("update_config", **wish)
    assert (fault["code"], "--read-only" in fault["message"]) == (-32005, True)
    wrong = await ann.fault("update_config", **{**wish, "access_token": "no"})
    assert "token" in wrong["message"]
    await ben.call("update_config", **wish)
    assert (await ann.call("get_config", access_token=rig.token))["listenPorts"]


async def test_rules_of_a_killed_worker_are_gone_and_nobody_else_s(rig: Rig, shop: App) -> None:
    ann, ben = await rig.agent(), await rig.agent()
    rule = {"url": "/a", "status": 418}
    for agent in (ann, ben):
        await agent.call("mock_rules", access_token=rig.token, rules=[rule])
    await ann.kill()
    proxy: Proxy = await rig.runtime.shared.port(Proxy)

    async def those_of(name: str) -> Any:
        return await proxy.engine.ask("mocks", session=name, rules=None)

    async def gone() -> bool:
        return not await those_of(ann.name)

    await until(gone)
    assert await those_of(ben.name)


# What is missing


async def test_a_worker_without_a_hub_says_what_is_missing_and_serves_the_rest() -> None:
    async with sharing(offers=False) as rig:
        ann = await rig.agent()
        proxy = await ann.fault("get_history", access_token=rig.token)
        assert proxy["code"] == -32001
        assert "hub" in proxy["message"]
        assert "pilothouse status" in proxy["data"]["hint"]
        chrome = await ann.fault("bookmark_get", id="1")
        assert chrome["code"] == "EXTENSION_NOT_CONNECTED"
        assert "hub" in chrome["message"]
        assert "pilothouse status" in chrome["details"]["hint"]
        assert "hub" in (await ann.call("status"))["services"]


async def test_a_worker_whose_hub_goes_says_so_from_then_on(rig: Rig) -> None:
    ann = await rig.agent()
    await ann.call("get_config", access_token=rig.token)
    await ann.fault("bookmark_get", id="1")
    for peer in list(rig.services._peers):
        peer._line.close("the hub has ended")

    async def is_lost() -> bool:
        return "hub" in (await ann.call("status"))["services"]

    await until(is_lost)
    fault = await ann.fault("get_history", access_token=rig.token)
    assert (fault["code"], "connection to the hub is lost" in fault["message"]) == (
        -32001,
        True,
    )
    chrome = await ann.fault("bookmark_get", id="1")
    assert chrome["code"] == "EXTENSION_NOT_CONNECTED"
    assert "connection to the hub is lost" in chrome["message"]


async def test_status_of_every_worker_shows_the_hub_s_services_which_open_on_first_use() -> None:
    async with sharing() as rig:
        ann, ben = await rig.agent(), await rig.agent()
        assert (await ann.call("status"))["services"] == {}
        assert rig.runtime.services == {}
        await ann.call("get_config", access_token=rig.token)
        await ann.fault("bookmark_get", id="1")
        for agent in (ann, ben):
            told = (await agent.call("status"))["services"]
            assert told == rig.runtime.services
            assert set(told) == {"REST API", "config endpoint", "bookmarks link"}


# Ports


async def test_the_hub_knows_who_has_joined_and_forgets_who_dies(rig: Rig) -> None:
    ann, _ = await rig.agent(), await rig.agent()
    assert len(rig.services) == 2
    await ann.kill()
    await until(lambda: len(rig.services) == 1)
