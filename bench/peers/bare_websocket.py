"""The least that can receive a page's console: a WebSocket that throws every frame away.

For each line on stdin, JSON of a `url` and a `marker`, it attaches to that page, says `attached`,
and says `seen` when the marker came by. It runs in a process of its own, as a server does.
"""

import asyncio
import json
import sys

from websockets.asyncio.client import connect

GUARD_S = 120
"""Against hanging: without its answer the bench knows that something is wrong."""


async def receive_until(url: str, marker: bytes) -> None:
    async with connect(
        url, max_size=None, max_queue=None, compression=None, ping_interval=None, proxy=None
    ) as socket:
        await socket.send('{"id": 1, "method": "Runtime.enable"}')
        while json.loads(await socket.recv()).get("id") != 1:
            pass
        print("attached", flush=True)
        # Neither decoded nor parsed: this is the floor.
        while marker not in await socket.recv(decode=False):
            pass
        print("seen", flush=True)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        received = receive_until(asked["url"], asked["marker"].encode())
        asyncio.run(asyncio.wait_for(received, GUARD_S))


if __name__ == "__main__":
    main()
