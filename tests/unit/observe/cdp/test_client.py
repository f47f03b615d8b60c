"""The DevTools client against a server that plays the browser, well and badly."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from pilothouse.observe.cdp import browser as browser_module
from pilothouse.observe.cdp.browser import Browser
from pilothouse.observe.cdp.client import Cdp, CdpError, CdpGone, CdpTimeout
from pilothouse.observe.cdp.endpoint import CdpEndpoint
from pilothouse.observe.record.observation import Observation
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

GUARD_S = 30
SILENCE = object()
PAGE = {"targetInfo": {"targetId": "T", "type": "page", "url": "http://a.test/"}}
GOOD = {"Target.attachToTarget": {"sessionId": "P"}, "Target.getTargetInfo": PAGE}
REFUSED = {"message": "No target with given id found", "code": -32602}


@dataclass
class Fake:
    """Answers each command as told, else with `{}`, and sends whatever a test wants."""

    answers: dict[str, Any] = field(default_factory=lambda: dict(GOOD))
    received: list[dict[str, Any]] = field(default_factory=list)
    sockets: list[ServerConnection] = field(default_factory=list)
    url: str = ""

    async def serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        try:
            async for raw in socket:
                command = json.loads(raw)
                self.received.append(command)
                answer = self.answers.get(command["method"], {})
                said = "error" if answer is REFUSED else "result"
                if answer is not SILENCE:
                    await self.send({"id": command["id"], said: answer})
        except ConnectionClosed:
            pass

    async def send(self, frame: Any) -> None:
        await self.sockets[-1].send(frame if isinstance(frame, str | bytes) else json.dumps(frame))


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    made = Fake()
    async with serve(made.serve, "127.0.0.1", 0, max_size=None, compression=None) as server:
        made.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/"
        yield made


type Heard = list[tuple[str, dict[str, Any], str]]


@asynccontextmanager
async def connected(fake: Fake, heard: Heard | None = None) -> AsyncIterator[Cdp]:
    events: Heard = [] if heard is None else heard

    def on_event(method: str, params: dict[str, Any], session: str) -> None:
        if method == "Boom":
            raise ValueError("a defect of ours")
        events.append((method.strip(), params, session))

    cdp = await Cdp.open(fake.url, on_event)
    reader = asyncio.ensure_future(cdp.run())
    try:
        async with asyncio.timeout(GUARD_S):
            yield cdp
    finally:
        await cdp.close()
        await reader  # it ends by itself, and without an exception


async def test_a_command_is_answered_and_carries_its_session(fake: Fake) -> None:
    fake.answers["Runtime.evaluate"] = {"result": {"value": 2}}
    async with connected(fake) as cdp:
        answer = await cdp.call("Runtime.evaluate", {"expression": "1+1"}, "S")
        assert answer == {"result": {"value": 2}}
        assert await cdp.call("Browser.getVersion") == {}
        assert not cdp._pending
        assert cdp.counts.commands == 2
    first, second = fake.received
    assert (first["sessionId"], first["params"]) == ("S", {"expression": "1+1"})
    assert "sessionId" not in second
    assert first["id"] != second["id"]


async def test_a_refused_command_says_what_the_browser_said(fake: Fake) -> None:
    fake.answers["Page.enable"] = REFUSED
    async with connected(fake) as cdp:
        with pytest.raises(CdpError, match="No target with given id") as caught:
            await cdp.call("Page.enable")
    assert caught.value.code == -32602
    assert not isinstance(caught.value, CdpGone | CdpTimeout)


@pytest.mark.parametrize(
    "answer",
    [{"error": "no"}, {"error": [1]}, {"error": {"code": "x"}}, {"result": [1]}, {"result": "x"}],
)
async def test_an_odd_answer_is_an_answer(fake: Fake, answer: dict[str, Any]) -> None:
    fake.answers["Page.enable"] = SILENCE
    async with connected(fake) as cdp:
        asked = cdp.post("Page.enable")
        await until(lambda: fake.received)
        await fake.send({"id": fake.received[0]["id"], **answer})
        with pytest.raises(CdpError) as caught:
            await asked
        assert not isinstance(caught.value, CdpGone | CdpTimeout)
        assert caught.value.code == 0


async def test_a_command_that_is_never_answered_fails_at_its_deadline(fake: Fake) -> None:
    fake.answers["Page.enable"] = SILENCE
    async with connected(fake) as cdp:
        with pytest.raises(CdpTimeout, match=r"no answer within 0\.1 s"):
            await cdp.call("Page.enable", deadline=0.1)
        assert not cdp._pending
        # Its answer may still come; nobody is waiting for it any more.
        await fake.send({"id": 1, "result": {}})
        assert await cdp.call("Browser.getVersion") == {}
        assert cdp.counts.bad_frames == 0


@pytest.mark.parametrize("abrupt", [True, False])
async def test_a_lost_connection_fails_every_open_command_at_once(fake: Fake, abrupt: bool) -> None:
    fake.answers["Page.enable"] = SILENCE
    async with connected(fake) as cdp:
        calls = [asyncio.ensure_future(cdp.call("Page.enable", deadline=60)) for _ in range(100)]
        await cdp.call("Browser.getVersion")
        started = time.monotonic()
        fake.sockets[0].transport.abort() if abrupt else await fake.sockets[0].close()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - started < 30
        assert [type(result) for result in results] == [CdpGone] * 100
        assert not cdp._pending
        with pytest.raises(CdpGone):
            await cdp.call("Page.enable")


async def test_a_lost_target_fails_only_what_waits_for_it(fake: Fake) -> None:
    fake.answers["Page.enable"] = SILENCE
    async with connected(fake) as cdp:
        lost, kept = cdp.post("Page.enable", {}, "S1"), cdp.post("Page.enable", {}, "S2")
        cdp.fail_session("S1", "the page crashed")
        with pytest.raises(CdpGone, match="the page crashed"):
            await lost
        await cdp.call("Browser.getVersion")
        assert not kept.done()


async def test_posted_commands_that_nobody_awaits_leave_no_complaint(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[dict[str, Any]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_exception_handler", complaints.append)
    fake.answers |= {"Page.enable": REFUSED, "Log.enable": SILENCE}
    async with connected(fake) as cdp:
        for method in ("Page.enable", "Log.enable", "Network.enable"):
            cdp.post(method)
        await cdp.call("Browser.getVersion")
    cdp.post("Page.enable")  # the connection is closed by now
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


async def test_a_command_that_json_cannot_hold_fails_and_is_not_waited_for(fake: Fake) -> None:
    async with connected(fake) as cdp:
        with pytest.raises(CdpError):
            await cdp.call("Network.getResponseBody", {"requestId": "\ud800"})
        assert not cdp._pending


BAD_FRAMES: list[str | bytes] = [
    *("", "not json", "[]", "null", "5", '"text"', "{", '{"id": 1', "NaN", "[" * 100_000),
    *('{"a":' * 100_000, "{}", '{"id": []}', '{"method": []}'),
    *(b"", b"\x00\xff\xfe junk", b"\xed\xa0\x80", b'{"method": "\xff"', b"\x80" * 1000),
    '{"method": "Boom"}',
]


async def test_no_bad_frame_ends_the_reader(fake: Fake) -> None:
    heard: Heard = []
    async with connected(fake, heard) as cdp:
        await cdp.call("Browser.getVersion")
        for frame in BAD_FRAMES:
            await fake.send(frame)
            await fake.send({"method": "Good"})
        assert await cdp.call("Browser.getVersion") == {}
        assert heard == [("Good", {}, "")] * len(BAD_FRAMES)
        assert cdp.counts.bad_frames == len(BAD_FRAMES)


async def test_half_characters_and_large_frames_arrive_whole(fake: Fake) -> None:
    heard: Heard = []
    async with connected(fake, heard) as cdp:
        await cdp.call("Browser.getVersion")
        await fake.send('{"method": "Odd", "params": {"text": "a\\ud800b"}, "sessionId": "S"}')
        await fake.send({"method": "Large", "params": {"text": "x" * (8 * 1024 * 1024)}})
        await cdp.call("Browser.getVersion")
        assert heard[0] == ("Odd", {"text": "a\ud800b"}, "S")
        assert len(heard[1][1]["text"]) == 8 * 1024 * 1024


# Sessions


def observation() -> Observation:
    return Observation("T", "127.0.0.1", 9222, lambda: 0.0, lambda uri: None, 1_000, 60)


@asynccontextmanager
async def open_browser(fake: Fake) -> AsyncIterator[Browser]:
    browser = Browser(CdpEndpoint("127.0.0.1", 9222, fake.url))
    await browser.open()
    reader = asyncio.ensure_future(browser.run())
    try:
        async with asyncio.timeout(GUARD_S):
            yield browser
    finally:
        await browser.close()
        await reader


@pytest.mark.parametrize("seed", range(3))
async def test_attaching_and_detaching_in_any_order_leaves_nothing(fake: Fake, seed: int) -> None:
    chance = random.Random(seed)
    kinds = ["iframe", "worker", "service_worker", "shared_worker", "page", "other"]
    names = [f"S{number}" for number in range(40)]
    log = {"type": "log", "args": [{"type": "string", "value": "x"}]}

    def frame() -> dict[str, Any]:
        name = chance.choice(names)
        parent = chance.choice(["P", "P", "", chance.choice(names), "unknown"])
        info = {"targetId": f"T-{name}", "type": chance.choice(kinds), "url": "http://a.test/w"}
        attach = {"sessionId": name, "targetInfo": info, "waitingForDebugger": True}
        method, params, session = chance.choice(
            [
                ("Target.attachedToTarget", attach, parent),
                ("Target.detachedFromTarget", {"sessionId": name}, ""),
                ("Runtime.consoleAPICalled", log, name),
            ]
        )
        return {"method": method, "params": params, "sessionId": session}

    observed = observation()
    async with open_browser(fake) as browser:
        await browser.attach(observed)
        for _ in range(500):
            await fake.send(frame())
        await browser.targets()
        assert len(browser._sessions) > 1
        chance.shuffle(names)
        for name in [*names, "P", *names]:
            await fake.send({"method": "Target.detachedFromTarget", "params": {"sessionId": name}})
        await browser.targets()
        assert browser._sessions == {}
        assert not browser.is_used
        assert observed.state == "closed"
        assert browser.cdp.counts.bad_frames == 0
        await browser.cdp.call("Browser.getVersion")
        assert not browser.cdp._pending


FAILING: list[tuple[str, Any]] = [
    *((f"Target.{name}", REFUSED) for name in ("attachToTarget", "getTargetInfo")),
    *(("Network.enable", answer) for answer in (REFUSED, SILENCE)),
]


@pytest.mark.parametrize(("method", "answer"), FAILING)
async def test_an_attach_that_fails_leaves_nothing_attached(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any
) -> None:
    monkeypatch.setattr(browser_module, "ENABLE_S", 0.2)
    fake.answers[method] = answer
    async with open_browser(fake) as browser:
        with pytest.raises((CdpError, TimeoutError)):
            await browser.attach(observation())
        assert browser._sessions == {}
        assert not browser.is_used


async def test_a_child_of_nobody_is_let_run_and_let_go(fake: Fake) -> None:
    async with open_browser(fake) as browser:
        await browser.attach(observation())
        info = {"targetId": "W", "type": "service_worker", "url": "http://other.test/sw.js"}
        params = {"sessionId": "W1", "targetInfo": info}
        await fake.send({"method": "Target.attachedToTarget", "params": params})
        await browser.targets()
        await browser.targets()
        told = [(c["method"], c.get("sessionId", c["params"])) for c in fake.received]
        assert ("Runtime.runIfWaitingForDebugger", "W1") in told
        assert ("Target.detachFromTarget", {"sessionId": "W1"}) in told
        assert list(browser._sessions) == ["P"]


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_browser_of_our_own_stays_connected_for_the_pages_to_come(
    fake: Fake, is_own: bool
) -> None:
    observed, popup = observation(), observation()
    async with open_browser(fake) as browser:
        browser.take_page = (lambda _: popup) if is_own else None
        await browser.attach(observed)
        browser.detach(observed)
        await browser.targets()
        turned = [c["params"]["autoAttach"] for c in fake.received if _is_for_all(c)]
        assert turned == ([True] if is_own else [True, False])
        assert browser.is_used == is_own


def _is_for_all(command: dict[str, Any]) -> bool:
    return command["method"] == "Target.setAutoAttach" and "sessionId" not in command


ODD_ANSWERS: dict[str, list[dict[str, Any]]] = {
    "Target.attachToTarget": [{}, {"sessionId": 1}],
    "Target.getTargetInfo": [{}, {"targetInfo": "x"}, {"targetInfo": {"type": 1}}],
}


@pytest.mark.parametrize(
    ("method", "answer"), [(name, one) for name, all in ODD_ANSWERS.items() for one in all]
)
async def test_a_target_that_is_told_of_oddly_is_not_attached(
    fake: Fake, method: str, answer: dict[str, Any]
) -> None:
    fake.answers[method] = answer
    async with open_browser(fake) as browser:
        with pytest.raises(CdpError, match=r"the answer (has|names) no"):
            await browser.attach(observation())
        assert not browser._page_session
        assert await browser.title("T") in (None, "")


@pytest.mark.parametrize("infos", [None, 1, "x", [1, {}, {"targetId": "T"}, {"targetId": []}]])
async def test_what_is_no_target_is_not_listed(fake: Fake, infos: Any) -> None:
    fake.answers["Target.getTargets"] = {"targetInfos": infos}
    async with open_browser(fake) as browser:
        assert await browser.targets() == []
