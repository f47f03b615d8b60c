"""A real Chrome with the real extension, connected to the hub and used from two workers."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.bookmarks.extension.server import ExtensionServer
from pilothouse.wiring.extension_pairing import pairing_secret
from tests.support.bookmark_chrome import BookmarkChrome
from tests.support.services_rig import add, sharing
from tests.support.until import until

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_two_workers_use_one_chrome_and_hear_what_its_user_does() -> None:
    async with sharing() as rig:
        await rig.runtime.shared.port(ExtensionServer)
        token = pairing_secret(rig.settings).value()
        chrome = await asyncio.to_thread(BookmarkChrome().__enter__)
        try:
            await asyncio.to_thread(chrome.settle, rig.bookmarks_port, token)
            ann, ben = await rig.agent(), await rig.agent()

            async def is_connected() -> bool:
                state = (await ann.call("status"))["services"]["bookmarks link"]
                return str(state).endswith("connected: Work")

            await until(is_connected)
            await ben.call("bookmark_get", id="1")  # from its first call on it is told
            node = await add(ann, "hers")
            assert (await ben.call("bookmark_get", id=node["id"]))["nodes"][0]["title"] == "hers"
            await ben.call("bookmark_update", id=node["id"], title="his")
            await asyncio.to_thread(chrome.by_hand, "create", {"title": "the user's"})
            for agent in (ann, ben):

                async def is_told(agent: object = agent) -> bool:
                    events = await agent.events("BookmarksChanged")  # type: ignore[attr-defined]
                    return {"hers", "his", "the user's"} <= {one["title"] for one in events}

                await until(is_told)
            await ben.call("bookmark_undo")
            await ann.call("bookmark_undo")
            gone = await ben.fault("bookmark_get", id=node["id"])
            assert gone["code"] == "BOOKMARK_NOT_FOUND"
        finally:
            await asyncio.to_thread(chrome.__exit__, None, None, None)
