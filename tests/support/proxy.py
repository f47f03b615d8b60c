"""A TCP relay that can drop its connections, to lose a browser without killing it."""

from __future__ import annotations

import asyncio
import threading
from typing import Self


class Relay:
    """Passes bytes on to a port on loopback, until `drop` cuts all that is open.

    The browser names its own port in its answer to /json/version, so the answer is rewritten.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def drop(self) -> None:
        """Close every connection; new ones are accepted at once."""

        async def close() -> None:
            for writer in list(self._open):
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._open |= {writer, back}
        try:
            await asyncio.gather(
                self._pass(reader, back, b""), self._pass(there, writer, b":%d/" % self._to)
            )
        finally:
            for each in (writer, back):
                self._open.discard(each)
                each.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: bytes
    ) -> None:
        """`own` is what the first chunk may say of the real port; both have five digits."""
        first = True
        try:
            while chunk := await reader.read(65536):
                if first and own:
                    chunk = chunk.replace(own, b":%d/" % self.port)
                first = False
                writer.write(chunk)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
