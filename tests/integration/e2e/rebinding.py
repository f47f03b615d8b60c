"""The rebinding matrix: a name that leads to a public address once, and elsewhere afterwards.

`python -m tests.integration.e2e.rebinding FOLDER` drives the product in a network of its own, by
every entry, with the name listed or not, with `intercept` or without, in development and in
production. It prints a cell for each as JSON, or exits with `CANNOT` where the system does not
let it have that network. The addresses are real, and so is the resolver: nothing of the product is
changed or stood in for.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import forkserver, own_net
from tests.support.intercepting import token_of
from tests.support.own_net import Names, Sink
from tests.support.redirecting import CANNOT
from tests.support.rounds import IS_SOAK
from tests.support.session_life import Driver, open_place
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC, PRIVATE, METADATA = "93.184.216.34", "10.9.8.7", "169.254.169.254"
ROUNDS = 3
"""Of each entry: as many as there are answers in turn."""


class World:
    """One product, and all places to which a name could lead."""

    def __init__(self, names: Names, sinks: dict[str, Sink], driver: Driver) -> None:
        self.names = names
        self.sinks = sinks
        self.driver = driver
        self.cells: list[dict[str, Any]] = []
        self._last = 0

    def name(self, *answers: str) -> str:
        """Make a name with these answers in turn; an empty one is "no such name"."""
        self._last += 1
        turns = [[answer] if answer else [] for answer in answers]
        return self.names.lead(f"n{self._last}.rebind.example", *turns)

    @contextmanager
    def cell(self, entry: str, name: str, **about: Any) -> Iterator[dict[str, Any]]:
        """Note who was reached by what is done in the block."""
        before = {key: sink.connections for key, sink in self.sinks.items()}
        made: dict[str, Any] = {"entry": entry, "said": [], **about}
        yield made
        made["reached"] = {key: sink.connections - before[key] for key, sink in self.sinks.items()}
        made["lookups"] = self.names.asked[name]
        self.cells.append(made)

    def say(self, cell: dict[str, Any], tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that may fail, and keep what it says in few words."""
        content: dict[str, Any] = self.driver.ask(tool, **arguments)["structuredContent"]
        error = content.get("error", {})
        cell["said"].append(error.get("rule") or error.get("type") or "ok")
        return content

    def text(self, own: dict[str, str]) -> str:
        """What stands in the page."""
        script = "document.body ? document.body.innerText : ''"
        said = self.driver.ask("evaluate", **own, script=script)["structuredContent"]
        return str(said.get("result", ""))

    # Entries

    def take_all(self, about: dict[str, Any], port: int) -> None:
        """By every entry, in as few browsers as there can be."""
        own_name = self.name(PUBLIC, METADATA, METADATA)
        with self.cell("startSession", own_name, **about, own=True) as cell:
            session = self.start(cell, f"http://{own_name}/", about)
            for _ in range(ROUNDS):
                self.say(cell, "getSessionStatus", **session)
        with self.cell("navigate to its own name", own_name, **about, own=True) as cell:
            for number in range(ROUNDS):
                self.say(cell, "navigate", **session, url=f"http://{own_name}/{number}")
            redirect = f"/?status=302&to=http://{own_name}/again"
            self.say(cell, "navigate", **session, url=redirect)
            script = "fetch('/asked').then(answer => answer.text())"
            cell["text"] = self.say(cell, "evaluate", **session, script=script).get("result")
        for trap, place in {"metadata": METADATA, "private": PRIVATE}.items():
            for entry in ("navigate", "redirect", "requests of a page"):
                name = self.name(PUBLIC, place, place)
                with self.cell(entry, name, **about, trap=trap) as cell:
                    self.take(cell, entry, name, session)
        ours = self.name(PUBLIC, "127.0.0.1", "127.0.0.1")
        with self.cell("navigate", ours, **about, trap="our port") as cell:
            self.take_port(cell, f"http://{ours}:{port}/metrics", session)
        if about["intercept"]:
            for trap, place in {"metadata": METADATA, "private": PRIVATE}.items():
                again = self.name(PUBLIC, place, place)
                with self.cell("resend", again, **about, trap=trap) as cell:
                    self.send_again(cell, again, session)
            later = self.name(PUBLIC, PRIVATE, PRIVATE)
            with self.cell("resend after the session", later, **about, trap="private") as cell:
                self.driver.ask("navigate", **session, url=f"http://{later}/")
                packet = wait_until(partial(self.packet, later))
                self.driver.ask("endSession", **session)
                self.send(cell, packet)
        self.driver.ask("endSession", **session)

        # What is left has nothing to do with the mode: each takes a browser of its own.
        if about["mode"] == "production":
            self.take_late(about)
        else:
            self.take_own_port(about, port)

    def take_late(self, about: dict[str, Any]) -> None:
        """A session that begins before its own name leads anywhere."""
        late = self.name("", METADATA, METADATA)
        with self.cell("startSession before the name is known", late, **about) as cell:
            session = self.start(cell, f"http://{late}/", about)
            self.say(cell, "getSessionStatus", **session)
            for _ in range(ROUNDS):
                self.say(cell, "navigate", **session, url=f"http://{late}/")
        self.driver.ask("endSession", **session)

    def take_own_port(self, about: dict[str, Any], port: int) -> None:
        """A session whose own name leads to a port of the product's afterwards."""
        ours = self.name(PUBLIC, "127.0.0.1", "127.0.0.1")
        with self.cell("startSession", ours, **about, own=True, trap="our port") as cell:
            session = self.start(cell, f"http://{ours}:{port}/metrics", about)
            self.say(cell, "getSessionStatus", **session)
            self.take_port(cell, f"http://{ours}:{port}/metrics", session)
        self.driver.ask("endSession", **session)

    def start(self, cell: dict[str, Any], url: str, about: dict[str, Any]) -> dict[str, str]:
        started = self.say(cell, "startSession", url=url, intercept=about["intercept"])
        # Without one the cell says why, and those after it that nobody was reached.
        return {"sessionId": started.get("sessionId", "none")}

    def take(self, cell: dict[str, Any], entry: str, name: str, session: dict[str, str]) -> None:
        for _ in range(ROUNDS):
            if entry == "navigate":
                self.say(cell, "navigate", **session, url=f"http://{name}/")
            elif entry == "redirect":
                self.say(cell, "navigate", **session, url=f"/?status=302&to=http://{name}/")
            else:
                self.say(cell, "navigate", **session, url="/")
                self.say(cell, "evaluate", **session, script=_REQUESTS.replace("NAME", name))

    def send_again(self, cell: dict[str, Any], name: str, session: dict[str, str]) -> None:
        """Packets of the browser: one that went out, and one that the policy kept in."""
        self.driver.ask("navigate", **session, url=f"http://{name}/")
        script = f"fetch('http://{METADATA}/', {{mode: 'no-cors'}}).then(() => 0)"
        self.driver.ask("evaluate", **session, script=script)
        for host in (name, METADATA):
            self.send(cell, wait_until(partial(self.packet, host)))

    def send(self, cell: dict[str, Any], packet: int) -> None:
        for _ in range(ROUNDS):
            said = self.say(cell, "resend_packet", packet_id=packet)
            cell["said"][-1] += f" {said.get('failed_count')}"

    def packet(self, host: str) -> int | None:
        """The newest packet to or from a host, once there is one."""
        wanted = {"filter": f"server_name == {host}", "fields": ["id"]}
        packets = self.driver.call("get_history", **wanted)["packets"]
        return int(packets[0]["id"]) if packets else None

    def take_port(self, cell: dict[str, Any], url: str, session: dict[str, str]) -> None:
        """A listener of the product's own counts nobody: it is known by what it answers."""
        cell["texts"] = []
        for _ in range(ROUNDS):
            self.say(cell, "navigate", **session, url=url)
            cell["texts"].append(self.text(session)[:200])


# Tunnels too: those of HTTPS and of a WebSocket.
_REQUESTS = """
    Promise.allSettled([
        fetch('http://NAME/', {mode: 'no-cors'}),
        fetch('https://NAME/', {mode: 'no-cors'}),
        new Promise(done => {
            const socket = new WebSocket('ws://NAME/');
            socket.onerror = socket.onclose = done;
        }),
    ]).then(() => 0)
"""


def port_of_metrics(driver: Driver) -> int:
    """A port on which the product itself listens."""

    def found() -> re.Match[str] | None:
        return re.search(r"http://127\.0\.0\.1:(\d+)/metrics", driver.log())

    return int(wait_until(found, driver.log)[1])


def intercepts(mode: str, *, listed: bool) -> tuple[bool, ...]:
    """Return with which values of `intercept` a product is tried: both in a soak, else so that
    every two of the three choices meet in each way."""
    return (False, True) if IS_SOAK else ((mode == "production") != listed,)


def trial() -> list[dict[str, Any]]:
    """All cells."""
    names, cells = Names(), []
    sinks = {
        key: Sink(key, address)
        for key, address in {"public": PUBLIC, "private": PRIVATE, "metadata": METADATA}.items()
    }
    with ExitStack() as stack:
        for sink in sinks.values():
            stack.enter_context(sink.on(80, 443))
        place = stack.enter_context(open_place())
        token = token_of(place.home)
        for mode, listed in product(("development", "production"), (False, True)):
            env = {
                "PILOTHOUSE_ENV": mode,
                "PILOTHOUSE_METRICS_PORT": "0",
                "PACKET_PROXY_ACCESS_TOKEN": token,
                # Production's own are for agents: this one does all it does within a minute.
                "PILOTHOUSE_RATE_CALLS_PER_MIN": "0",
                "PILOTHOUSE_RATE_SESSIONS_PER_MIN": "0",
            }
            if listed:
                env["ALLOWED_HOSTS"] = "*.rebind.example"
            with Driver(place, env=env) as driver:
                port = port_of_metrics(driver)
                world = World(names, sinks, driver)
                with sinks["public"].on(port):
                    for intercept in intercepts(mode, listed=listed):
                        about = {"mode": mode, "listed": listed, "intercept": intercept}
                        world.take_all(about, port)
                cells += world.cells
                driver.close()
    return cells


def main() -> None:
    try:
        own_net.enter((PUBLIC, PRIVATE, METADATA), Path(sys.argv[1]))
    except (AttributeError, OSError) as error:
        sys.stderr.write(str(error))
        sys.exit(CANNOT)
    try:
        cells = trial()
    finally:
        forkserver.close()
    sys.stdout.write(json.dumps(cells))


if __name__ == "__main__":
    main()
