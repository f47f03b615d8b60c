"""The pipe of a browser that its driver and the observer share: odd messages from both ends.

The router runs in this process, over sockets as it has them. Each exchange has a pipe of its own,
with an observer that attaches to it and everybody reading all the time.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from pilothouse.core.net.devtools import END, FIRST_OWN_ID
from pilothouse.machine.chromium.shared_pipe import BrowserPipe
from tests.fuzz.frames import MOST, odd_bytes, odd_messages
from tests.fuzz.places import REACH_S

if TYPE_CHECKING:
    from random import Random

    from pilothouse.machine.chromium.shared_pipe import ObserverLine
    from tests.fuzz.frames import Frames, Message

OBSERVER, CHILD, PAGE = "A" * 32, "B" * 32, "C" * 32
ATTACHED: Message = {"id": FIRST_OWN_ID, "result": {"sessionId": OBSERVER}}
TARGET: Message = {"targetId": "T", "type": "page", "title": "x", "url": "about:blank"}
FROM_BROWSER: tuple[Message, ...] = (
    ATTACHED,
    {"id": FIRST_OWN_ID, "error": {"code": -32000, "message": "Not allowed"}},
    {"id": 1, "result": {"product": "x"}},
    {"id": FIRST_OWN_ID + 1, "result": {}, "sessionId": OBSERVER},
    {
        "method": "Target.attachedToTarget",
        "params": {"sessionId": CHILD, "targetInfo": TARGET, "waitingForDebugger": True},
        "sessionId": OBSERVER,
    },
    {
        "method": "Target.detachedFromTarget",
        "params": {"sessionId": CHILD, "targetId": "T"},
        "sessionId": OBSERVER,
    },
    {"method": "Runtime.consoleAPICalled", "params": {"args": []}, "sessionId": CHILD},
    {"method": "Network.dataReceived", "params": {"requestId": "1"}, "sessionId": PAGE},
    {"method": "Target.targetInfoChanged", "params": {"targetInfo": TARGET}},
)
FROM_DRIVER: tuple[Message, ...] = (
    {"id": 1, "method": "Browser.getVersion", "params": {}},
    {"id": FIRST_OWN_ID, "method": "Target.attachToBrowserTarget", "params": {}},
    {"id": 2, "method": "Page.enable", "params": {}, "sessionId": PAGE},
    {"id": 3, "method": "Target.detachFromTarget", "params": {"sessionId": OBSERVER}},
)
BROWSER, DRIVER = b"B", b"D"
"""The first byte of a frame says from which end it comes."""
SOUND = b'"a sound message"'


class PipePlace:
    """The router between a browser, its driver and the observer. Implements `Place`."""

    name = "pipe"

    def __init__(self) -> None:
        self._trouble = ""

    def draw(self, random: Random) -> Frames:
        return pipe_frames(random)

    def send(self, frames: Frames) -> None:
        self._trouble = asyncio.run(_exchange(frames))

    def trouble(self) -> str:
        return self._trouble


def pipe_frames(random: Random) -> Frames:
    """Return what a browser and a driver say, nearly, in pieces that end anywhere."""
    made = []
    for _ in range(random.choice((1, 2, 5, 12))):
        side, usual = random.choice(((BROWSER, FROM_BROWSER),) * 3 + ((DRIVER, FROM_DRIVER),))
        (message,) = odd_messages(random, usual, 1)
        # As Chromium writes it, mostly: there is a short way for that.
        tight = (",", ":") if random.random() < 0.8 else None
        ascii_only = random.random() < 0.5
        text = json.dumps(message, separators=tight, ensure_ascii=ascii_only)
        data = text.encode("utf-8", "surrogatepass")[:MOST]
        if random.random() < 0.2:
            data = odd_bytes(random, data)
        made.append(side + data + random.choice((END, END, END, END, END + END, b"", b"\n")))
    return made


async def _exchange(frames: Frames) -> str:
    """Send frames on a new pipe, and say what came of it that must not be."""
    loop = asyncio.get_running_loop()
    broken: list[str] = []
    loop.set_exception_handler(lambda _, told: broken.append(repr(told.get("exception") or told)))
    # In the order of `BrowserPipe.open`: what the driver writes and reads, then the browser.
    pairs = [socket.socketpair() for _ in range(4)]
    pipe = await BrowserPipe.open([theirs.detach() for _, theirs in pairs])
    driver_says, to_driver, to_browser, browser_says = (ours for ours, _ in pairs)
    for ours, _ in pairs:
        ours.setblocking(False)
    seen = bytearray()
    driver, browser = _Reader(to_driver), _Reader(to_browser)
    try:
        opening = asyncio.ensure_future(pipe.open_line(lambda message: seen.extend(message)))
        await browser.until(b"Target.attachToBrowserTarget")
        for frame in frames:
            said = browser_says if frame[:1] == BROWSER else driver_says
            await loop.sock_sendall(said, frame[1:])
        # What was cut off ends here, and what was not answered is answered.
        await loop.sock_sendall(browser_says, END + json.dumps(ATTACHED).encode() + END)
        line = await asyncio.wait_for(opening, REACH_S)
        own = b'{"method":"x","params":%b,"sessionId":%b}'
        for end, message in (
            (browser_says, b'{"method":"x","params":%b}' % SOUND),
            (browser_says, own % (SOUND, json.dumps(line.session).encode())),
            (driver_says, END + b'{"id":7,"method":%b}' % SOUND),
        ):
            await loop.sock_sendall(end, message + END)
        await browser.until(SOUND)
        await driver.until(SOUND)
        await _taken(line, seen, driver)
    except (OSError, TimeoutError, asyncio.CancelledError) as error:
        broken.append(f"a sound message does not arrive: {error!r}")
    finally:
        pipe.close()
        await asyncio.gather(driver.end(), browser.end())
        for ours, _ in pairs:
            ours.close()
    return "; ".join(broken)


async def _taken(line: ObserverLine, seen: bytearray, driver: _Reader) -> None:
    """Wait for the observer's sound message. A browser may have said that its session is over,
    and then it is the driver's."""
    async with asyncio.timeout(REACH_S):
        while SOUND not in seen and driver.heard.count(SOUND) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert not line.closed.is_set()


class _Reader:
    """Reads all that comes from the pipe, so that it never waits for us."""

    def __init__(self, end: socket.socket) -> None:
        self.heard = bytearray()
        self._more = asyncio.Event()
        self._end = end
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        with suppress(OSError):
            while data := await asyncio.get_running_loop().sock_recv(self._end, 1 << 16):
                self.heard += data
                self._more.set()
        self._more.set()

    async def until(self, words: bytes) -> None:
        async with asyncio.timeout(REACH_S):
            while words not in self.heard:
                if self._reading.done():
                    raise OSError("the pipe has ended")
                self._more.clear()
                await self._more.wait()

    async def end(self) -> None:
        await asyncio.wait_for(self._reading, REACH_S)
