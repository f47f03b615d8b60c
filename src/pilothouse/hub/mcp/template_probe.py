"""Asks a living server once for what all of its kind answer alike (template.py)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilothouse.hub.http.client import NoAnswer, delete, post
from pilothouse.hub.mcp.revision_2026 import CAPABILITIES_KEY, VERSION_HEADER, VERSION_KEY
from pilothouse.hub.mcp.routing_keys import HANDSHAKE_VERSIONS
from pilothouse.hub.mcp.template import ASKED_AT_START, Template

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pilothouse.hub.ports import Upstream

    type Ask = Callable[[str], Awaitable[Any]]
    """Sends a request of this method and returns its result; None when there is none."""

MODERN_VERSION = "2026-07-28"
START_S = 60.0
"""Seconds that the first answer may take: the server may have to be started for it, or even
fetched, as by a cold `npx`. Who waits for it is answered sooner (hub/workers/command.py)."""
OTHER_ERA_S = 8.0
"""Seconds that the other era is waited for once one is known: many servers of 2025 do not answer at
all what they do not know."""
_CLIENT = {"name": "pilothouse", "version": "1"}


async def capture(upstream: Upstream) -> Template:
    """Return the server's template. Raises NoAnswer when it speaks neither era."""
    # All at once: a server on stdio is started anew for each who shakes hands.
    handshake = asyncio.create_task(_handshake(upstream))
    modern = asyncio.create_task(_modern(upstream))
    eras: list[asyncio.Task[Any]] = [handshake, modern]
    try:
        for first in asyncio.as_completed(eras):
            with suppress(NoAnswer):
                await first
                break
        await asyncio.wait(eras, timeout=OTHER_ERA_S)
    finally:
        for era in eras:
            era.cancel()
    if all(map(_why_not, eras)):
        raise NoAnswer(f"it speaks neither era: {_why_not(handshake)}; {_why_not(modern)}")
    results, versions = ({}, ()) if _why_not(handshake) else handshake.result()
    return Template(results, {} if _why_not(modern) else modern.result(), versions)


def _why_not(era: asyncio.Task[Any]) -> str:
    """Return why the server is not asked in this era; empty: it is."""
    if not era.done():
        return "no answer"
    return str(era.exception() or "")


async def _handshake(upstream: Upstream) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what 2025 gives, and its versions. Raises NoAnswer if there is no handshake."""
    *older, newest = HANDSHAKE_VERSIONS
    asked = (_is_spoken(upstream, version) for version in older)
    (hello, session), others = await asyncio.gather(
        _hello(upstream, newest), asyncio.gather(*asked)
    )
    if hello is None:
        raise NoAnswer("initialize is not answered")
    agreed = hello.pop("protocolVersion")
    headers = {VERSION_HEADER: agreed, **_session(session)}
    await post(upstream, "notifications/initialized", headers=headers)

    async def ask(method: str) -> Any:
        return _result((await post(upstream, method, headers=headers)).body)

    results = {"initialize": hello, "ping": {}, **await _lists(ask, hello)}
    await _leave(upstream, session)
    spoken = {version for version, is_spoken in zip(older, others, strict=True) if is_spoken}
    return results, tuple(sorted(spoken | {agreed}))


async def _is_spoken(upstream: Upstream, version: str) -> bool:
    try:
        hello, session = await _hello(upstream, version)
    except NoAnswer:
        return False
    await _leave(upstream, session)
    return hello is not None and hello["protocolVersion"] == version


async def _hello(upstream: Upstream, version: str) -> tuple[dict[str, Any] | None, str]:
    """Return what it answers to this version, None without a handshake, and the session."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": _CLIENT}
    told = await post(upstream, "initialize", params, within=START_S)
    hello = _result(told.body)
    agrees = hello is not None and isinstance(hello.get("protocolVersion"), str)
    return hello if agrees else None, told.session


async def _leave(upstream: Upstream, session: str) -> None:
    if session:
        with suppress(NoAnswer):
            await delete(upstream, _session(session))


def _session(session: str) -> dict[str, str]:
    return {"Mcp-Session-Id": session} if session else {}


async def _modern(upstream: Upstream) -> dict[str, Any]:
    """Return what 2026 gives. Raises NoAnswer when the server does not tell what it can."""
    meta = {"_meta": {VERSION_KEY: MODERN_VERSION, CAPABILITIES_KEY: {}}}

    async def ask(method: str) -> Any:
        headers = {VERSION_HEADER: MODERN_VERSION, "Mcp-Method": method}
        return _result((await post(upstream, method, meta, headers, START_S)).body)

    hello = await ask("server/discover")
    if hello is None:
        raise NoAnswer("server/discover is not answered")
    return {"server/discover": hello, **await _lists(ask, hello)}


async def _lists(ask: Ask, hello: Mapping[str, Any]) -> dict[str, Any]:
    features = hello.get("capabilities", {})
    wanted = [method for method in ASKED_AT_START if method.partition("/")[0] in features]
    results = {method: await ask(method) for method in wanted}
    # Of a list in several pages the worker itself gives the first, and the others.
    return {
        method: result
        for method, result in results.items()
        if result is not None and "nextCursor" not in result
    }


def _result(body: object) -> Any:
    result = body.get("result") if isinstance(body, dict) else None
    return result if isinstance(result, dict) else None
