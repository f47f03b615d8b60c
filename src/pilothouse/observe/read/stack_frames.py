"""Places in served scripts led back to the sources they were made from.

A script's text and its map are fetched through the observed page, once each, when the first
exception or console error points into it, or a console line that is read. The map must come from
the script's own origin, so that a page cannot send the browser elsewhere with DevTools' rights.
"""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from pilothouse.observe.cdp.client import ENABLE_S, CdpError
from pilothouse.observe.read.source_map import SourceMap, inline_map, map_url, resolve_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    type Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
    """Sends a command to the observed page."""

MAX_MAPS = 50
MAX_PLACES = 2_000
MAX_CODE = 200
"""Characters of a source line that are shown."""
MAX_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024


class _Found(NamedTuple):
    """A map and the address that its sources are relative to."""

    map: SourceMap
    url: str


def _reported(found: _Found, line: int, column: int) -> dict[str, Any] | None:
    """Look a position up. Raises ValueError when the map turns out to be broken there."""
    place = found.map.original(line, column)
    if place is None:
        return None
    told = {
        "source": resolve_source(found.url, "", place.source),
        "line": place.line,
        "column": place.column,
    }
    if name := found.map.enclosing(place):
        told["name"] = name
    code = found.map.excerpt(place)
    if code:
        told["code"] = code.strip()[:MAX_CODE]
    return told


class Mapper:
    """The source maps of one target's scripts."""

    def __init__(self, frame_id: str, call: Call) -> None:
        self._frame_id = frame_id
        self._call = call
        self._maps: dict[str, asyncio.Task[_Found | None]] = {}
        self._places: dict[tuple[str, int, int], dict[str, Any] | None] = {}

    def prefetch(self, urls: set[str]) -> None:
        """Start to fetch the maps of scripts, while they are surely there."""
        for url in urls:
            if url.startswith(("http://", "https://")):
                self._map(url)

    def _map(self, url: str) -> asyncio.Task[_Found | None]:
        task = self._maps.get(url)
        if task is None:
            if len(self._maps) >= MAX_MAPS:
                del self._maps[next(iter(self._maps))]
            task = self._maps[url] = asyncio.ensure_future(self._fetch(url))
        return task

    async def ready(self, urls: set[str]) -> None:
        """Wait for the maps of scripts, for all together no longer than for one."""
        self.prefetch(urls)
        if fetching := [task for url in urls if (task := self._maps.get(url))]:
            await asyncio.wait(fetching, timeout=ENABLE_S)

    def is_slow(self, url: str) -> bool:
        """Tell whether the map of a script is still on its way."""
        task = self._maps.get(url)
        return task is not None and not task.done()

    async def original(self, place: dict[str, Any]) -> dict[str, Any] | None:
        """Return where a place `{url, line, column}` really is; None where there is no map."""
        url, line, column = place.get("url", ""), place.get("line", 0), place.get("column", 0)
        if not url.startswith(("http://", "https://")) or not line:
            return None
        place_key = (url, line, column)
        if place_key in self._places:
            return self._places[place_key]
        try:
            async with asyncio.timeout(ENABLE_S):
                found = await asyncio.shield(self._map(url))
                # In a thread: a hostile map can take seconds to read.
                told = await asyncio.to_thread(_reported, found, line, column) if found else None
        except (TimeoutError, ValueError):
            return None
        if len(self._places) >= MAX_PLACES:
            del self._places[next(iter(self._places))]
        self._places[place_key] = told
        return told

    async def _fetch(self, url: str) -> _Found | None:
        try:
            script, headers = await self._load(url)
            where = map_url(url, script, headers)
            if where is None:
                return None
            if where.startswith("data:"):
                text, where = inline_map(where), url
            elif _origin(where) == _origin(url):
                text, _ = await self._load(where)
            else:
                return None
            return _Found(await asyncio.to_thread(SourceMap.parse, text), where)
        except (CdpError, ValueError, KeyError, TypeError):
            return None  # a place in the served script is still a place

    async def _load(self, url: str) -> tuple[str, dict[str, str]]:
        """Load a resource as the page would."""
        answer = await self._call(
            "Network.loadNetworkResource",
            {
                "frameId": self._frame_id,
                "url": url,
                "options": {"disableCache": False, "includeCredentials": True},
            },
        )
        resource = answer["resource"]
        if not resource.get("success") or "stream" not in resource:
            raise ValueError(f"{url} could not be loaded")
        parts: list[bytes] = []
        size = 0
        while size <= MAX_BYTES:
            part = await self._call("IO.read", {"handle": resource["stream"], "size": _CHUNK})
            data = part.get("data", "")
            raw = base64.b64decode(data) if part.get("base64Encoded") else data.encode()
            parts.append(raw)
            size += len(raw)
            if part.get("eof"):
                break
        await self._call("IO.close", {"handle": resource["stream"]})
        headers = {str(k): str(v) for k, v in (resource.get("headers") or {}).items()}
        return b"".join(parts).decode("utf-8", "replace"), headers


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def places(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the places that an event names: its stack's top and all its frames."""
    found = [event.get("stack"), event.get("initiatedAt"), *(event.get("frames") or [])]
    return [place for place in found if place]
