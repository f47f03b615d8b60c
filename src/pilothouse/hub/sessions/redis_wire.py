"""One connection to Redis: requests go out in order, and their replies come back in that order.

Our own, because all that is needed of the protocol fits on this page, while the usual library
takes 9.5 MB and 150 ms of each hub that imports it (docs/decisions/0017-redis-registry.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from pilothouse.core.settings import BadSetting

CONNECT_S = 2.0
SILENCE_S = 2.0
"""Seconds that Redis may be silent while somebody waits; it takes well below a millisecond."""
READ_S = 0.1
MAX_REPLY_BYTES = 8 << 20
_SHAPE = "redis://[:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS"
_NOT_NOW = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")
"""Errors with which Redis answers when it will serve the same request later."""

type Reply = str | int | list[Reply] | None


class RedisAway(Exception):
    """Redis cannot be reached, or does not answer; later it may."""


class RedisRefused(Exception):
    """Redis answered with an error."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Address of a Redis. As text it is without the password."""

    host: str
    port: int = 6379
    database: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}/{self.database}"


def parse_address(url: str) -> RedisAddress:
    """Parse a URL. Raises BadSetting, which does not repeat it: a password may stand anywhere."""
    if not url.startswith(("redis://", "rediss://")):
        raise BadSetting(f"--registry: use {_SHAPE}; without it sessions are kept in memory")
    try:
        parts = urlsplit(url)
        port = parts.port
        database = int(parts.path.strip("/") or 0)
    except ValueError:
        raise BadSetting(
            f"--registry: the port or the database is no number; use {_SHAPE}"
        ) from None
    if not parts.hostname or database < 0:
        raise BadSetting(f"--registry: it names no host or no database; use {_SHAPE}")
    return RedisAddress(
        parts.hostname,
        port or 6379,
        database,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        parts.scheme == "rediss",
    )


class Script:
    """A script that Redis runs as one step; it is sent once and then called by its digest."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisWire:
    """A connection that is made with `connect`, again whenever `lost` is set."""

    def __init__(self, address: RedisAddress) -> None:
        self.address = address
        self.lost = asyncio.Event()
        """Set while there is no connection."""
        self.lost.set()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Reply]] = deque()
        self._heard = 0.0
        """Time when it last sent something, or was asked after it had sent all."""
        self._watching: asyncio.TimerHandle | None = None

    async def connect(self) -> None:
        """Connect, log in and choose the database. Raises RedisAway, RedisRefused."""
        self._drop("it is connected anew")
        address = self.address
        context = ssl.create_default_context() if address.tls else None
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, ssl=context
                )
        except (OSError, TimeoutError) as error:
            number = error.errno or 0  # below zero are those of name servers
            why = os.strerror(number).lower() if number > 0 else str(error)
            raise RedisAway(why or "no answer") from None
        self._writer = writer
        self._reading = asyncio.create_task(self._read(reader, writer))
        self.lost.clear()
        try:
            if address.password:
                names = [address.user] if address.user else []
                await self.call("AUTH", *names, address.password)
            if address.database:
                await self.call("SELECT", address.database)
            await self.call("PING")
        except BaseException:
            self._drop("it does not let us in")
            raise

    async def call(self, *words: str | int) -> Reply:
        """Send a command and return the reply. Raises RedisAway, RedisRefused."""
        writer = self._writer
        if writer is None:
            raise RedisAway("it is not connected")
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Reply] = loop.create_future()
        if not self._waiting:
            self._heard = loop.time()
        self._waiting.append(reply)
        writer.write(_request(words))
        if self._watching is None:
            self._watching = loop.call_later(SILENCE_S, self._watch)
        return await reply

    def _watch(self) -> None:
        """Hang up if it is silent. One timer for all who wait: there may be thousands."""
        loop = asyncio.get_running_loop()
        self._watching = None
        if not self._waiting:
            return
        left = self._heard + SILENCE_S - loop.time()
        if left > 0:
            self._watching = loop.call_later(left, self._watch)
        else:
            # Perhaps it was we who were busy, or stopped, and its reply has just not been read.
            self._watching = loop.call_later(READ_S, self._give_up, self._heard)

    def _give_up(self, heard: float) -> None:
        self._watching = None
        if self._heard == heard and self._waiting:
            self._drop("it does not answer")
        else:
            self._watch()

    async def run(self, script: Script, keys: list[str], *values: str | int) -> Reply:
        """Run a script and return its reply. Raises RedisAway, RedisRefused."""
        words = (len(keys), *keys, *values)
        try:
            return await self.call("EVALSHA", script.digest, *words)
        except RedisRefused as refused:
            if not str(refused).startswith("NOSCRIPT"):
                raise
        return await self.call("EVAL", script.text, *words)

    async def close(self) -> None:
        writer = self._writer
        self._drop("it was closed")
        if writer is not None:
            with suppress(OSError):
                await writer.wait_closed()

    def _drop(self, why: str) -> None:
        """Hang up; whoever waits for a reply gets none."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self.lost.set()
        while self._waiting:
            _settle(self._waiting.popleft(), RedisAway(why))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        why = "the connection was lost"
        try:
            while True:
                reply = await _reply(reader)
                self._heard = asyncio.get_running_loop().time()
                if not self._waiting:
                    why = "it said what nobody had asked"
                    break
                _settle(self._waiting.popleft(), reply)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass
        if self._writer is writer:
            self._reading = None
            self._drop(why)


def _settle(waiting: asyncio.Future[Reply], reply: Reply | Exception) -> None:
    if waiting.done():
        return  # whoever asked has left
    if isinstance(reply, Exception):
        waiting.set_exception(reply)
    else:
        waiting.set_result(reply)


def _request(words: tuple[str | int, ...]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


async def _reply(reader: asyncio.StreamReader) -> Reply | Exception:
    """Read a reply, or return the error that it is. Raises OSError and EOFError, and ValueError or
    LimitOverrunError for what is not the protocol."""
    line = await reader.readuntil(b"\r\n")
    kind, rest = line[:1], line[1:-2].decode()
    match kind:
        case b"+":
            return rest
        case b"-":
            return RedisAway(rest) if rest.startswith(_NOT_NOW) else RedisRefused(rest)
        case b":":
            return int(rest)
        case b"$" if int(rest) < 0:
            return None
        case b"$" if int(rest) <= MAX_REPLY_BYTES:
            return (await reader.readexactly(int(rest) + 2))[:-2].decode()
        case b"*":
            items: list[Reply] = []
            for _ in range(int(rest)):
                item = await _reply(reader)
                if isinstance(item, Exception):
                    raise ValueError("an error within a reply")
                items.append(item)
            return items
    raise ValueError("this is not Redis")
