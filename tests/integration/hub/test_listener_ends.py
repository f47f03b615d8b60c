"""The listener when something ends: sessions under a call, and those that nobody can end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pilothouse.hub.mcp.template import MINTING, NAMING, Template
from pilothouse.hub.model import Key
from tests.support.listener_rig import Asked, call, hello, listen, modern, plain
from tests.support.until import until
from tests.support.upstream_scripts import HANDSHAKE, MODERN, TEMPLATE, echo, methods, worker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.listener_rig import Rig

pytestmark = pytest.mark.anyio

NAMED = Template(HANDSHAKE, MODERN, minting=MINTING, naming=NAMING)


async def test_a_call_whose_session_is_ended_under_it_is_told_that_the_session_is_gone(
    tmp_path: Path,
) -> None:
    over = asyncio.Event()

    async def until_its_end(asked: Asked) -> None:
        await over.wait()
        asked.writer.close()

    async with (
        plain(tmp_path / "w", worker(until_its_end)) as (upstream, crew),
        listen(crew, TEMPLATE) as rig,
    ):
        client, other = await rig.connect(), await rig.connect()
        session = await client.initialize()
        client.post(call("work"), f"Mcp-Session-Id: {session}")
        await until(lambda: "tools/call" in methods(upstream.asked))
        other.request("DELETE", "/mcp", f"Mcp-Session-Id: {session}")
        assert (await other.answer()).status == 200
        over.set()  # as a worker that ends does, with all that it was asked
        got = await client.answer()
        assert (got.status, got.json["error"]["message"]) == (404, "Session not found")
        assert methods(upstream.asked).count("tools/call") == 1
        assert len(crew.started) == 1


async def start(rig: Rig, tool: str = "startSession") -> int:
    client = await rig.connect()
    message, fields = modern(call(tool))
    client.post(message, *fields)
    return (await client.answer()).status


async def test_a_start_that_comes_to_nothing_leaves_neither_session_nor_worker(
    tmp_path: Path,
) -> None:
    async def fail(asked: Asked) -> None:
        asked.result({"isError": True, "content": [], "structuredContent": {"sessionId": "s"}})

    async def die(asked: Asked) -> None:
        asked.writer.close()

    for number, script in enumerate((fail, die)):
        async with (
            plain(tmp_path / f"{number}", worker(script)) as (_, crew),
            listen(crew, NAMED) as rig,
        ):
            await start(rig)
            await until(lambda: crew.ended == crew.started)
            assert [key.kind for key in crew.started] == ["handle"]
            assert len(rig.registry) == 0
            # Others are found by what everybody may name: theirs stay.
            await start(rig, "work")
            assert [key.kind for key in crew.started] == ["handle", "local"]
            assert len(crew.ended) == len(rig.registry) == 1


async def test_a_client_that_leaves_while_its_session_starts_leaves_nothing(
    tmp_path: Path,
) -> None:
    async def never(asked: Asked) -> None:
        await asked.reader.read()

    async with plain(tmp_path / "w", worker(never)) as (upstream, crew), listen(crew, NAMED) as rig:
        client = await rig.connect()
        message, fields = modern(call("startSession"))
        client.post(message, *fields)
        await until(lambda: methods(upstream.asked) == ["tools/call"])
        client.writer.close()
        await until(lambda: crew.ended == crew.started and len(rig.registry) == 0)


async def test_sessions_that_are_but_a_key_and_rest_fill_no_hub(tmp_path: Path) -> None:
    async with (
        plain(tmp_path / "w", worker(echo)) as (_, crew),
        listen(crew, TEMPLATE, max_sessions=2) as rig,
    ):
        client = await rig.connect()
        message, fields = modern(call("work"))
        for number in (*range(4), *range(4)):
            client.post(message, *fields, path=f"/mcp/{number}")
            assert (await client.answer()).status == 200
            crew.lose(Key("path", f"{number}"))
        assert len(rig.registry) == 2
        # Those who were given an id count on it.
        for _ in range(2):
            await client.initialize()
        for refused, with_fields in ((hello(), []), (message, fields)):
            client.post(refused, *with_fields)
            assert (await client.answer()).status == 503
