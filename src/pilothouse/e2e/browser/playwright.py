"""Browsers that Playwright drives. The only place where Playwright is imported.

One driver serves all browsers of an agent. A browser is launched first and gets its context when
the app's address is known, so that both can start at the same time. Chromium is started with a pipe
that the observer shares, and records the session by from its first request on.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.core.child_env import browser_environment
from pilothouse.core.net.proxy_auth import USER
from pilothouse.e2e.browser.page_scripts import WATCH_CHANGES, WATCH_POINTER, WATCH_TIMERS
from pilothouse.e2e.model import BrowserLaunchFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    # The types are passed on, so that Playwright has one home here.
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import BrowserContext as BrowserContext
    from playwright.async_api import BrowserType, Playwright
    from playwright.async_api import CDPSession as CDPSession
    from playwright.async_api import Dialog as Dialog
    from playwright.async_api import Download as Download
    from playwright.async_api import Frame as Frame
    from playwright.async_api import FrameLocator as FrameLocator
    from playwright.async_api import Locator as Locator
    from playwright.async_api import Page as Page
    from playwright.async_api import Response as Response

    from pilothouse.machine.chromium.pipe_launch import SharedLaunch
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe

    type SharePipe = Callable[[str, Path], AbstractAsyncContextManager[SharedLaunch]]
    """Function of a browser's path, and of a private folder for what its start needs."""

type BrowserKind = Literal["chromium", "firefox", "webkit"]

PORT_FILE_S = 5.0
CLOSE_S = 5.0
NO_SANDBOX = "--no-sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserLaunch:
    """Options for the start of a browser, or the address of one to join."""

    kind: BrowserKind = "chromium"
    executable: str = ""
    """Path of the browser; empty for Playwright's own download."""
    headless: bool = True
    flags: tuple[str, ...] = ()
    cdp: str = ""
    """`http://host:port` of a browser that runs already; nothing is launched then."""
    debug_port: bool = False
    """True if Chromium is to have a debugging port, which every local user can open."""
    folder: Path = Path()
    """Private folder; files for the start lie there meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """Options that hold for all tabs of a session."""

    proxy_server: str = ""
    proxy_bypass: str = ""
    proxy_secret: str = field(default="", repr=False)
    """Password, empty if the proxy knows whose the browser is. With it, Playwright answers the
    proxy's challenges, for which it holds every request, and turns off the browser's cache."""
    width: int = 1280
    height: int = 720
    storage_state: str = ""
    video_folder: str = ""
    trusts_all: bool = False
    """True for an intercepting proxy, in a browser that cannot be set to trust one key alone."""


@dataclass(eq=False)
class DrivenBrowser:
    """A running browser and, once the app is there, its one context."""

    browser: PlaywrightBrowser
    kind: BrowserKind
    is_users: bool
    """True if it was joined, not launched: closing it would close somebody's windows."""
    wants_port: bool = False
    debug_port: int = 0
    """Debugging port, 0 where there is none, or not yet."""
    pipe: BrowserPipe | None = None
    """Pipe by which the observer joins a browser that we launched."""
    context: BrowserContext | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set when the browser has ended, by our doing or not."""

    async def open_context(self, options: ContextOptions) -> BrowserContext:
        """Open the session's context; from here on its debugging port is known, too."""
        context, _ = await asyncio.gather(self._new_context(options), self._find_port())
        self.context = context
        return context

    async def _new_context(self, options: ContextOptions) -> BrowserContext:
        if self.is_users and self.browser.contexts:
            context = self.browser.contexts[0]
        else:
            context = await self.browser.new_context(**_context_options(options))
        await context.add_init_script(WATCH_TIMERS + WATCH_POINTER + WATCH_CHANGES)
        return context

    async def _find_port(self) -> None:
        if self.wants_port:
            self.debug_port = await _debug_port(self.browser)

    @property
    def is_recorded(self) -> bool:
        """True if the observer can join it."""
        return self.pipe is not None or bool(self.debug_port)

    async def target_id(self, page: Page) -> tuple[str, CDPSession | None]:
        """Return the page's id in the DevTools protocol, and the open session that gave it."""
        if self.kind != "chromium" or self.context is None:
            return "", None
        session = await self.context.new_cdp_session(page)
        info = await session.send("Target.getTargetInfo")
        return str(info["targetInfo"]["targetId"]), session

    async def close(self) -> None:
        """Leave no process behind; a browser of the user's own goes on without us."""
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                # Closing the connection to a joined browser leaves it running.
                await self.browser.close()
        if self.pipe is not None:
            self.pipe.close()


class PlaywrightDriver:
    """One Playwright driver, started with the first browser that needs it."""

    def __init__(self, driver_environ: Callable[[], Mapping[str, str]], share: SharePipe) -> None:
        """Start nothing yet; `driver_environ` gives all that the driver gets of our environment."""
        self._driver_environ = driver_environ
        self._environ: Mapping[str, str] = {}
        self._share = share
        self._playwright: Playwright | None = None
        self._is_over: Callable[[], bool] = lambda: False
        self._starting = asyncio.Lock()

    async def _driver(self) -> Playwright:
        async with self._starting:
            if self._playwright is None or self._is_over():
                from playwright.async_api import async_playwright

                manager = async_playwright()
                self._environ = self._driver_environ()
                self._playwright = await _begin(manager.start(), self._environ)
                # Playwright reports to nobody that its driver has died: each call just fails.
                assert manager._client is not None
                self._is_over = manager._client._close_promise.done
            return self._playwright

    async def launch(
        self, launch: BrowserLaunch, meanwhile: Callable[[], Awaitable[None]]
    ) -> DrivenBrowser:
        """Start or join a browser; what is done while it starts costs no time.

        Raises:
            BrowserLaunchFailed
        """
        try:
            driver = await self._driver()
            beside = asyncio.ensure_future(meanwhile())
            try:
                driven = await self._started(driver, launch)
            finally:
                # Not waited for: what it waits for may itself be waiting for us to end.
                beside.cancel()
        except Exception as error:
            raise _launch_failed(launch, error) from None
        driven.browser.on("disconnected", lambda _: driven.gone.set())
        return driven

    async def _started(self, driver: Playwright, launch: BrowserLaunch) -> DrivenBrowser:
        if launch.cdp:
            joined = await driver.chromium.connect_over_cdp(launch.cdp, timeout=15_000)
            port = int(launch.cdp.rsplit(":", 1)[1])
            return DrivenBrowser(joined, launch.kind, is_users=True, debug_port=port)
        kind: BrowserType = getattr(driver, launch.kind)
        executable = launch.executable or kind.executable_path
        if launch.kind != "chromium" or not os.access(executable, os.X_OK):
            browser = await self._launch(kind, launch, launch.executable)
            return DrivenBrowser(browser, launch.kind, is_users=False)
        async with self._share(executable, launch.folder) as shared:
            browser = await self._launch(kind, launch, str(shared.program))
            pipe = shared.take()
            driven = DrivenBrowser(
                browser, launch.kind, is_users=False, wants_port=launch.debug_port, pipe=pipe
            )
            # Playwright reports the browser's end, and not its driver's.
            pipe.on_close = driven.gone.set
            return driven

    async def _launch(
        self, kind: BrowserType, launch: BrowserLaunch, executable: str
    ) -> PlaywrightBrowser:
        return await kind.launch(
            headless=launch.headless,
            args=list(launch.flags),
            executable_path=executable or None,
            env={**browser_environment(self._environ)},
            # Playwright's own default is no sandbox, for everybody.
            chromium_sandbox=NO_SANDBOX not in launch.flags,
            # Our own signal handling closes sessions; Playwright's would race with it.
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )

    async def close(self) -> None:
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            with suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await playwright.stop()


def _context_options(options: ContextOptions) -> dict[str, Any]:
    made: dict[str, Any] = {
        "viewport": {"width": options.width, "height": options.height},
        "accept_downloads": True,
        "service_workers": "allow",
    }
    if options.proxy_server:
        proxy = {"server": options.proxy_server, "bypass": options.proxy_bypass}
        if options.proxy_secret:
            proxy |= {"username": USER, "password": options.proxy_secret}
        made["proxy"] = proxy
    if options.trusts_all:
        made["ignore_https_errors"] = True
    if options.storage_state:
        made["storage_state"] = options.storage_state
    if options.video_folder:
        made["record_video_dir"] = options.video_folder
    return made


async def _debug_port(browser: PlaywrightBrowser) -> int:
    """Return the port that Chromium took for `--remote-debugging-port=0`, from its profile."""
    session = await browser.new_browser_cdp_session()
    # Chromium answers this only with --enable-automation.
    said = await session.send("Browser.getBrowserCommandLine")
    await session.detach()
    prefix = "--user-data-dir="
    profile = next(a[len(prefix) :] for a in said["arguments"] if a.startswith(prefix))
    file = Path(profile) / "DevToolsActivePort"
    async with asyncio.timeout(PORT_FILE_S):
        # The file is there a moment before its content; nothing tells of it.
        while not (lines := _lines(file)):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return int(lines[0])


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _launch_failed(launch: BrowserLaunch, error: Exception) -> BrowserLaunchFailed:
    said = str(error)
    first = said.strip().split("\n", 1)[0]
    if launch.cdp:
        return BrowserLaunchFailed(
            f"no browser answers at {launch.cdp}: {first}",
            hint="start one with `pilothouse chrome`, or with --remote-debugging-port=9222 and a"
            " profile of its own",
            cdp=launch.cdp,
        )
    if "Executable doesn't exist" in said or "executable doesn't exist" in said:
        return BrowserLaunchFailed(
            f"{launch.kind} is not installed",
            hint=f"run `playwright install {launch.kind}`, or leave out `browser` for Chromium",
            browser=launch.kind,
        )
    return BrowserLaunchFailed(
        f"{launch.kind} did not start: {first}",
        hint="`pilothouse doctor` says what is missing",
        browser=launch.kind,
        log=said[-1500:],
    )


def _begin[T](work: Coroutine[Any, Any, T], environ: Mapping[str, str]) -> asyncio.Task[T]:
    """Begin work that starts a process before it first waits, in an environment for that process.

    Playwright's driver takes the environment of ours and no other. Where tasks begin at once, it
    has it when this returns, and nobody else on this loop has seen ours without the rest.
    """
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    loop.set_task_factory(asyncio.eager_task_factory)
    try:
        with _environ(environ):
            return loop.create_task(work)
    finally:
        loop.set_task_factory(factory)


@contextmanager
def _environ(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables and no others until the block ends."""
    before = dict(os.environ)
    try:
        _become(variables)
        yield
    finally:
        _become(before)


def _become(variables: Mapping[str, str]) -> None:
    # What stays is never taken away, not even for a moment: threads may look.
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


@contextmanager
def launch_faults(kind: str) -> Iterator[None]:
    """Turn Playwright's errors between a browser's start and its first tab into a failed start."""
    try:
        yield
    except Exception as error:
        if not error_name(error):
            raise
        said = str(error)
        if "ffmpeg" in said:
            raise BrowserLaunchFailed(
                "recording a video needs ffmpeg, which is not installed",
                hint="install it (`apt-get install ffmpeg`, or `playwright install ffmpeg`),"
                " or leave video out of record",
                browser=kind,
            ) from None
        raise BrowserLaunchFailed(
            f"{kind} opened no tab: {said.strip().split(chr(10), 1)[0]}",
            hint="`pilothouse doctor` says what is missing",
            browser=kind,
        ) from None


def error_name(error: BaseException) -> str:
    """Return the class of one of Playwright's errors; empty for any other."""
    return type(error).__name__ if type(error).__module__.startswith("playwright") else ""
