"""One agent as people see it: its rows, its apps, and what there is to each of them."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from pilothouse.core.timeline.events import ToolInvoked
from pilothouse.core.timeline.lanes import OWNER_CHARACTERS, TAB, one_line
from pilothouse.dashboard.ports import NoSuchThing, RowBatch
from pilothouse.dashboard.rows import LONGEST_TEXT, Rows, pack_cursor, packed, unpack_cursor
from pilothouse.e2e.browser.screenshots import glance
from pilothouse.e2e.ports import Sessions
from pilothouse.observe.model import BodyNotAvailable, NotObserving
from pilothouse.observe.ports import Observer
from pilothouse.observe.read.read import Page, settle_places, shown
from pilothouse.server.tools import OWN_IDS
from pilothouse.timeline.picture import relatives

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pilothouse.core.timeline.timeline import Moment, TimelinePage
    from pilothouse.e2e.model import Past
    from pilothouse.e2e.ports import AppServer
    from pilothouse.e2e.session import E2eSession
    from pilothouse.e2e.tab import Tab
    from pilothouse.observe.record.observation import Observation
    from pilothouse.server.session import Session

OPEN_NAMES = ("stdio", "local", "call")
"""Keys of sessions that nobody can enter by knowing them."""
MOST_ROWS = 2_000
"""Rows of one message at most."""
FIRST_ROWS = 200
"""Rows of the first message at most, so that a page just opened shows something at once."""
AT_ONCE = 100
"""Rows that are made before others have their turn."""
MOST_RELATED = 200
MOST_BODY = 1_000_000
"""Characters of a body that are shown."""
PICTURE_FRESH_S = 0.4
TITLE_S = 0.5
MOST_DOSSIERS = 50
LONGEST_TITLE = 200
_WORSE = ("running", "unhealthy", "stopped")
"""States of a server; an app is as its worst one."""
_FILE = re.compile(r"(?:dossier-\d+\.html|failure-\d+\.unmasked\.png)", re.ASCII)


class ShownAgent:
    """One session as far as people may see it."""

    def __init__(self, session: Session) -> None:
        self.name = name_of(session)
        self._session = session
        self._rows = Rows(session.redactor, {session.id: self.name})
        self._epoch = secrets.token_hex(4)
        self._apps: dict[str, str] = {}
        """Source of a tab → the app that it belongs to, also of tabs and apps that have ended."""
        self._pictures: dict[str, _Picture] = {}

    # Overview

    async def facts(self, since: float) -> dict[str, Any]:
        """Return the state of the agent, which was not idle before `since`."""
        session = self._session
        idle = session.clock() - max(session.last_call_at, since)
        return {
            "calls": session.timeline.ring(ToolInvoked.source).next_seq,
            "idleSec": 0 if session.running_calls else round(max(0.0, idle) / 1000),
            "apps": [
                *[await self._app(app) for app in self._sessions()],
                *[self._past(app) for app in reversed(self._ended())],
            ],
        }

    def _sessions(self) -> list[E2eSession]:
        sessions: Sessions | None = self._session.opened(Sessions)
        return sessions.sessions if sessions is not None else []

    def _ended(self) -> list[Past]:
        sessions: Sessions | None = self._session.opened(Sessions)
        return sessions.past if sessions is not None else []

    async def _app(self, app: E2eSession) -> dict[str, Any]:
        mask = self._session.redactor
        servers = [_server(*named) for named in zip(app.server_names, app.servers, strict=False)]
        states = [server["status"] for server in servers]
        return {
            "sessionId": app.id,
            "url": mask.url(app.url),
            "state": max(states, key=_WORSE.index, default="none"),
            "startedAt": round(app.started_at),
            "idleSec": 0 if app.running else round((app.clock() - app.last_activity) / 1000),
            "tabs": [await self._tab(tab) for tab in list(app.tabs.values())],
            "servers": [{**server, "url": mask.url(server["url"])} for server in servers],
            "dossiers": self._dossiers(app.id, app.folder, app.failed_steps),
            "intercept": app.entrance is not None and app.entrance.intercepts,
        }

    def _past(self, app: Past) -> dict[str, Any]:
        return {
            "sessionId": app.id,
            "url": self._session.redactor.url(app.url),
            "state": "ended",
            "startedAt": round(app.started_at),
            "idleSec": round((self._session.clock() - app.ended_at) / 1000),
            "tabs": [],
            "servers": [],
            "dossiers": self._dossiers(app.id, app.folder, app.failed),
            "intercept": False,
        }

    async def _tab(self, tab: Tab) -> dict[str, Any]:
        mask = self._session.redactor
        title = ""
        if tab.recording is not None:
            try:
                async with asyncio.timeout(TITLE_S):
                    title = await tab.recording.title() or ""
            except TimeoutError:
                pass  # the page is busy; the next look may get it
        return {
            "tabId": tab.id,
            "targetId": tab.target_id,
            "url": mask.url(tab.url),
            "title": mask.text(title),
        }

    def _dossiers(self, app: str, folder: Path, failed: Mapping[int, str]) -> list[dict[str, Any]]:
        """List the dossiers of the steps that failed, the newest first."""
        found = []
        for number in sorted(failed, reverse=True)[:MOST_DOSSIERS]:
            name = f"dossier-{number}.html"
            try:
                written = (folder / name).stat().st_mtime
            except OSError:
                continue  # what failed for another reason than the page has none
            title = one_line(self._session.redactor.text(failed[number]), LONGEST_TITLE)
            uri = f"e2e://artifact/{app}/{name}"
            found.append({"step": number, "title": title, "uri": uri, "at": round(written * 1000)})
        return found

    # Rows

    async def rows(self, cursor: str) -> RowBatch:
        """Return the next rows; wait until there is one. Raises InvalidInput."""
        most = MOST_ROWS if cursor else FIRST_ROWS
        reading = await self._reading(unpack_cursor(cursor, self._epoch), most)
        self._learn_apps()
        rows = []
        for number, moment in enumerate(reading.moments, 1):
            rows.append(self._row(moment))
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        after = pack_cursor(self._epoch, reading.cursor)
        return RowBatch(packed({"rows": rows, "cursor": after, "missed": reading.missed}), after)

    async def _reading(self, cursor: dict[str, int], most: int) -> TimelinePage:
        timeline, grown = self._session.timeline, asyncio.Event()
        stop = timeline.wait(grown.set)
        try:
            while True:
                reading = timeline.read(cursor, most)
                if reading.moments:
                    return reading
                await grown.wait()
                grown.clear()
        finally:
            stop()

    def _row(self, moment: Moment) -> dict[str, Any]:
        return self._rows.row(moment, self._apps.get(moment.source, ""))

    def _learn_apps(self) -> None:
        for app in self._sessions():
            for tab in app.tabs.values():
                self._apps[f"{TAB}{tab.target_id[:OWNER_CHARACTERS]}"] = app.id

    # One row

    async def moment(self, row: str) -> dict[str, Any]:
        """Return a row with its facts and what is related to it. Raises NoSuchThing."""
        found = self._find(row)
        self._learn_apps()
        facts = await self._facts(found)
        return {
            "row": self._row(found),
            "facts": facts,
            "keys": sorted(found.event.keys),
            "related": await self._related(found),
        }

    async def _related(self, moment: Moment) -> list[dict[str, Any]]:
        """Return what shares a key with it, and what the timeline joins with it, guesses marked."""
        timeline = self._session.timeline
        by_key = timeline.related(moment.event.keys) if moment.event.keys else []
        rows = {one.key: self._row(one) for one in by_key}
        for one, item, relation in await relatives(timeline, moment):
            if one.key in rows:
                continue
            rows[one.key] = {**self._row(one), "guess": relation.guess, "why": relation.why}
            if item.lane == "server":  # a stack trace says more than its first line
                told = self._session.redactor.text(item.text)
                rows[one.key]["text"] = one_line(told, LONGEST_TEXT)
        rows.pop(moment.key, None)
        return sorted(rows.values(), key=lambda row: row["at"])[-MOST_RELATED:]

    def _find(self, row: str) -> Moment:
        source, _, seq = row.rpartition(":")
        sound = seq.isascii() and seq.isdecimal() and len(seq) < 20
        found = self._session.timeline.find(source, int(seq)) if sound else None
        if found is None:
            raise NoSuchThing(
                f"there is no row {row[:80]!r}, or it has made room for newer ones",
                hint="ids come with the rows of /api/stream",
            )
        return found

    async def _facts(self, moment: Moment) -> dict[str, Any]:
        observation = self._observation(moment.source)
        redactor = self._session.redactor
        if observation is None:
            masked: Any = redactor.value(self._rows.facts(moment), keep=OWN_IDS)
            return dict(masked)
        seen: Any = moment.event
        events = shown(observation, [(moment.seq, seen)], redactor)
        await settle_places(Page.of(events), observation.mapper, redactor)
        return events[0]

    def _observation(self, source: str) -> Observation | None:
        observer: Observer | None = self._session.opened(Observer)
        if observer is None or not source.startswith(TAB):
            return None
        start = source.removeprefix(TAB)
        kept = [one for one in observer.observations if one.target_id.startswith(start)]
        return next(iter(kept), None)

    async def body(self, request: str) -> dict[str, Any]:
        """Return the body of the response to a request, cut to MOST_BODY. Raises NoSuchThing."""
        observer: Observer | None = self._session.opened(Observer)
        observations = observer.observations if observer is not None else []
        why = "no tab of this agent has sent it"
        for observation in observations:
            if observer is None or request not in observation.session_of:
                continue
            try:
                body = await observer.body(observation.target_id, request)
            except (BodyNotAvailable, NotObserving) as fault:
                why = fault.message
                continue
            text = body.text
            if not body.encoded:
                text = self._session.redactor.text(text, body.mime_type)
            return {
                "text": text[:MOST_BODY],
                "mimeType": body.mime_type,
                "length": len(text),
                "base64": body.encoded,
                "cut": len(text) > MOST_BODY,
            }
        raise NoSuchThing(
            f"there is no body of {request[:80]!r}: {why}",
            hint="redirects, 204s, streams and very large responses have none",
        )

    # Pictures and files

    async def picture(self, app: str, tab: str) -> bytes:
        """Return a JPEG of what a tab shows, empty while there is none. Raises NoSuchThing."""
        session = self._e2e(app)
        found = session.tabs.get(tab or session.current)
        if found is None or found.dialog is not None or found.crashed or found.page.is_closed():
            return b""
        kept = self._pictures.setdefault(f"{app} {found.id}", _Picture())
        async with kept.taking:
            if time.monotonic() - kept.taken_at > PICTURE_FRESH_S:
                kept.jpeg = await self._look(found)
                kept.taken_at = time.monotonic()
            return kept.jpeg

    async def _look(self, tab: Tab) -> bytes:
        observer: Observer | None = self._session.opened(Observer)
        if observer is not None and tab.target_id:
            # By a way of its own: steps take no notice of it.
            return await observer.picture(tab.target_id)
        return await glance(tab)

    async def file(self, app: str, name: str) -> bytes:
        """Return the bytes of a dossier or of its picture. Raises NoSuchThing."""
        folder = self._folder(app)
        path = folder / name
        known = _FILE.fullmatch(name) is not None and path.parent == folder
        if not known or path.is_symlink() or not path.is_file():
            why = self._why_gone(app, name) if known else ""
            raise NoSuchThing(
                f"this app has no file {name[:80]!r} to show{why and f': {why}'}",
                hint="its dossiers stand in /api/overview; each has its failure-N.unmasked.png",
            )
        return await asyncio.to_thread(path.read_bytes)

    def _why_gone(self, app: str, name: str) -> str:
        known: list[Past | E2eSession] = [*self._ended(), *self._sessions()]
        for one in known:
            if one.id == app and (why := one.files.why_gone(name)):
                return why
        sessions: Sessions | None = self._session.opened(Sessions)
        swept = sessions.why_swept(app) if sessions is not None else ""
        return swept and f"its files were {swept}"

    def _folder(self, app: str) -> Path:
        past = [one.folder for one in self._ended() if one.id == app]
        return past[0] if past else self._e2e(app).folder

    def _e2e(self, app: str) -> E2eSession:
        for session in self._sessions():
            if session.id == app:
                return session
        raise NoSuchThing(
            f"this agent has no app {app[:80]!r}, or no longer", hint="/api/overview lists them"
        )


class _Picture:
    """The newest picture of a tab."""

    def __init__(self) -> None:
        self.jpeg = b""
        self.taken_at = float("-inf")
        self.taking = asyncio.Lock()


def name_of(session: Session) -> str:
    """Return a name for people: whoever reads it can enter no session by it."""
    if session.id in OPEN_NAMES:
        return session.id
    return f"session-{hashlib.sha256(session.id.encode()).hexdigest()[:12]}"


def _server(name: str, server: AppServer) -> dict[str, Any]:
    return {
        "name": name,
        "url": server.info.url,
        "pid": server.info.pid,
        "status": server.last_seen if server.exit_code is None else "stopped",
    }
