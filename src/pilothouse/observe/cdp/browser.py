"""One connection to one browser, and the targets that are attached through it.

A page's own auto-attach brings its iframes and dedicated workers, paused until they are observed,
so that not even their first line is lost. Service and shared workers belong to an origin, not to
a page: the browser's own auto-attach brings them, and each goes to the observed pages of its
origin. Whatever comes twice is kept once.
"""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from typing import TYPE_CHECKING, Any

from pilothouse.observe.cdp.body_fetcher import BodyFetcher
from pilothouse.observe.cdp.client import ENABLE_S, Cdp, CdpError, CdpGone, part_of
from pilothouse.observe.cdp.targets import (
    NO_AUTO_ATTACH,
    ORIGIN_WORKERS,
    WORKERS,
    Attached,
    auto_attach,
    origin_of,
    own_title,
)
from pilothouse.observe.model import Target
from pilothouse.observe.normalize.events import INTERESTING
from pilothouse.observe.read.stack_frames import Mapper
from pilothouse.observe.record.error_details import EXPLAINED, ErrorDetails

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pilothouse.core.call_priority import CallPriority
    from pilothouse.machine.chromium.shared_pipe import BrowserPipe
    from pilothouse.observe.cdp.endpoint import CdpEndpoint
    from pilothouse.observe.model import Body
    from pilothouse.observe.record.observation import Observation

BROWSER_BUFFER_BYTES = 200 * 1024 * 1024
RESOURCE_BUFFER_BYTES = 20 * 1024 * 1024
POST_DATA_BYTES = 2 * 1024 * 1024
"""Bytes of posted data; more comes without any data, not even the beginning of it."""
ATTACH = "Target.attachToTarget"
PICTURE_QUALITY = 60
PICTURE_S = 2.0
"""Seconds that a page may take to show itself; one that is busy is shown the next time."""
_BUFFERS = {
    "maxTotalBufferSize": BROWSER_BUFFER_BYTES,
    "maxResourceBufferSize": RESOURCE_BUFFER_BYTES,
}
_RECORDED = INTERESTING - {"Inspector.targetCrashed"}
"""Events that become a record just as they come."""
_LOADED = {"Page.domContentEventFired": "contentLoadTime", "Page.loadEventFired": "loadTime"}
"""Names under which a navigation says when its document was loaded, by event."""
_ABOUT_RECORDS = {*_LOADED, "Inspector.targetCrashed", "Runtime.executionContextsCleared"}
"""Events that are no record of their own, and yet say something about those that are."""


def _is_target(info: Any) -> bool:
    """Tell whether that is what a browser knows of a target."""
    match info:
        case {"targetId": str(), "type": str()}:
            return all(isinstance(info.get(name, ""), str) for name in ("title", "url"))
    return False


def _target(info: dict[str, Any]) -> Target:
    told = (info["targetId"], info["type"], info.get("title", ""), info.get("url", ""))
    return Target(*told, bool(info.get("attached")))


class Browser:
    """A connected browser."""

    def __init__(
        self,
        endpoint: CdpEndpoint,
        priority: CallPriority | None = None,
        pipe: BrowserPipe | None = None,
    ) -> None:
        """Prepare a connection by the pipe, if there is one, and else to the endpoint."""
        self.endpoint = endpoint
        self._pipe = pipe
        self._priority = priority
        self._cdp: Cdp | None = None
        self._sessions: dict[str, Attached] = {}
        self._page_session: dict[str, str] = {}
        self._plain: dict[str, str] = {}
        """Page session → its second one, without durable messages: see `_attach_plain`."""
        self._has_service_workers = False
        """True once one of a site was seen; it may answer any page from its first request on."""
        self._attaching: set[str] = set()
        """Targets that we are attaching to: the browser reports that before it answers."""
        self._bodies = BodyFetcher(lambda: self.cdp, self._plain)
        self._explainer = ErrorDetails(self._ask)
        self._background: set[asyncio.Future[None]] = set()
        self._held: dict[str, str] = {}
        """Targets that are being attached to, each with the session in which it waits, if any."""
        self.take_page: Callable[[str], Observation] | None = None
        """Callback in a browser of our own: every page that comes is observed, before it runs."""
        self.callers = 0
        """Number of calls under way on this connection."""

    @property
    def cdp(self) -> Cdp:
        if self._cdp is None:
            raise CdpGone("connect", "the browser is not connected")
        return self._cdp

    @property
    def is_used(self) -> bool:
        """Tell whether the connection must stay: for a call, a tab, or pages yet to come."""
        return bool(self._page_session or self.callers or self.take_page)

    async def open(self) -> None:
        """Open the connection. Raises OSError, TimeoutError or CdpError."""
        if self._pipe is not None:
            self._cdp = await Cdp.share(self._pipe, self._on_event, self._priority)
        else:
            self._cdp = await Cdp.open(self.endpoint.url, self._on_event, self._priority)

    async def run(self) -> None:
        """Serve the connection until it is gone."""
        await self.cdp.run()

    async def close(self) -> None:
        if self._cdp is not None:
            await self._cdp.close()

    async def targets(self) -> list[Target]:
        """Return what a person would call a target; the browser's own surfaces are left out."""
        answer = await self.cdp.call("Target.getTargets", deadline=ENABLE_S)
        infos = answer.get("targetInfos")
        known = infos if isinstance(infos, list) else []
        return [_target(info) for info in known if _is_target(info)]

    async def title(self, target_id: str) -> str | None:
        """Return the tab's title as the browser knows it: a page that has just loaded answers late.
        None for a tab that is gone."""
        try:
            info = await self._info(target_id)
        except CdpError:
            return None
        return own_title(str(info.get("title", "")), str(info.get("url", "")))

    async def _info(self, target_id: str) -> dict[str, Any]:
        """Return what the browser knows of a target. Raises CdpError."""
        method = "Target.getTargetInfo"
        told = await self.cdp.call(method, {"targetId": target_id}, deadline=ENABLE_S)
        info: dict[str, Any] = part_of(method, told, "targetInfo", dict)
        if not _is_target(info):
            raise CdpError(method, "the answer names no target")
        return info

    async def _session_with(self, params: dict[str, Any]) -> str:
        """Attach to a target; return the session with it. Raises CdpError."""
        answer = await self.cdp.call(ATTACH, params, deadline=ENABLE_S)
        return part_of(ATTACH, answer, "sessionId", str)

    async def value(self, target_id: str, expression: str) -> Any:
        """Return what an expression is in the tab's document; None for what throws, and where the
        page goes away before it can answer."""
        session = self._page_session.get(target_id)
        if session is None:
            return None
        asked = {"expression": expression, "returnByValue": True}
        try:
            told = await self.cdp.call("Runtime.evaluate", asked, session)
            result: dict[str, Any] = part_of("Runtime.evaluate", told, "result", dict)
        except CdpError:
            return None
        return None if "exceptionDetails" in told else result.get("value")

    async def ask(self, target_id: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a command to a tab that is observed. Raises CdpError."""
        session = self._page_session.get(target_id)
        if session is None:
            raise CdpGone(method, "the tab is not observed")
        return await self.cdp.call(method, params, session)

    async def picture(self, target_id: str) -> bytes:
        """Return a JPEG of what the tab shows; empty where it does not answer soon."""
        session = self._page_session.get(target_id)
        if session is None:
            return b""
        asked = {"format": "jpeg", "quality": PICTURE_QUALITY, "optimizeForSpeed": True}
        try:
            told = await self.cdp.call("Page.captureScreenshot", asked, session, PICTURE_S)
            return base64.b64decode(part_of("Page.captureScreenshot", told, "data", str))
        except (CdpError, ValueError):
            return b""

    # Attaching

    async def attach(self, observation: Observation) -> None:
        """Observe a target and its children.

        Raises:
            CdpError: there is no such target, or it does not answer.
        """
        target_id = observation.target_id
        is_first = not self._page_session
        params = {"targetId": target_id, "flatten": True}
        self._attaching.add(target_id)
        self._held.setdefault(target_id, "")
        try:
            session = await self._session_with(params)
        except BaseException:
            self._release(target_id)
            raise
        finally:
            self._attaching.discard(target_id)
        self._page_session[target_id] = session
        try:
            info = await self._info(target_id)
            self._sessions[session] = Attached(
                target_id, info["type"], info.get("url", ""), [observation]
            )
            if is_first:
                # Filtered to what a page cannot attach by itself; another's tabs are never touched.
                # Only now: a worker that comes before its page is known would be let go.
                pages = ["page"] if self.take_page else []
                kinds = [{"type": kind} for kind in (*pages, *sorted(ORIGIN_WORKERS))]
                self.cdp.post("Target.setAutoAttach", auto_attach(kinds))
            if info["type"] not in ORIGIN_WORKERS:
                await self._attach_workers(observation, origin_of(info.get("url", "")))
            observation.mapper = Mapper(target_id, partial(self._ask, session))
            last = self._enable(session, info["type"], observation)
            self._release(target_id)
            async with asyncio.timeout(ENABLE_S):
                await last
        except BaseException:
            self.detach(observation)  # also cancelled: nothing may stay attached to nobody
            raise
        finally:
            self._release(target_id)

    def _release(self, target_id: str) -> None:
        """Let a page run that waited until all that is asked of it was on its way to it."""
        if session := self._held.pop(target_id, ""):
            self._let_go(session)

    async def _ask(self, session: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.cdp.call(method, params, session, ENABLE_S)

    def detach(self, observation: Observation) -> None:
        """Stop observing; children that nobody else observes are let go."""
        session = self._page_session.pop(observation.target_id, None)
        if plain := self._plain.pop(session or "", ""):
            self.cdp.post("Target.detachFromTarget", {"sessionId": plain})
        for number, attached in list(self._sessions.items()):
            if observation not in attached.observations:
                continue
            attached.observations.remove(observation)
            if not attached.observations and (number == session or attached.type != "page"):
                del self._sessions[number]
                self.cdp.post("Target.detachFromTarget", {"sessionId": number})
        if not self._page_session and not self.take_page:
            self.cdp.post("Target.setAutoAttach", NO_AUTO_ATTACH)

    def _enable(
        self, session: str, kind: str, observation: Observation
    ) -> asyncio.Future[dict[str, Any]]:
        """Turn on everything at once; a paused worker answers only after it was resumed."""
        post = self.cdp.post
        last = post("Network.enable", {**_BUFFERS, "maxPostDataSize": POST_DATA_BYTES}, session)
        # Bodies then survive navigation.
        post("Network.configureDurableMessages", _BUFFERS, session)
        post("Runtime.enable", {}, session)
        post("Log.enable", {}, session)
        if kind in ("page", "iframe", "webview"):
            post("Inspector.enable", {}, session)
        if kind == "page":
            post("Page.enable", {}, session)
        wanted = [
            *([{"type": "iframe"}] if observation.include_iframes else []),
            *([{"type": kind} for kind in sorted(WORKERS)] if observation.include_workers else []),
        ]
        post("Target.setAutoAttach", auto_attach(wanted), session)
        post("Runtime.runIfWaitingForDebugger", {}, session)
        return last

    def _keep_bodies(self, target_id: str) -> None:
        """Ask again for durable messages of a page that another session on this connection left:
        Chromium then forgets that there is one that wants them."""
        if session := self._page_session.get(target_id):
            self.cdp.post("Network.configureDurableMessages", _BUFFERS, session)

    async def _attach_workers(self, observation: Observation, origin: str) -> None:
        """Attach the running workers of an origin, which report to a page of it as well.

        The browser attaches new ones by itself, but those of an origin that nobody observed when
        they started were let go.
        """
        if not observation.include_workers:
            return
        self._share_workers(observation, origin)
        targets = await self.targets()
        if self._has_service_workers:
            await self._attach_plain(observation.target_id)
        for target in targets:
            if target.type in ORIGIN_WORKERS and origin_of(target.url) == origin:
                if all(held.target_id != target.id for held in self._sessions.values()):
                    await self._attach_worker(target, observation)

    def _share_workers(self, observation: Observation, origin: str) -> None:
        """Share attached workers with a page; at once, as their next event may be under way."""
        heard = {
            one.target_id for one in self._sessions.values() if observation in one.observations
        }
        for attached in self._sessions.values():
            if attached.type in ORIGIN_WORKERS and origin_of(attached.url) == origin:
                # One that is observed for itself may have two sessions.
                if observation.include_workers and attached.target_id not in heard:
                    attached.observations.append(observation)
                    heard.add(attached.target_id)

    async def _attach_worker(self, target: Target, observation: Observation) -> None:
        params = {"targetId": target.id, "flatten": True}
        if target.type == "service_worker":
            await self._attach_plain(observation.target_id)
        try:
            session = await self._session_with(params)
        except CdpError:
            return  # it ended meanwhile
        if session in self._sessions:
            return  # taken when the browser reported it
        if any(held.target_id == target.id for held in self._sessions.values()):
            self.cdp.post("Target.detachFromTarget", {"sessionId": session})
            return
        self._sessions[session] = Attached(target.id, target.type, target.url, [observation])
        self._enable(session, target.type, observation)

    async def _attach_plain(self, target_id: str) -> None:
        """Attach a second session without durable messages. With them the browser keeps what came
        from the network, and has no body of what a service worker answered; this session has it
        until the page goes elsewhere. Its other events are repeats, and ignored."""
        page = self._page_session.get(target_id)
        if page is None or page in self._plain:
            return
        self._plain[page] = ""
        params = {"targetId": target_id, "flatten": True}
        try:
            plain = await self._session_with(params)
        except CdpError:
            self._plain.pop(page, None)
            return
        if page not in self._plain:  # nobody observes it any more
            self.cdp.post("Target.detachFromTarget", {"sessionId": plain})
            return
        self._plain[page] = plain
        self.cdp.post("Network.enable", _BUFFERS, plain)

    async def _enable_worker(self, session: str, observations: list[Observation]) -> None:
        """Let a service worker run once its pages can keep what it answers."""
        try:
            for observation in observations:
                await self._attach_plain(observation.target_id)
        finally:
            self._enable(session, "service_worker", observations[0])

    # Events

    def _on_event(self, method: str, params: dict[str, Any], session: str) -> None:
        attached = self._sessions.get(session)
        if method in _RECORDED:
            if attached is not None:
                for observation in attached.observations:
                    self._deliver(observation, attached, method, params, session)
        elif method == "Target.attachedToTarget":
            self._child(params, attached)
        elif method == "Target.detachedFromTarget":
            self._gone(str(params.get("sessionId", "")))
            self._keep_bodies(str(params.get("targetId", "")))
        elif method in _ABOUT_RECORDS and attached is not None:
            self._of_page(method, params, attached, session)

    def _of_page(
        self, method: str, params: dict[str, Any], attached: Attached, session: str
    ) -> None:
        """Take an event that changes records that are there."""
        if method == "Inspector.targetCrashed":
            self._crashed(attached, session)
            return
        for observation in attached.observations:
            if attached.target_id != observation.target_id:
                continue
            if method == "Runtime.executionContextsCleared":
                observation.expect_repeats()
            elif method in _LOADED:
                observation.loaded(_LOADED[method], params["timestamp"])

    def _deliver(
        self,
        observation: Observation,
        attached: Attached,
        method: str,
        params: dict[str, Any],
        session: str,
    ) -> None:
        kept = observation.take(method, params, session)
        if method == "Network.loadingFinished":
            if kept:
                self._bodies.fetch(observation, params, session)
        elif method == "Runtime.exceptionThrown":
            self._explainer.explain(observation, kept, method, params, session)
        elif method == "Runtime.consoleAPICalled":
            if params["type"] in EXPLAINED:
                self._explainer.explain(observation, kept, method, params, session)
        elif method == "Network.requestWillBeSent":
            if params.get("type") == "Document" and params.get("frameId") == attached.target_id:
                # Its service worker may start before the navigation is committed.
                attached.next_url = params["request"]["url"]
        elif method == "Page.frameNavigated":
            self._navigated(observation, attached, params["frame"])

    def _crashed(self, attached: Attached, session: str) -> None:
        is_end = attached.type in ORIGIN_WORKERS
        for observation in attached.observations:
            if is_end:  # Chrome says so of every shared and service worker that ends
                observation.note("workerEnded", url=attached.url)
                continue
            observation.take("Inspector.targetCrashed", {}, session)
            if attached.target_id == observation.target_id:
                observation.state = "crashed"
        self.cdp.fail_session(session, "the worker has ended" if is_end else "the page crashed")
        if attached.type == "shared_worker":
            # Chrome itself ends when it looks for targets anew while one that ended is held.
            self.cdp.post("Target.detachFromTarget", {"sessionId": session})
            self._gone(session)

    def _navigated(
        self, observation: Observation, attached: Attached, frame: dict[str, Any]
    ) -> None:
        if frame.get("parentId") or attached.target_id != observation.target_id:
            return
        observation.page_came()
        before, attached.url, attached.next_url = attached.url, frame.get("url", ""), ""
        if observation.state == "crashed":
            observation.state = "observing"
        if origin_of(before) != origin_of(attached.url):
            self._share_workers(observation, origin_of(attached.url))
            self._spawn(self._attach_workers(observation, origin_of(attached.url)))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # a connection that was lost is reported elsewhere

    def _child(self, params: dict[str, Any], parent: Attached | None) -> None:
        """Observe a frame or worker that was attached, or let it run on unobserved."""
        session, info = str(params["sessionId"]), params["targetInfo"]
        kind, url, target_id = info["type"], info.get("url", ""), info["targetId"]
        if kind == "service_worker" and url.startswith("http") and not self._has_service_workers:
            self._has_service_workers = True
            for target in self._page_session:
                self._spawn(self._attach_plain(target))
        if kind == "page" and params.get("waitingForDebugger"):
            self._new_page(session, target_id, url)
            return
        asked = target_id in self._attaching and not params.get("waitingForDebugger")
        if session in self._sessions or (parent is None and (asked or kind not in ORIGIN_WORKERS)):
            return  # a report of what we attached ourselves
        if parent is None or kind in ORIGIN_WORKERS:
            wanted = self._of_origin(origin_of(url))
        else:
            wanted = list(parent.observations)
        # A frame or worker that is observed for itself still reports to its page, on a session of
        # its own; only what reports to the same observation already is kept once.
        known = [
            observation
            for held in self._sessions.values()
            if held.target_id == target_id
            for observation in held.observations
        ]
        wanted = [observation for observation in wanted if observation not in known]
        if not wanted:
            self._let_go(session)
            return
        self._sessions[session] = Attached(target_id, kind, url, wanted)
        if kind == "service_worker":
            self._spawn(self._enable_worker(session, list(wanted)))
        else:
            self._enable(session, kind, wanted[0])

    def _new_page(self, session: str, target_id: str, url: str) -> None:
        """Observe a page, say a popup, that waits for us: what it does first is recorded too."""
        if target_id in self._held:
            self._held[target_id] = session  # it is being attached to, and must not start before
            return
        if self.take_page is None or target_id in self._page_session:
            self._let_go(session)
            return
        observation = self.take_page(target_id)
        self._page_session[target_id] = session
        self._sessions[session] = Attached(target_id, "page", url, [observation])
        observation.mapper = Mapper(target_id, partial(self._ask, session))
        self._enable(session, "page", observation)
        if self._has_service_workers:
            self._spawn(self._attach_plain(target_id))

    def _let_go(self, session: str) -> None:
        """Let what was attached run on by itself. Detached while it is still paused, a worker
        would never start: so only once it has answered."""
        resumed = self.cdp.post("Runtime.runIfWaitingForDebugger", {}, session)
        resumed.add_done_callback(
            lambda _: self.cdp.post("Target.detachFromTarget", {"sessionId": session})
        )

    def _of_origin(self, origin: str) -> list[Observation]:
        found: list[Observation] = []
        for session in self._page_session.values():
            page = self._sessions.get(session)
            if page is None or page.type in ORIGIN_WORKERS:
                continue
            if origin in (origin_of(page.url), origin_of(page.next_url)):
                found += [o for o in page.observations if o.include_workers]
        return found

    def _gone(self, session: str) -> None:
        attached = self._sessions.pop(session, None)
        if attached is None:
            return
        self._plain.pop(session, None)
        self.cdp.fail_session(session, "the target was closed")
        for observation in attached.observations:
            if attached.target_id == observation.target_id:
                self._page_session.pop(observation.target_id, None)
                observation.state = "closed"
                why = "the worker has ended" if attached.type in WORKERS else "the tab was closed"
                observation.note("detached", url=attached.url, reason=why)

    async def body(self, observation: Observation, request_id: str) -> Body:
        """Return a response's body. Raises CdpError with the browser's own reason."""
        page = self._page_session.get(observation.target_id, "")
        return await self._bodies.body(observation, request_id, page)
