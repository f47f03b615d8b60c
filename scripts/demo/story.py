"""What the agent does: it orders a sextant, gets no receipt, and finds out why."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.demo import clock
from scripts.demo.agent import said_by, user_hub
from scripts.demo.profile import kept_bookmarks, open_profile, titles_in
from scripts.demo.replaying import replay, with_expectation, write_conftest
from scripts.demo.telling import DemoFailed, Lines, Picture, Quote

if TYPE_CHECKING:
    from scripts.demo.agent import Agent
    from scripts.demo.profile import Profile
    from scripts.demo.telling import Teller

SHOP = "examples/shop"
RECEIPT = "#receipt"
RECEIPT_MS = 2_000
"""How long the agent waits for it. A receipt that comes at all comes at once."""
BROKEN, SOUND = "sextant", "compass"
PROFILE = "Pilothouse demo"
BOOKMARK = "Sextant: the order fails with 500"
BOOKMARK_FOLDER = "Bar > Shop > Faults"
FILES = (
    "report.html",
    "dossier.html",
    "traffic.har",
    "test_shop.py",
    "conftest.py",
    "pytest.ini",
    "bookmarks.json",
    "shop.png",
    "failure.png",
    "bookmark.png",
    "dashboard.png",
)
"""All that the demo leaves behind, the report first."""


@dataclass(slots=True)
class Story:
    """One run of the demo, which puts its files into `folder`."""

    agent: Agent
    teller: Teller
    folder: Path
    shop_url: str = ""

    async def run(self) -> None:
        """Raises DemoFailed."""
        await self._start()
        error = await self._order()
        await clock.tell(self.agent, self.teller, error)
        failed = await self._find()
        await self._send_again(failed)
        await self._use_a_profile()
        await self._export()

    async def _start(self) -> None:
        self.teller.begin("Start the shop, and a browser whose packets are recorded")
        started = await self.agent.call("startSession", cwd=SHOP, intercept=True)
        self.shop_url = started["url"]
        how = started["message"].partition(". ")[0]
        self.teller.say(f"{how}. The shop is open at {self.shop_url}.")

    async def _order(self) -> dict[str, Any]:
        """Order until a step fails; its error, which is the dossier."""
        agent, teller = self.agent, self.teller
        teller.begin("Order a sextant, as a customer would")
        await agent.call("navigate", url="/")
        await agent.call("waitFor", text=f"Add {BROKEN}")  # the articles come after the page
        found = await agent.call("find", text=f"Add {BROKEN}")
        ref = _ref(found["matches"])
        await agent.call("click", selector=ref)
        await agent.call("waitForSelector", selector="#basket li")
        self._take((await agent.call("screenshot"))["path"], "shop.png")
        teller.show(Picture("The shop, with the sextant in the basket", self.folder / "shop.png"))
        fields = [
            {"selector": "[name=name]", "value": "Ada"},
            {"selector": "[name=email]", "value": "ada@example.com"},
        ]
        await agent.call("fillForm", fields=fields)
        clicked = await agent.call("click", selector="text=Place order", settle=300)
        for request in clicked.get("requests", ()):
            teller.say(f"The click sent {request}.")

        teller.begin("The receipt does not come: the dossier says why")
        failed = await agent.failure("waitForSelector", selector=RECEIPT, timeout=RECEIPT_MS)
        error: dict[str, Any] = failed["error"]
        self._take(failed["screenshot"]["path"], "failure.png")
        self._take(error["dossier"]["path"], "dossier.html")
        self._show_dossier(error, failed["serverLogs"]["stderr"])
        return error

    def _show_dossier(self, error: dict[str, Any], stderr: str) -> None:
        show = self.teller.show
        show(Lines("Likely causes", tuple(error["causes"]), frozenset({0})))
        show(Lines("Requests", tuple(_request(one) for one in error.get("requests", ()))))
        console = (f"{one['level']}: {one['text']}" for one in error.get("console", ()))
        show(Lines("Console", tuple(console)))
        show(Quote("Server log", stderr))
        show(Picture("The page when the step failed", self.folder / "failure.png"))
        self.teller.say("The whole dossier, for people, is dossier.html.")

    async def _find(self) -> dict[str, Any]:
        """The packet of the failed request."""
        self.teller.begin("Find the failing request among the recorded packets")
        history = await self.agent.call("get_history", filter="status >= 500", limit=2)
        if not history["packets"]:
            raise DemoFailed("the history has no packet with a status of 500 or more")
        number = history["packets"][0]["id"]
        detail = await self.agent.call("get_packet_detail", packet_id=number, include_body=True)
        self.teller.say(f"Packet {number} is the one: {_exchange(detail)}.")
        self.teller.show(Quote("It sent", detail["body"]["request"]))
        self.teller.show(Quote("It got", detail["body"]["response"]))
        return detail

    async def _send_again(self, failed: dict[str, Any]) -> None:
        self.teller.begin(f"Send it again with a {SOUND} instead of the {BROKEN}")
        edit = {"type": "regex_replace", "pattern": f'"{BROKEN}"', "replacement": f'"{SOUND}"'}
        sent = await self.agent.call("resend_packet", packet_id=failed["id"], modifications=[edit])
        number = sent["packet_ids"][0]
        detail = await self.agent.call("get_packet_detail", packet_id=number, include_body=True)
        if detail.get("status") != 200:
            raise DemoFailed(f"the changed request was answered {detail.get('status')}, not 200")
        self.teller.say(f"Packet {number} went well: {_exchange(detail)}.")
        self.teller.show(Quote("It sent", detail["body"]["request"]))
        self.teller.show(Quote("It got", detail["body"]["response"]))
        self.teller.say(
            f"So ordering works, and the {BROKEN} does not: articles.json gives its weight under"
            " another name than orders.py looks for."
        )

    async def _export(self) -> None:
        agent, teller = self.agent, self.teller
        teller.begin("Write it down: the traffic as HAR, the steps as a test")
        exported = await agent.call("export_har", filter="url =~ /api/")
        har = self.folder / "traffic.har"
        har.write_text(json.dumps(exported["har"], indent=1), "utf-8")
        teller.say(f"{har.name} has {exported['entries']} exchanges with the API.")

        written = await agent.call("exportSession", **{"as": "test"})
        test = self.folder / "test_shop.py"
        self._take(written["files"][0]["path"], test.name)
        test.write_text(with_expectation(test.read_text("utf-8"), RECEIPT), "utf-8")
        write_conftest(self.folder)
        teller.show(Quote("test_shop.py", test.read_text("utf-8")), only_in_report=True)
        ran = await replay(test, RECEIPT)
        if not ran.reproduced:
            raise DemoFailed(f"{test} passes, although the shop has a fault: was it mended?")
        teller.say(f"{test.name} repeats {written['steps']} steps and expects the receipt.")
        teller.say("Run now, it fails at the receipt: the fault is reproduced.")
        teller.show(Quote("What pytest said", ran.said), only_in_report=True)

    async def _use_a_profile(self) -> None:
        """A person's Chrome: for a bookmark, and to look at the dashboard."""
        with tempfile.TemporaryDirectory(prefix="ph-", dir="/tmp") as made:
            async with open_profile(PROFILE, Path(made)) as profile:
                await self._bookmark(profile)
                await self._look(profile)
            kept = kept_bookmarks(Path(made))
        if BOOKMARK not in titles_in(kept["roots"]["bookmark_bar"]):
            raise DemoFailed("Chrome did not keep the bookmark in its profile")
        (self.folder / "bookmarks.json").write_text(json.dumps(kept, indent=1), "utf-8")

    async def _bookmark(self, profile: Profile) -> None:
        agent, teller = self.agent, self.teller
        teller.begin("Keep a bookmark of it, in a real Chrome profile")
        # The first call has the server listen for the extension. The user's own Chrome may be
        # there already, which this is not about.
        await agent.ask("bookmark_get", id="Bar", profile=PROFILE)
        teller.say("That profile is not connected yet, but the server listens for it now.")
        port = _port((await agent.call("status"))["services"])
        await profile.pair(port, said_by("pair"))
        teller.say(f"A Chromium with the extension is paired by its options page, on port {port}.")
        added = await agent.call(
            "bookmark_add",
            parentId=BOOKMARK_FOLDER,
            title=BOOKMARK,
            url=f"{self.shop_url}/",
            createFolders=True,
            profile=PROFILE,
        )
        picture = self.folder / "bookmark.png"
        await profile.show_bookmark(added["parentId"], BOOKMARK, picture)
        teller.show(Picture("Chrome's own bookmark manager", picture))

    async def _look(self, profile: Profile) -> None:
        self.teller.begin("Look at the same session in the dashboard")
        picture = self.folder / "dashboard.png"
        await profile.show_dashboard(user_hub().url, f"{RECEIPT} failed", picture)
        self.teller.show(Picture("The dashboard, at the moment of the failure", picture))

    def _take(self, path: str, name: str) -> None:
        """Copy a file of the session's."""
        shutil.copyfile(path, self.folder / name)


def _ref(matches: list[str]) -> str:
    found = re.search(r"\[ref=(\w+)\]", matches[0] if matches else "")
    if not found:
        raise DemoFailed(f"the shop has no button to add the {BROKEN}")
    return found[1]


def _request(one: dict[str, Any]) -> str:
    sent = f", sent {one['sent']}" if one.get("sent") else ""
    return f"{one['request']}{sent}"


def _exchange(detail: dict[str, Any]) -> str:
    return f"{detail['method']} {detail['url']} answered {detail['status']}"


def _port(services: dict[str, str]) -> int:
    """Where the server listens for the extension."""
    link = services.get("bookmarks link", "")
    found = re.match(r"ws://[\d.]+:(\d+)", link)
    if not found:
        raise DemoFailed(f"the server does not listen for the extension: {link or 'no link'}")
    return int(found[1])
