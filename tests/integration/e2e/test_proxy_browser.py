"""A real Chromium behind the filtering proxy: no spelling and no route leads to a canary.

Each route is run twice, first with a policy that lets it through: a route that could not reach the
canary then would prove nothing.
"""

# ruff: noqa: RUF001  (characters that look like others are what this file is about)

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from playwright.async_api import Error

from pilothouse.core.net.url_policy import Policy, UrlError, canonical_host, target_of
from pilothouse.e2e.browser.flags import feature_flag
from tests.integration.e2e.browser_rig import CANARIES, STAND_IN, Simulated, open_world, visit
from tests.integration.e2e.routes import (
    LEAVING,
    PATHS,
    ROUTES,
    STAYING,
    TOOLS,
    TUNNELLED,
    UNPROXIED,
)
from tests.support.until import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from playwright.async_api import BrowserContext

    from tests.integration.e2e.browser_rig import World

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

# Every one of these is this machine: with a port, the canary's.
LOOPBACK = """
localhost LOCALHOST LocalHost localhost. app.localhost a.b.localhost %6cocalhost %6C%6F%63alhost
ｌｏｃａｌｈｏｓｔ loc\u00adalhost local\u200bhost \U0001d4c1ocalhost ⓛocalhost
127.0.0.1 127.0.0.1. 127.1 127.0.1 127.0.0.2 127.255.255.254 2130706433 0x7f000001 0X7F000001
017700000001 0x7f.1 0x7f.0.0.1 0x7F.0x0.0x0.0x1 0177.0.0.1 0177.1 00000177.0.0.01 127.0.0.0x1
127.0.0x0001 0177.0x0.1 127.0.0.01 0x7f000001. １２７.０.０.１ １２７．０．０．１ 127。0。0。1
127｡0｡0｡1 127．0.0｡1 ①②⑦.0.0.1 0ｘ7ｆ.1 %31%32%37.0.0.1 127%2E0%2E0%2E1 127.0.0.%31 %30x7f.1
127%E3%80%820.0.1 %EF%BC%91%32%37.1 12\u00ad7.0.0.1 127.0.\u20600.1
[::1] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::0001]
[::ffff:127.0.0.1] [::FFFF:7f00:1] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:127.0.0.2]
user@127.0.0.1 user:pass@127.0.0.1 example.com@127.0.0.1 example.com:80@127.1 a@b@127.0.0.1
example.com%2F@127.0.0.1 %40@localhost example.com:443@[::1]
0.0.0.0 0 0x0 00 0. [::] [0::0] [::ffff:0.0.0.0] [::ffff:0:0]
""".split()

INNER = """
0.0.0.1 10.0.0.1 10.1 167772161 0xa000001 012.0.0.1 10.255.255.255 １０.0.0.1 %310.0.0.1
100.64.0.1 100.127.255.255 100.100.100.200 0x64.64.1
169.254.169.254 169.254.43518 0xA9FEA9FE 2852039166 0251.0376.0251.0376 0xa9.0xfe.0xa9.0xfe
169.254.169.254. 169。254。169。254 169.254.169.%32%354 [::ffff:169.254.169.254] [::ffff:a9fe:a9fe]
[::169.254.169.254] [64:ff9b::169.254.169.254] [64:ff9b::a9fe:a9fe] [2002:a9fe:a9fe::1]
[2001:0:a9fe:a9fe::1] [::ffff:0:169.254.169.254] user@169.254.169.254 example.com@0xA9FEA9FE
172.16.0.1 172.31.255.255 172.1048577 0xac100001 0254.020.0.1 192.0.0.192 192.168.0.1 192.168.1
0xc0a80001 3232235521 198.18.0.1 198.19.255.255 203.0.113.7 168.63.129.16 224.0.0.1
239.255.255.250 240.0.0.1 255.255.255.255 4294967295 [fc00::1] [fd00:ec2::254] [fe80::1] [febf::1]
[fec0::1] [ff02::1] [2001:db8::1] [100::1] [::2] [64:ff9b:1::1] [::10.0.0.1] [::127.0.0.1]
[64:ff9b::7f00:1] [2002:7f00:1::] [::ffff:10.0.0.1] metadata.google.internal
METADATA.google.internal. metadata.goog metadata instance-data
""".split()

SHAPES = [
    "http:{}/", "http:/{}/", "http:///{}/", "http:\\\\{}\\", "HTTP://{}/", " http://{}/", "ht\ntp://{}/",
    "http://{}?x", "http://{}#x", "view-source:http://{}/", "http://{}/../..", "http:/\\{}/",
]  # fmt: skip

# Hosts that are none of the above; only compared, never reached.
OTHERS = """
example.com EXAMPLE.com example.com. bücher.example faß.de 例え.jp 例え。jp ex%61mple.com
user:p%40ss@example.com localhost.evil.example 127.0.0.1.nip.io 8.8.8.8 134744072 010.010.010.010
8.8.2056 [2606:4700:4700::1111] [64:ff9b::8.8.8.8] my_host.example a-b.example xn--p1ai.example
intranet 127.example a..b 1.2.3.4.5 256.1.1.1 1.2.3.08 4294967296 foo.0x7f [::g] a^b a%00b a%20b
℀.com a\u202eb.com xn--a.example x\u00b7y.example ａ\u0301.example ς.example
""".split()


ONE_RENDERER = ("--disable-site-isolation-trials", "--renderer-process-limit=1")


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


@pytest.fixture(scope="module")
async def one_renderer() -> AsyncIterator[World]:
    """The same with one process for the pages of all sites, for tests that visit 200 of them.

    Which process shows a page changes nothing about where its navigation goes, and to start one
    costs more than the rest. All other tests have a process for each site, as users have.
    """
    flags = (f"{feature_flag()},IsolateOrigins,site-per-process", *ONE_RENDERER)
    async with open_world(extra=flags) as opened:
        yield opened


def closed(world: World) -> Policy:
    return Policy(own_origins=world.own_origins)


def closed_in_development(world: World) -> Policy:
    ports = frozenset({world.canary_port, world.udp_port})
    return Policy(own_origins=world.own_origins, development=True, blocked_ports=ports)


def open_to_all(world: World) -> Policy:
    return Policy(own_origins=world.own_origins, development=True)


# Spellings


def spellings(port: int) -> list[str]:
    hosts = [f"{host}:{port}" for host in LOOPBACK] + INNER
    plain = [f"http://{host}/" for host in hosts]
    return plain + [shape.format(f"127.0.0.1:{port}") for shape in SHAPES]


def test_the_tables_are_as_long_as_the_promise() -> None:
    assert len(set(spellings(1))) >= 120
    assert len(set(GOOD)) >= 40


async def test_every_canary_counts_what_reaches_it(world: World) -> None:
    for host in CANARIES:
        world.clear(open_to_all(world))
        reader, writer = await asyncio.open_connection(host, world.canary_port)
        writer.write(b"GET /direct HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"good")
        writer.close()
        assert world.canary.paths == ["/direct"]


async def test_the_browser_reaches_the_canary_when_the_policy_is_open(world: World) -> None:
    world.clear(open_to_all(world))
    async with world.context() as context:
        page = await context.new_page()
        for host in ("localhost", "127.0.0.1", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]"):
            assert await visit(page, f"http://{host}:{world.canary_port}/") == "good", host
    assert not world.refused


async def test_no_spelling_leads_a_navigation_to_a_canary(one_renderer: World) -> None:
    world = one_renderer
    world.clear(Policy(own_origins=world.own_origins, allowed_hosts=()))
    reached = []
    async with world.context() as context:
        page = await context.new_page()
        for url in spellings(world.canary_port):
            before = len(world.refused)
            outcome = await visit(page, url)
            # Refused by the proxy, or no URL to Chromium; there is nothing in between.
            refused = outcome.startswith("blocked: ") and len(world.refused) > before
            if not refused and "invalid URL" not in outcome and "ERR_INVALID_URL" not in outcome:
                reached.append((url, outcome))
            if world.policy.check_url(url).allowed:
                reached.append((url, "judged harmless"))
    assert reached == []
    assert world.canary.connections == 0


FETCH_ALL = """urls => Promise.all(urls.map(url => {
    try { return fetch(url, {mode: 'no-cors'}).then(() => true, () => true) } catch { return false }
}))"""


@pytest.mark.parametrize("policy", [closed, closed_in_development])
async def test_no_spelling_leads_a_request_to_a_canary(
    world: World, policy: Callable[[World], Policy]
) -> None:
    world.clear(policy(world))
    hosts = [host for host in LOOPBACK if "@" not in host]
    async with world.context() as context:
        page = await context.new_page()
        await page.goto(world.app())
        urls = [f"http://{host}:{world.canary_port}/" for host in hosts]
        await page.evaluate(FETCH_ALL, urls)
        sockets = ["127.1", "localhost", "[::1]", "[::ffff:7f00:1]", "0", "%6cocalhost"]
        await page.evaluate(
            """urls => Promise.all(urls.map(url => new Promise(done => {
                const socket = new WebSocket(url);
                socket.onerror = socket.onopen = done;
            })))""",
            [f"ws://{host}:{world.canary_port}/" for host in sockets],
        )
    assert world.canary.connections == 0
    asked = [one for one in world.refused if one.method == "GET" and one.port == world.canary_port]
    assert len(asked) >= len(hosts)
    assert len([one for one in world.refused if one.method == "CONNECT"]) >= len(sockets)


async def test_chromium_goes_where_the_policy_said_it_would(world: World) -> None:
    """The differential: the host that the browser asks for is the one that was judged."""
    world.clear(Policy(allowed_hosts=()))  # everything is refused, and so everything is recorded
    hosts = [f"{host}:8123" for host in (*LOOPBACK, *INNER, *OTHERS) if "@" not in host]
    urls = [f"http://{host}/{number}" for number, host in enumerate(hosts)]
    async with world.context() as context:
        page = await context.new_page()
        await page.goto(world.app())
        await page.evaluate(FETCH_ALL, urls)
    asked = {one.url.rpartition("/")[2]: (one.host, one.port) for one in world.refused}
    different, compared = [], 0
    for number, url in enumerate(urls):
        try:
            judged = target_of(url)
        except UrlError:
            continue  # stricter than the browser: refused before it is ever asked
        if where := asked.get(str(number)):
            compared += 1
            if where != (judged.host.name, judged.port):
                different.append((url, where, judged))
    assert different == []
    assert compared >= 130


async def test_chromium_folds_every_character_as_the_policy_does(world: World) -> None:
    async with world.context() as context:
        page = await context.new_page()
        text = await page.evaluate(
            """() => {
                const read = [];
                for (let code = 0x80; code < 0xE1000; code++) {
                    if (code === 0x20000) code = 0xE0000;  // between them there is only Han
                    if (code >= 0xD800 && code < 0xE000) continue;
                    const url = `http://1${String.fromCodePoint(code)}2.example/`;
                    if (URL.canParse(url)) read.push([code, new URL(url).hostname]);
                }
                return JSON.stringify(read);
            }"""
        )
    read = json.loads(text)
    assert len(read) > 50_000
    different = []
    for code, host in read:
        with suppress(UrlError):  # stricter than the browser is fine
            judged = canonical_host(f"1{chr(code)}2.example").name
            if judged != host:
                different.append((f"U+{code:04X}", host, judged))
    assert different == []


# Good addresses

OWN = ["localhost", "LOCALHOST", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]", "[0::1]"]
NAMES = """
example.com EXAMPLE.com example.com. www.example.co.uk xn--bcher-kva.example bücher.example faß.de
例え.jp 例え。jp ex%61mple.com %65xample.com user@example.com user:p%40ss@example.com
localhost.evil.example notlocalhost.example localhost1.example 127.0.0.1.nip.io
10.0.0.1.example.org my_host.example a-b.example 1.example xn--p1ai.example intranet 127.example
metadata.example.com metadata.google.internal.example.com a.b.c.d.e.example x--y.example
""".split()
GOOD = [*OWN, *NAMES, "localhost/?x=http://10.0.0.1/", "example.com/?url=http://169.254.169.254/",
        "example.com/@127.0.0.1", "example.com?@127.0.0.1", "example.com#@127.0.0.1"]  # fmt: skip


async def test_no_good_address_is_blocked(one_renderer: World) -> None:
    world = one_renderer
    world.clear(Simulated(own_origins=world.own_origins))
    failed = []
    async with world.context() as context:
        page = await context.new_page()
        for good in GOOD:
            host, mark, rest = good.partition("/")
            for cut in "?#":
                if cut in host:
                    host, mark, rest = good.partition(cut)
            own = host in OWN
            url = f"http://{host}:{world.own_port if own else world.canary_port}{mark}{rest}"
            if not own:
                world.names[target_of(url).host.name] = [STAND_IN]
            verdict = world.policy.check_url(url)
            outcome = await visit(page, url)
            if outcome != "good" or not verdict.allowed:
                failed.append((url, outcome, verdict))
    assert failed == []
    assert not [one for one in world.refused if "favicon" not in one.url]
    assert world.public.connections >= len(NAMES)
    assert world.canary.connections == 0


async def test_own_origins_go_direct_and_other_ports_do_not(world: World) -> None:
    """Own origins cost no detour; a policy that would refuse them is not even asked."""
    world.clear(Policy(allowed_hosts=()))
    async with world.context() as context:
        page = await context.new_page()
        for host in ("localhost", "127.0.0.1", "[::1]"):
            assert await visit(page, f"http://{host}:{world.own_port}/") == "good"
        assert not world.refused
        assert await visit(page, f"http://localhost:{world.canary_port}/") == "blocked: not_listed"


# Routes


async def take_every_route(world: World, context: BrowserContext, host: str) -> None:
    where = f"{host}:{world.canary_port}"

    def aimed(route: str, text: str) -> str:
        text = text.replace("TO", f"http://{where}/{route}").replace("HOST", where)
        return text.replace("WS", f"ws://{where}/{route}")

    async def lead(path: str) -> None:
        page = await context.new_page()
        with suppress(Error):  # it never arrives; what counts is what the servers saw
            await page.goto(world.app(path), wait_until="commit")

    async def act(*scripts: str) -> None:
        page = await context.new_page()
        await page.goto(world.app("/?body=<body>"))
        for script in scripts:
            with suppress(Error):  # the page may be gone before it can answer
                await page.evaluate(f"() => {{ {TOOLS} {script} }}")

    await asyncio.gather(
        *(lead(aimed(route, path)) for route, path in PATHS.items()),
        *(act(aimed(route, script)) for route, script in LEAVING.items()),
        act(*(aimed(route, script) for route, script in STAYING.items())),
    )


async def test_every_route_leads_to_the_canary_when_the_policy_is_open(world: World) -> None:
    """Without this, the tests below would prove nothing."""
    world.clear(open_to_all(world))
    async with world.context() as context:
        await take_every_route(world, context, "127.0.0.1")

        def missing() -> set[str]:
            seen = {path.strip("/") for path in world.canary.paths}
            return ROUTES - seen - ({"turn-tcp"} if "not HTTP" in seen else set())

        await until(lambda: not missing(), missing=missing)


@pytest.mark.parametrize(
    ("policy", "host"),
    [(closed, "127.0.0.1"), (closed, "[::1]"), (closed_in_development, "localhost")],
)
async def test_no_route_leads_to_the_canary(
    world: World, policy: Callable[[World], Policy], host: str
) -> None:
    world.clear(policy(world))
    async with world.context() as context:
        await take_every_route(world, context, host)

        def missing() -> set[str]:
            seen = {one.url.rpartition("/")[2] for one in world.refused}
            tunnels = [one for one in world.refused if one.method == "CONNECT"]
            return ROUTES - seen - (TUNNELLED if len(tunnels) >= len(TUNNELLED) else set())

        await until(lambda: not missing(), missing=missing)
    assert world.canary.connections == 0


# What does not go by HTTP at all


async def test_udp_and_names_stay_inside(tmp_path: Path) -> None:
    """STUN, ICE, WebTransport and DNS, by what the browser's own log says that it sent."""
    log = tmp_path / "net.json"
    async with open_world(extra=[f"--log-net-log={log}"]) as world:
        world.clear(closed(world))
        async with world.context() as context:
            page = await context.new_page()
            await page.goto(world.app())
            tried = await page.evaluate(UNPROXIED, [world.udp_port, "leak.example"])
            await visit(page, f"http://127.0.0.1:{world.canary_port}/")
        inside = {f"127.0.0.1:{world.proxy.port}"}
        inside |= {f"{host}:{world.own_port}" for host in ("127.0.0.1", "[::1]")}
        await world.browser.close()
        assert tried == "tried"
        assert (world.canary.datagrams, world.canary.connections) == (0, 0)
    told = json.loads(log.read_text())
    kinds = {number: name for name, number in told["constants"]["logEventTypes"].items()}
    events = [(kinds[one["type"]], one.get("params", {})) for one in told["events"]]
    connected = {
        params["address"]
        for kind, params in events
        if kind == "TCP_CONNECT_ATTEMPT" and "address" in params
    }
    assert f"127.0.0.1:{world.proxy.port}" in connected
    assert connected <= inside
    sent = [params for kind, params in events if kind in ("UDP_BYTES_SENT", "DNS_TRANSACTION")]
    assert sent == []


async def test_the_udp_canary_counts_without_the_flags() -> None:
    async with open_world(flags=False) as world:
        world.clear(closed(world))
        async with world.context() as context:
            page = await context.new_page()
            await page.goto(world.app())
            asking = asyncio.create_task(page.evaluate(UNPROXIED, [world.udp_port, "leak.invalid"]))
            await until(lambda: world.canary.datagrams, missing=lambda: "a datagram")
        with suppress(Error):
            await asking


async def test_the_browser_tells_nobody_of_the_forms_on_a_page(world: World) -> None:
    world.clear(closed(world))
    world.asked.clear()
    form = "<form><input name=name><input name=street><input name=city><input name=mail></form>"
    async with world.context() as context:
        page = await context.new_page()
        for _ in range(10):
            await page.goto(world.app(f"/?body={quote(form)}"))
            await page.fill("[name=name]", "Ada")
    assert world.asked == []


# Names that change their mind


async def test_a_name_that_turns_private_takes_its_page_nowhere(world: World) -> None:
    world.clear(Simulated(own_origins=world.own_origins))
    # Public for the page, then this machine for ever: what a rebinding attack answers.
    world.names["rebind.example"] = [STAND_IN, "127.0.0.1"]
    async with world.context() as context:
        page = await context.new_page()
        url = f"http://rebind.example:{world.canary_port}"
        assert await visit(page, f"{url}/page") == "good"
        assert world.public.paths == ["/page"]
        for action in (
            "fetch('/secret').then(answer => answer.status)",
            "new Promise(done => Object.assign(new Image(), {onerror: done, src: '/secret'}))",
            "new Promise(done => new WebSocket('/secret').onerror = done)",
            "fetch('/secret', {method: 'POST', body: 'x'}).then(answer => answer.status)",
        ):
            before = len(world.refused)
            assert await page.evaluate(f"() => {action}") in (403, {"isTrusted": True})
            assert len(world.refused) > before
        assert await visit(page, f"{url}/again") == "blocked: loopback"
    assert world.canary.connections == 0
    assert {one.rule for one in world.refused} == {"loopback"}
    found = world.proxy.find(f"{url}/secret")
    assert found is not None
    assert "127.0.0.1" in found.reason


async def test_a_request_of_the_driver_goes_through_the_proxy_as_well(world: World) -> None:
    """`route.fetch` and `context.request` are sent by Playwright's driver, not by the browser."""
    world.clear(closed(world))
    async with world.context() as context:
        for host in ("127.0.0.1", "localhost", "[::1]"):
            answer = await context.request.get(f"http://{host}:{world.canary_port}/")
            assert (answer.status, answer.headers["x-pilothouse-blocked"]) == (403, "loopback")
    assert world.canary.connections == 0
    assert len(world.refused) >= 3
