"""Where a session's browser may go, over the wire: through every tool, spelling and route.

A route is also taken where it is allowed: one that could not reach the canary then would prove
nothing. What each test guards against was tried by taking the guard out.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.e2e.routes import LEAVING, PATHS, ROUTES, STAYING, TOOLS, TUNNELLED
from tests.integration.e2e.test_proxy_browser import INNER, LOOPBACK, SHAPES
from tests.support.session_life import Canary, Driver, last_seen, open_canary, open_place

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

# The session's own app by all its names.
OWN = """
localhost LOCALHOST LocalHost %6cocalhost %4C%4Fcalhost ｌｏｃａｌｈｏｓｔ user@localhost
user:pass@localhost example.com@localhost a@b@localhost
127.0.0.1 127.0.0.1. 127.1 127.0.1 2130706433 0x7f000001 0X7F000001 017700000001 0x7f.1 0x7f.0.0.1
0177.0.0.1 0177.1 127.0.0.01 127.0.0.0x1 127。0。0。1 １２７.0.0.1 %31%32%37.0.0.1 me@127.0.0.1
[::1] [0::1] [0:0:0:0:0:0:0:1] [::0001] user@[::1]
""".split()  # noqa: RUF001
OWN_PATHS = """
/ /?x=http://10.0.0.1/ /a/../b /#http://169.254.169.254/ /@127.0.0.1 /http://0.0.0.0/ /%2e%2e/
/redirect?to=//metadata.google.internal /a//b?c=:@ /?body=%3Cp%3Ehello
""".split()
OTHER_SCHEMES = (
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "chrome://version",
    "chrome://inspect",
    "devtools://devtools/bundled/inspector.html",
    "view-source:http://localhost/",
    "data:text/html,hello",
    "javascript:alert(1)",
    "blob:http://localhost/1",
    "ftp://localhost/",
    "about:config",
    "filesystem:http://localhost/temporary/x",
)


class World:
    """A driver with one session, and a canary beside it."""

    def __init__(self, driver: Driver, canary: Canary) -> None:
        self.driver = driver
        self.canary = canary
        # Which is closed to pages like every other one of ours.
        self.session = driver.start(debugPort=True)
        self.own = {"sessionId": self.session["sessionId"]}

    def go(self, url: str, **more: Any) -> dict[str, Any]:
        return self.driver.call("navigate", **self.own, url=url, **more)

    def blocked(self, url: str) -> dict[str, Any]:
        fault = self.driver.fault("navigate", **self.own, url=url, timeout=20_000)
        assert fault["type"] == "url_not_allowed", (url, fault)
        return fault

    def run(self, script: str) -> dict[str, Any]:
        return self.driver.ask("evaluate", **self.own, script=script)

    def port_of_proxy(self, browser: int = -1) -> int:
        words = " ".join(self.driver.browsers()[browser].cmdline())
        found = re.search(r"--proxy-server=http://127\.0\.0\.1:(\d+)", words)
        assert found, words
        return int(found[1])


@contextmanager
def open_world(**env: str) -> Iterator[World]:
    with open_place() as place, open_canary() as canary, Driver(place, env=env) as driver:
        yield World(driver, canary)
        _, log = driver.close()
        assert "internal_error" not in log, log


@pytest.fixture(scope="module")
def closed() -> Iterator[World]:
    """Nothing is listed, so that nothing but the session's own app is open."""
    with open_world(ALLOWED_HOSTS="") as opened:
        yield opened


@pytest.fixture(scope="module")
def development() -> Iterator[World]:
    with open_world(PILOTHOUSE_METRICS_PORT="0") as opened:
        yield opened


@pytest.fixture(scope="module")
def production() -> Iterator[World]:
    with open_world(PILOTHOUSE_ENV="production", SERVER_COMMAND_PATH=sys.executable) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _fresh_canary(request: pytest.FixtureRequest) -> None:
    for name in ("closed", "development", "production"):
        if name in request.fixturenames:
            request.getfixturevalue(name).canary.clear()


# Spellings


def spellings(port: int) -> list[str]:
    hosts = [f"{host}:{port}" for host in LOOPBACK] + INNER
    plain = [f"http://{host}/" for host in hosts]
    return plain + [shape.format(f"127.0.0.1:{port}") for shape in SHAPES]


def good_urls(port: int) -> list[str]:
    return [f"http://{host}:{port}/" for host in OWN] + OWN_PATHS


def test_the_tables_are_as_long_as_the_promise() -> None:
    assert len(set(spellings(1))) >= 120
    assert len(set(good_urls(1))) >= 40


def test_no_spelling_leads_a_navigation_to_the_canary(closed: World) -> None:
    for url in spellings(closed.canary.port):
        closed.blocked(url)
    assert closed.canary.connections == 0


def test_no_spelling_leads_a_request_of_the_page_to_the_canary(closed: World) -> None:
    closed.go("/")
    urls = [url for url in spellings(closed.canary.port) if not url.startswith("view-source")]
    # The tool does not see these; only the proxy does.
    script = f"Promise.allSettled({urls}.map(url => fetch(url, {{mode: 'no-cors'}})))"
    done = closed.run(f"{script}.then(all => all.length)")
    assert done["structuredContent"]["result"] == len(urls)
    assert closed.canary.connections == 0


def test_a_request_of_the_page_reaches_the_canary_where_that_is_allowed(development: World) -> None:
    development.go("/")
    hosts = ("localhost", "127.0.0.1", "127.0.0.2", "[::1]", "0x7f.1")
    urls = [f"http://{host}:{development.canary.port}/{n}" for n, host in enumerate(hosts)]
    script = f"Promise.all({urls}.map(url => fetch(url).then(r => r.text())))"
    assert development.run(script)["structuredContent"]["result"] == ["canary"] * len(hosts)
    assert sorted(development.canary.paths) == [f"/{n}" for n in range(len(hosts))]


def test_no_good_address_is_blocked(closed: World) -> None:
    for url in good_urls(closed.session["port"]):
        said = closed.go(url)
        assert said.get("status") == 200, (url, said)
        assert not [line for line in said.get("browser", ()) if "refused" in line], url


def test_other_schemes_are_closed_to_navigate_and_to_new_tabs(development: World) -> None:
    development.go("/")
    for url in OTHER_SCHEMES:
        fault = development.blocked(url)
        assert fault["rule"] == "scheme", url
        tab = development.driver.fault("tabs", **development.own, action="new", url=url)
        assert tab["type"] == "url_not_allowed", url
    for url in ("file:///etc/passwd", "chrome://version"):
        development.run(f"location = '{url}'; 0")
    tabs = development.driver.call("tabs", **development.own)["tabs"]
    assert [tab["url"] for tab in tabs] == [f"{development.session['url']}/"]


# Routes


def take_all_routes(world: World) -> None:
    """Each to a path of the canary's that bears its name."""

    def filled(text: str, name: str) -> str:
        host = f"127.0.0.1:{world.canary.port}"
        return (
            text.replace("TO", f"http://{host}/{name}")
            .replace("WS", f"ws://{host}/{name}")
            .replace("HOST", host)
        )

    for name, path in PATHS.items():
        world.driver.ask("navigate", **world.own, url=filled(path, name), settle=100)
    for name, script in LEAVING.items():
        world.go("/?body=%3Cbody%3E")
        world.run(f"(() => {{ {TOOLS} {filled(script, name)} }})()")
        world.driver.ask("waitFor", **world.own, idle=True, timeout=5_000)
    world.go("/?body=%3Cbody%3E")
    parts = [f"try {{ {filled(script, name)} }} catch {{}}" for name, script in STAYING.items()]
    world.run(f"(() => {{ {TOOLS} {' '.join(f'{{{part}}}' for part in parts)} }})()")
    world.driver.ask("waitFor", **world.own, idle=True, timeout=5_000)


def close_popups(world: World) -> None:
    for tab in world.driver.call("tabs", **world.own)["tabs"]:
        if not tab["current"]:
            world.driver.ask("tabs", **world.own, action="close", tabId=tab["id"])


def test_every_route_leads_to_the_canary_where_that_is_allowed(development: World) -> None:
    take_all_routes(development)

    def missing() -> set[str]:
        return ROUTES - {path.strip("/").partition("?")[0] for path in development.canary.paths}

    # A TURN server is asked in a language of its own, of which only the connection is seen.
    unseen = {"turn-tcp"} & TUNNELLED
    assert last_seen(missing, lambda left: left <= unseen) <= unseen
    close_popups(development)


def test_no_route_leads_to_the_canary_where_nothing_is_listed(closed: World) -> None:
    take_all_routes(closed)
    closed.go("/", settle=500)
    close_popups(closed)
    assert closed.canary.paths == []
    assert closed.canary.connections == 0


def test_a_redirect_out_of_the_app_is_told_as_url_not_allowed(closed: World) -> None:
    for code in (301, 302, 303, 307, 308):
        fault = closed.blocked(f"/?status={code}&Location={closed.canary.url}")
        assert fault["rule"] == "not_listed"
    fault = closed.blocked("/?status=302&Location=http://169.254.169.254/latest/meta-data/")
    assert "169.254.169.254" in fault["url"]
    assert closed.canary.connections == 0


def test_evaluate_cannot_go_round_the_policy(closed: World) -> None:
    closed.go("/")
    url = closed.canary.url
    fetched = closed.run(f"fetch('{url}').then(() => 'read', () => 'refused')")
    assert fetched["structuredContent"]["result"] == "refused"
    closed.run(f"window.open('{url}', '_blank'); location = '{url}'; 0")
    closed.driver.call("waitFor", **closed.own, text="is blocked")
    closed.go("/")
    close_popups(closed)
    assert closed.canary.connections == 0


# startSession(url)


@pytest.mark.parametrize(
    "url",
    """
    http://169.254.169.254/ http://10.0.0.1/ http://192.168.0.1:8080/ http://0xA9FEA9FE/
    http://[fd00::1]/ http://[::ffff:10.0.0.1]/ http://metadata.google.internal/ http://0.0.0.0:80/
    file:///etc/passwd chrome://version http://224.0.0.1/
    """.split(),
)
def test_no_session_is_started_at_a_blocked_address(development: World, url: str) -> None:
    before = len(development.driver.browsers())
    fault = development.driver.fault("startSession", url=url)
    assert fault["type"] == "url_not_allowed"
    assert len(development.driver.browsers()) == before


def test_a_session_cannot_make_a_closed_address_its_own(closed: World, production: World) -> None:
    for world in (closed, production):
        for url in (world.canary.url, f"http://localhost:{world.canary.port}/"):
            fault = world.driver.fault("startSession", url=url)
            assert fault["type"] == "url_not_allowed", url
        assert world.canary.connections == 0


# This machine


def test_other_ports_of_this_machine_are_open_in_development_alone(
    development: World, production: World
) -> None:
    said = development.go(development.canary.url)
    assert said["status"] == 200
    assert development.canary.paths
    assert production.go("/")["status"] == 200, "its own app is open"
    for url in (
        production.canary.url,
        f"http://localhost:{production.canary.port}/",
        f"/?status=302&Location={production.canary.url}",
    ):
        assert production.blocked(url)["rule"] == "loopback"
    production.go("/")
    script = f"fetch('{production.canary.url}').then(() => 'read', () => 'refused')"
    assert production.run(script)["structuredContent"]["result"] == "refused"
    assert production.canary.connections == 0


def port_of_metrics(driver: Driver) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", driver.log())
    assert found, driver.log()
    return int(found[1])


def test_pilothouse_and_its_browsers_are_closed_to_pages(development: World) -> None:
    world = development
    first = world.driver.browsers()
    other = world.driver.start(debugPort=True)
    assert len(world.driver.browsers()) == len(first) + 1
    ports = {
        "its own debugging port": world.session["cdpPort"],
        "its own proxy": world.port_of_proxy(0),
        "the metrics": port_of_metrics(world.driver),
        "the other session's debugging port": other["cdpPort"],
        "the other session's proxy": world.port_of_proxy(1),
    }
    assert len(set(ports.values())) == len(ports)
    for name, port in ports.items():
        for host in ("127.0.0.1", "localhost", "[::1]", "0x7f.1"):
            fault = world.blocked(f"http://{host}:{port}/json/version")
            assert fault["rule"] == "blocked_port", (name, host)
        # The tool sees only where this begins; the proxy sees where it leads.
        redirect = f"/?status=302&Location=http://127.0.0.1:{port}/json/version"
        assert world.blocked(redirect)["rule"] == "blocked_port", name
        fault = world.driver.fault("startSession", url=f"http://127.0.0.1:{port}/")
        assert fault["type"] == "url_not_allowed", name
    world.driver.end(other)
