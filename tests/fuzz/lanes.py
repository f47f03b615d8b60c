"""What runs side by side: agents that make drawn calls, and one who sends odd frames."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from tests.fuzz.arguments import draw
from tests.fuzz.browser import HOSTILE
from tests.fuzz.clients import HANG_S, LEGACY, call
from tests.fuzz.harmless import harmless
from tests.fuzz.judge import judge
from tests.fuzz.places import ServerError
from tests.fuzz.values import URIS, Known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from tests.fuzz.arguments import FuzzedTool
    from tests.fuzz.clients import FuzzClient, Reply
    from tests.fuzz.judge import Figures, Verdict
    from tests.fuzz.places import Place
    from tests.fuzz.servers import Setting

    type OnCall = Callable[[str, Mapping[str, Any], Reply, Verdict], None]
    type OnFrames = Callable[[str, list[bytes], float, str], None]
    """Gets a socket's name, what was sent there, how long it took and what came of it."""

CALLS_A_SESSION = 150
SESSIONS = 5
"""In a run, at least, unless its calls take long: what a worker takes is compared between them."""
READS = 8
RESOURCES = 0.03
"""Share of the steps that read a resource instead of calling a tool."""
REFRESH = 25
"""After so many calls the agent goes back to its app's page, which drawn calls have left."""
LONG_PATH = "x/" * 3_000
LONG_NAME = "x" * 300
RARE: Mapping[str, float] = {
    "startSession": 0.15,
    "restartServer": 0.1,
    "endSession": 0.15,
    "bookmark_check_links": 0.3,
    "pdf": 0.4,
}
"""Of tools that take long, so that the others have their turn."""


class AgentLane:
    """One agent with an e2e session of its own."""

    def __init__(
        self,
        name: str,
        client: FuzzClient,
        setting: Setting,
        random: Random,
        figures: Figures,
        tools: Sequence[FuzzedTool],
    ) -> None:
        self.name = name
        self.client = client
        self.known = Known(
            token=setting.token,
            files=str(setting.files),
            hostile=1,
            foreign="nobody",
            foreignTarget="NOBODY",
        )
        self.known.set("long", LONG_PATH)
        self.known.set("longName", LONG_NAME)
        self._setting = setting
        self._random = random
        self._figures = figures
        self._tools = list(tools)
        self._weights = [RARE.get(tool.name, 1.0) for tool in tools]
        self._by_name = {tool.name: tool for tool in tools}
        self.memory: Callable[[], float] | None = None
        """What its worker takes, in MB."""
        self.on_call: OnCall = lambda *_: None
        self._session = ""

    # The session

    def begin(self) -> None:
        """Start an e2e session in the app and learn the ids that there are."""
        files = self._setting.files
        started = self.must(
            "startSession",
            command=[sys.executable, str(files / "shop" / "server.py")],
            cwd=str(files / "shop"),
            intercept=True,
        )
        self._session = str(started["sessionId"])
        self.known.set("sessionId", self._session)
        self.known.set("app", str(started["url"]).rstrip("/"))
        self.refresh()
        self.ask("bookmark_search", query="e")
        for tool, arguments in (
            ("get_config", {"access_token": "<token>"}),
            ("bookmark_get_tree", {}),
            ("bookmark_plan", {"changes": [{"do": "create", "parentId": "Bar", "title": "L"}]}),
        ):
            self._learn(tool, self.ask(tool, **arguments))

    def open_services(self) -> None:
        """Have the services open that begin with the first call that needs them."""
        self.ask("get_config", access_token="<token>")
        self.ask("bookmark_search", query="e")

    def refresh(self) -> None:
        """Go to the app's page, and see what it has asked and answered."""
        self.ask("handleDialog", accept=True, sessionId="<sessionId>")
        tabs = self.ask("tabs", sessionId="<sessionId>").structured.get("tabs") or [{"id": "t1"}]
        self.known.set("ownTab", tabs[0]["id"])
        listed = self.ask("cdp_list_targets", sessionId="<sessionId>").structured
        for target in listed.get("targets", ())[:1]:
            self.known.set("ownTarget", target["id"])
        self.ask("navigate", url="<app>/", timeout=5_000, sessionId="<sessionId>")
        events = self.ask("cdp_read_events", targetId="<ownTarget>", limit=50)
        self._learn("cdp_read_events", events)
        packets = self.ask("get_history", access_token="<token>", limit=8)
        for packet in packets.structured.get("packets", ()):
            self.known.add("packet", packet["id"])

    def end(self) -> None:
        """End the session; what its worker takes then is noted."""
        self.ask("endSession", sessionId="<sessionId>")
        if self.memory is not None:
            self._figures.note_memory(self.name, self.memory())

    def ask(self, tool: str, **arguments: Any) -> Reply:
        """Make a call that is none of those counted."""
        return call(self.client, tool, self.known.fill(arguments))

    def must(self, tool: str, **arguments: Any) -> Mapping[str, Any]:
        reply = self.ask(tool, **arguments)
        assert reply.structured, (tool, reply)
        assert not reply.result.get("isError"), (tool, reply)
        return reply.structured

    # Drawn calls

    def run(self, until: float) -> None:
        """Make calls until the time has come."""
        share = (until - time.monotonic()) / SESSIONS
        try:
            while (began := time.monotonic()) < until:
                self.begin()
                for number in range(CALLS_A_SESSION):
                    if time.monotonic() > min(until, began + share):
                        break
                    if number and number % REFRESH == 0:
                        self.refresh()
                    self.step()
                    if not self._session:
                        break
                self.end()
        except Exception:
            self._figures.report([f"{self.name} stopped: {traceback.format_exc()}"])

    def watch(self, until: float) -> None:
        """Observe the hostile browser again and again, and read what it tells."""
        self.known.set("ownTarget", HOSTILE)
        place = {"host": "127.0.0.1", "port": "<hostile>"}
        try:
            while time.monotonic() < until:
                self.send("cdp_list_targets", place)
                self.send("cdp_observe", {"targetId": HOSTILE, **place})
                for _ in range(READS):
                    (tool,) = self._random.choices(self._tools)
                    drawn = self.draw(tool)
                    drawn.pop("sessionId", None)
                    self.send(tool.name, drawn)
                self.send("cdp_stop_observe", {"targetId": HOSTILE})
        except Exception:
            self._figures.report([f"{self.name} stopped: {traceback.format_exc()}"])

    def step(self) -> None:
        """Make one drawn call."""
        if self._random.random() < RESOURCES:
            uri = self.known.fill(self._random.choice(URIS))
            reply = self.client.request("resources/read", {"uri": uri})
            self._figures.count_resource(self.name, uri, judge(reply, self._setting.token))
            return
        (tool,) = self._random.choices(self._tools, self._weights)
        self.send(tool.name, self.draw(tool))

    def draw(self, tool: FuzzedTool) -> dict[str, Any]:
        drawn = draw(tool, self._random)
        if (
            self.client.era != LEGACY
            and "sessionId" in tool.properties
            and self._random.random() < 0.95
        ):
            drawn.setdefault("sessionId", "<sessionId>")
        return harmless(tool.name, drawn, self._random)

    def send(self, tool: str, arguments: Mapping[str, Any]) -> Verdict:
        """Make a call and judge what came of it."""
        reply = call(self.client, tool, self.known.fill(arguments))
        verdict = judge(reply, self._setting.token)
        self._figures.count_call(self.name, tool, arguments, reply, verdict)
        self.on_call(tool, arguments, reply, verdict)
        self._learn(tool, reply)
        self._tidy(tool, reply)
        return verdict

    def _learn(self, tool: str, reply: Reply) -> None:
        self.known.learn(reply.structured)
        if tool.startswith("bookmark_"):
            for node in reply.structured.get("nodes", ()):
                if isinstance(node, dict) and "id" in node:
                    self.known.add("bookmark", node["id"])
        for job in (reply.structured.get("job_id"),):
            if job:
                self.known.add("job", job)

    def _tidy(self, tool: str, reply: Reply) -> None:
        """End sessions that drawn calls have begun, and notice the end of the own one."""
        session = reply.structured.get("sessionId")
        if reply.result.get("isError") or not session:
            return
        if tool == "startSession" and session != self._session:
            call(self.client, "endSession", {"sessionId": session})
        if tool == "endSession" and session == self._session:
            self._session = ""


class FrameLane:
    """Sends odd frames to one socket after the other, and asks each whether it still serves."""

    def __init__(self, places: Sequence[Place], random: Random, figures: Figures) -> None:
        self._places = places
        self._random = random
        self._figures = figures
        self.on_frames: OnFrames = lambda *_: None

    def run(self, until: float) -> None:
        places = list(self._places)
        while time.monotonic() < until and places:
            for place in tuple(places):
                frames = place.draw(self._random)
                began = time.monotonic()
                incident = self.send(place, frames)
                self.on_frames(place.name, frames, time.monotonic() - began, incident)
                if incident:
                    places.remove(place)  # one that is gone has nothing more to tell

    def send(self, place: Place, frames: list[bytes]) -> str:
        """Send frames and say what came of it that must not be."""
        began = time.monotonic()
        try:
            place.send(frames)
            incident = place.trouble()
        except ServerError as error:
            incident = f"answered {error}"
        except Exception as error:
            incident = f"it takes nothing: {error!r}"
        if time.monotonic() - began > HANG_S:
            incident = incident or "it hung"
        shown = b" ".join(frames)[:400]
        self._figures.count_frame(place.name, f"{incident} after {shown!r}" if incident else "")
        return incident


def together(works: Sequence[Callable[[], None]]) -> None:
    """Run these side by side and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
