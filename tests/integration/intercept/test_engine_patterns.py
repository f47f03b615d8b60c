"""Rules whose patterns are made to be slow: the engine serves others meanwhile, and gives up."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import pytest
import websockets

from pilothouse.intercept.config.model import read_config
from pilothouse.intercept.model import BadConfig
from tests.integration.intercept.test_evil_patterns import TEXTS, evil_patterns
from tests.support.engine_rig import Rig, configuration
from tests.support.rounds import IS_SOAK
from tests.support.upstreams import http_upstream, websocket_upstream

if TYPE_CHECKING:
    import httpx

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

EVERY = 1 if IS_SOAK else 6
GUARD_S = 30.0
"""Against an engine that stands still; for how long it may is a row in bench/."""
QUADRATIC = "(a.*!)|a"
"""Each of its matches looks at all that is left of a line."""


def rule(pattern: str, replaced: str = "x", method: str = "REGEX") -> dict[str, str]:
    return {"pattern": pattern, "replaced": replaced, "method": method}


def is_accepted(pattern: str) -> bool:
    """By what judges a configuration before the engine gets it."""
    try:
        read_config(configuration(edits=[rule(pattern)]))
    except BadConfig:
        return False
    return True


@pytest.mark.timeout(400)
async def test_evil_patterns_are_refused_or_the_engine_serves_on_meanwhile(rig: Rig) -> None:
    patterns = [*evil_patterns()[::EVERY], QUADRATIC]
    accepted = [pattern for pattern in patterns if is_accepted(pattern)]
    assert 0 < len(accepted) < len(patterns) or EVERY > 1
    async with http_upstream() as server, rig.client(await rig.session("evil")) as client:
        for at, pattern in enumerate(accepted):
            text = TEXTS["random" if "*a[ab]" in pattern else [*TEXTS][at % len(TEXTS)]]
            await rig.listen(edits=[rule(pattern)])
            async with rig.watched() as waits, asyncio.timeout(GUARD_S):
                answer = await client.post(f"http://{server.address}/digest", content=text)
            assert max(waits) < GUARD_S, pattern
            assert answer.status_code == 200


async def posted(rig: Rig, client: httpx.AsyncClient, url: str, body: bytes) -> bytes:
    """What the server was sent in place of a body."""
    await client.post(url, content=body)
    request, _ = await rig.pair(url[url.index("/", 8) :])
    return bytes(request["body"])


async def test_rule_that_takes_too_long_is_left_out_and_the_log_says_which(rig: Rig) -> None:
    await rig.listen(edits=[rule(QUADRATIC), rule("end", "END", "SIMPLE")])
    body = b"a" * 500_000 + b"end"
    async with http_upstream() as server, rig.client(await rig.session("evil")) as client:
        sent = await posted(rig, client, f"http://{server.address}/digest?left-out", body)
    assert sent == b"a" * 500_000 + b"END"
    await rig.event(
        lambda event: event["event"] == "log" and "modification 1 was left" in event["message"]
    )


@pytest.mark.parametrize("method", ["SIMPLE", "REGEX"])
async def test_rules_that_make_a_message_grow_and_grow_are_left_out(rig: Rig, method: str) -> None:
    await rig.listen(edits=[rule("@", "@" * 1000, method) | {"id": at} for at in range(1, 9)])
    async with http_upstream() as server, rig.client(await rig.session("evil")) as client:
        url = f"http://{server.address}/digest?{method}"
        async with rig.watched() as waits:
            sent = await posted(rig, client, url, b"@")
        assert max(waits) < GUARD_S
        assert sent == b"@" * 1_000_000
    await rig.event(lambda event: event["event"] == "log" and "would grow" in event["message"])


async def test_rule_on_a_large_body_changes_all_of_it(rig: Rig) -> None:
    await rig.listen(edits=[rule(r"(\d+) apples", "$1 pears")])
    body = b"12 apples\n" * 30_000
    async with http_upstream() as server, rig.client(await rig.session("evil")) as client:
        sent = await posted(rig, client, f"http://{server.address}/digest?pears", body)
    assert sent == b"12 pears\n" * 30_000


async def test_small_body_that_unpacks_to_very_much_stalls_nobody(rig: Rig) -> None:
    await rig.listen(edits=[rule("colour=red", "colour=blue")])
    bomb = gzip.compress(bytes(200 << 20))
    async with http_upstream() as server, rig.client(await rig.session("evil")) as client:
        url = f"http://{server.address}/digest?bomb"
        async with rig.watched() as waits:
            await client.post(url, content=bomb, headers={"Content-Encoding": "gzip"})
        assert max(waits) < GUARD_S
        request, _ = await rig.pair("/digest?bomb")
        assert (request["body"], request["modified"]) == (bomb, 0)


async def test_messages_of_a_connection_keep_their_order_while_a_rule_thinks(rig: Rig) -> None:
    # By a letter that the head of the request, which the rules also see, does not have.
    await rig.listen(edits=[*[rule(QUADRATIC.replace("a", "~"))] * 2, rule("first", "1st")])
    thinks = "~" * 500_000
    proxy = f"http://127.0.0.1:{await rig.session('evil')}"
    async with (
        websocket_upstream() as server,
        websockets.connect(f"ws://localhost:{server.port}/", proxy=proxy, max_size=None) as socket,
    ):
        async with rig.watched() as waits:
            await socket.send(f"first {thinks}")
            await socket.send("second")
            came = [str(await socket.recv()) for _ in range(2)]
        assert max(waits) < GUARD_S
        assert came == [f"echo:1st {thinks}", "echo:second"]
