"""The browser of a session has one pipe, for Playwright and the observer, and no port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from glob import glob
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pilothouse.e2e.browser.playwright import BrowserLaunch, PlaywrightDriver
from pilothouse.e2e.model import BrowserLaunchFailed
from pilothouse.machine.chromium import shared_pipe
from pilothouse.machine.chromium.finder import find_browser, needs_no_sandbox
from pilothouse.machine.chromium.pipe_launch import share_pipe
from pilothouse.observe.cdp.client import Cdp, CdpGone
from tests.support.rounds import IS_SOAK
from tests.support.session_life import Driver, last_seen, lives, open_driver
from tests.support.until import until, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from pilothouse.e2e.browser.playwright import DrivenBrowser, Page
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe

pytestmark = [pytest.mark.browser]

NOBODY = 65534
# A megabyte is more than the pipes on the way take of what somebody does not read; in a soak five.
LINES = 10_000 if IS_SOAK else 2_000
FLOOD = f"for (let i = 0; i < {LINES}; i++) console.log('line', i)"
# What another user of the machine tries: all ports, the pipes, and the memory of a browser.
PRYING = f"""
import json, os, socket, sys
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
ports, pids = json.loads(sys.argv[1])
found = []
for port in ports:
    with socket.socket() as link:
        link.settimeout(30)
        try:
            link.connect(("127.0.0.1", port))
            link.sendall(b"GET /json/version HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
            if b"webSocketDebuggerUrl" in link.recv(65536):
                found.append(port)
        except OSError:
            pass
for pid in pids:
    for name in ("fd/3", "fd/4", "mem"):
        try:
            open(f"/proc/{{pid}}/{{name}}", "rb").close()
            found.append(f"{{name}} of {{pid}}")
        except OSError:
            pass
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with open_driver() as opened:
        yield opened


def browser_of(driver: Driver) -> psutil.Process:
    """Return the newest one."""
    return max(driver.browsers(), key=lambda one: one.create_time())


def listening(processes: list[psutil.Process]) -> set[int]:
    """Return the TCP ports on which processes listen."""
    return {
        one.laddr.port
        for process in processes
        for one in process.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    }


def test_a_browser_listens_on_no_port_unless_one_is_asked_for(driver: Driver) -> None:
    plain = driver.start()
    browser = browser_of(driver)
    assert "cdpPort" not in plain
    assert listening([browser, *browser.children(recursive=True)]) == set()
    assert "--remote-debugging-pipe" in browser.cmdline()
    driver.end(plain)
    opened = driver.start(debugPort=True)
    browser = browser_of(driver)
    assert listening([browser, *browser.children(recursive=True)]) == {opened["cdpPort"]}
    driver.call("navigate", sessionId=opened["sessionId"], url="/?body=here")
    assert "Every user of this machine" in opened["message"]
    by_port = driver.call("cdp_list_targets", port=opened["cdpPort"])["targets"]
    by_session = driver.call("cdp_list_targets", sessionId=opened["sessionId"])["targets"]
    assert opened["targetId"] in {one["id"] for one in by_port} & {one["id"] for one in by_session}
    driver.end(opened)


@pytest.mark.parametrize("wish", [{"browser": "firefox"}, {"cdp": "127.0.0.1:9"}])
def test_a_port_is_opened_for_a_chromium_of_the_session_s_own(
    driver: Driver, wish: dict[str, str]
) -> None:
    fault = driver.fault("startSession", url="http://localhost:9/", debugPort=True, **wish)
    assert fault["type"] == "invalid_input"
    assert "debugPort" in fault["message"]


@pytest.mark.timeout(400)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_reaches_no_browser(driver: Driver) -> None:
    def prying() -> Any:
        below = [one for one in driver.below() if lives(one)]
        given = json.dumps([sorted(listening(below)), [one.pid for one in driver.browsers()]])
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PRYING, given], capture_output=True, timeout=300
        )
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    session = driver.start()
    assert prying() == []
    driver.end(session)
    opened = driver.start(debugPort=True)
    assert prying() == [opened["cdpPort"]], "which shows that it can be seen"
    driver.end(opened)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_neither_take_nor_feign_the_start_of_a_browser(tmp_path: Path) -> None:
    async def start() -> None:
        async with share_pipe("/bin/true", tmp_path) as shared:
            words = shared.program.read_text().split()
            path = next(word for word in words if word.endswith("/pipe"))
            script = (
                f"import os,socket\nos.setgroups([]),os.setgid({NOBODY}),os.setuid({NOBODY})\n"
                f"link=socket.socket(socket.AF_UNIX)\nlink.connect({path!r})\n"
                "socket.send_fds(link, [b'!'], [0, 1, 2, 0])\nlink.settimeout(60)\n"
                "print(link.recv(1))\n"
            )
            command = [sys.executable, "-I", "-S", "-c", script]
            refused = await asyncio.to_thread(subprocess.run, command, capture_output=True)
            assert b"PermissionError" in refused.stderr
            # Also where the files would let it.
            os.chmod(os.path.dirname(path), 0o711)
            os.chmod(path, 0o666)
            refused = await asyncio.to_thread(subprocess.run, command, capture_output=True)
            assert refused.returncode in (0, 1), refused
            assert b"TimeoutError" not in refused.stderr
            assert not shared.came.done()
        assert path not in glob(f"{gettempdir()}/*/pipe")
        assert not shared.program.exists()

    asyncio.run(start())


def test_a_body_is_there_also_after_the_driver_left_a_session_of_the_page(driver: Driver) -> None:
    session = driver.start()
    own, target = {"sessionId": session["sessionId"]}, {"targetId": session["targetId"]}
    driver.call("navigate", **own, url="/?body=here")
    for number in range(3):
        # Its picture is taken in a session that is left again.
        driver.fault("click", **own, selector="#nothing", timeout=100)
        script = f"fetch('/?status=500&body=unread-{number}').then(got => got.status)"
        assert driver.call("evaluate", **own, script=script)["result"] == 500

        def unread(wanted: str = f"unread-{number}") -> list[str]:
            read = driver.call("cdp_read_events", **target, kinds=["loadingFinished"])
            return [one["requestId"] for one in read["events"] if wanted in one["url"]]

        (request,) = wait_until(unread)
        got = driver.call("cdp_get_response_body", **target, requestId=request)
        assert got["body"] == f"unread-{number}"
    driver.end(session)


# The end of one is the end of all


def test_the_end_of_one_ends_the_others() -> None:
    with open_driver() as driver:
        session = driver.start()
        # The worker last: it takes Pilothouse with it.
        for who in ("browser", "driver", "worker"):
            browser = browser_of(driver)
            node = browser.parent()
            assert node is not None
            worker = node.parent()
            assert worker is not None
            renderers = browser.children(recursive=True)
            victims = {"worker": worker, "driver": node, "browser": browser}
            victims[who].send_signal(signal.SIGKILL)
            gone = [browser, *renderers] if who != "worker" else [node, browser, *renderers]
            left = last_seen(partial(living_of, gone), lambda found: not found)
            assert left == [], who
            if who == "worker":
                return

            state = partial(state_of, driver, session)
            assert last_seen(state, lambda found: found == "closed") == "closed", who
            fault = driver.fault("navigate", sessionId=session["sessionId"], url="/")
            assert fault["type"] == "browser_crashed", who
            # The next session has whatever died anew.
            session = driver.start()
            driver.call("navigate", sessionId=session["sessionId"], url="/?body=again")


def living_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if lives(one)]


def state_of(driver: Driver, session: dict[str, Any]) -> Any:
    """Return what is said of the recording of a session's page."""
    return driver.call("cdp_read_events", targetId=session["targetId"])["state"]


# Both read


class Rig:
    """A browser that Playwright drives, with an observer on its pipe."""

    def __init__(self, driven: DrivenBrowser, pipe: BrowserPipe, page: Page) -> None:
        self.driven = driven
        self.pipe = pipe
        self.page = page
        self.observed: list[int] = []
        self.played: list[int] = []
        self.cdp: Cdp
        self.session = ""
        self.on_line: Callable[[], None] = lambda: None

    async def open(self) -> None:
        self.page.on("console", lambda line: self.played.append(int(line.text.split()[1])))
        await self.page.evaluate("0")  # so that the driver has heard of that before the first line
        self.cdp = await Cdp.share(self.pipe, self._take)
        targets = await self.cdp.call("Target.getTargets")
        (target,) = (one for one in targets["targetInfos"] if one["type"] == "page")
        wish = {"targetId": target["targetId"], "flatten": True}
        self.session = (await self.cdp.call("Target.attachToTarget", wish))["sessionId"]
        await self.cdp.call("Runtime.enable", session=self.session)

    def _take(self, method: str, params: dict[str, Any], session: str) -> None:
        if method == "Runtime.consoleAPICalled":
            assert session == self.session
            self.observed.append(params["args"][1]["value"])
            self.on_line()

    def flood(self) -> None:
        """Have the page write its lines, without Playwright."""
        self.cdp.post("Runtime.evaluate", {"expression": FLOOD}, self.session)

    async def process(self) -> psutil.Process:
        """Return the browser's; its parent is Playwright's driver."""
        told = await self.cdp.call("SystemInfo.getProcessInfo")
        (pid,) = (one["id"] for one in told["processInfo"] if one["type"] == "browser")
        return psutil.Process(pid)


@asynccontextmanager
async def open_rig(folder: Path) -> AsyncIterator[Rig]:
    found = find_browser(os.environ)
    assert found is not None
    engine = PlaywrightDriver(lambda: os.environ, share_pipe)
    flags = ("--no-sandbox",) if needs_no_sandbox() else ()
    launch = BrowserLaunch(executable=str(found.path), flags=flags, folder=folder)
    driven = await engine.launch(launch, meanwhile=_nothing)
    try:
        assert driven.pipe is not None
        rig = Rig(driven, driven.pipe, await driven.browser.new_page())
        await rig.open()
        yield rig
    finally:
        await driven.close()
        await engine.close()


async def _nothing() -> None:
    pass


ALL = list(range(LINES))


@pytest.mark.anyio
async def test_thousands_of_lines_reach_both_in_order(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        rig.flood()
        await until(
            lambda: len(rig.observed) >= LINES and len(rig.played) >= LINES,
            missing=lambda: (len(rig.observed), len(rig.played)),
        )
        assert rig.observed == rig.played == ALL
        assert rig.cdp.counts.bad_frames == 0


@pytest.mark.anyio
async def test_a_driver_that_reads_nothing_keeps_the_observer_from_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        node = (await rig.process()).parent()
        assert node is not None
        node.suspend()
        try:
            rig.flood()
            await until(lambda: len(rig.observed) >= LINES)
            assert rig.played == []
            said = await rig.cdp.call("Runtime.evaluate", {"expression": "6 * 7"}, rig.session)
            assert said["result"]["value"] == 42
        finally:
            node.resume()
        await until(lambda: len(rig.played) >= LINES)
        assert rig.observed == rig.played == ALL
        assert await rig.page.evaluate("6 * 7") == 42


@pytest.mark.anyio
async def test_an_observer_that_takes_nothing_keeps_the_driver_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pipe, "HOLD_S", 600)
    async with open_rig(tmp_path) as rig:
        line = rig.pipe._line
        assert line is not None

        rig.on_line = line.hold  # which does something once more than this one has come
        rig.flood()
        await until(lambda: line.is_held)
        await until(lambda: len(rig.played) >= LINES)
        assert await rig.page.evaluate("6 * 7") == 42
        assert line.is_held
        assert len(rig.observed) < LINES
        rig.on_line = lambda: None
        line.release()
        await until(lambda: len(rig.observed) >= LINES)
        assert rig.observed == rig.played == ALL


@pytest.mark.anyio
async def test_what_is_written_to_a_browser_that_does_not_read_is_kept(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        browser = await rig.process()
        text = "x" * (4 << 20)
        browser.suspend()
        try:
            by_driver = asyncio.create_task(rig.page.evaluate("text => text.length", text))
            expression = f"'{text}'.length"
            by_observer = rig.cdp.post("Runtime.evaluate", {"expression": expression}, rig.session)
            await until(lambda: rig.pipe._from_driver.is_paused)
        finally:
            browser.resume()
        assert await by_driver == len(text)
        assert (await by_observer)["result"]["value"] == len(text)


@pytest.mark.anyio
async def test_the_observer_comes_and_goes_and_the_browser_stays(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        with pytest.raises(OSError, match="observed already"):
            await Cdp.share(rig.pipe, rig._take)
        await rig.cdp.close()
        assert await rig.page.evaluate("6 * 7") == 42
        again = await Cdp.share(rig.pipe, rig._take)
        assert (await again.call("Browser.getVersion"))["product"]
        with pytest.raises(CdpGone):
            await rig.cdp.call("Browser.getVersion")
        running = asyncio.create_task(again.run())
        await rig.driven.close()
        await asyncio.wait_for(running, 60)
        with pytest.raises(OSError, match="has ended"):
            await Cdp.share(rig.pipe, rig._take)


@pytest.mark.anyio
async def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    engine = PlaywrightDriver(lambda: os.environ, share_pipe)
    before = set(os.listdir("/proc/self/fd")) if sys.platform == "linux" else set()
    for program in ("/bin/false", str(tmp_path / "not executable")):
        launch = BrowserLaunch(executable=program, folder=tmp_path)
        with pytest.raises(BrowserLaunchFailed):
            await engine.launch(launch, meanwhile=_nothing)
        assert os.listdir(tmp_path) == []
    await engine.close()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= len(before)
