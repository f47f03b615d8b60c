"""Links asked for over real sockets: what is said of them, and how politely."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import anyio
import pytest

from pilothouse.bookmarks.link_check.check import Checked, LinkCheck, Manners
from pilothouse.core.net.url_policy import Policy
from tests.integration.bookmarks.web import Web, answer, web
from tests.support.upstreams import authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

GUARD_S = 60
OPEN = Policy(development=True)
QUICK = Manners(pause_s=0.0, request_s=20.0, total_s=50.0)


@pytest.fixture
async def site() -> AsyncIterator[Web]:
    async with web({"/": answer(200)}) as made:
        yield made


async def checked(*urls: str, policy: Policy = OPEN, manners: Manners = QUICK) -> list[Checked]:
    told: list[tuple[int, int]] = []

    async def tell(done: int, total: int) -> None:
        told.append((done, total))

    with anyio.fail_after(GUARD_S):
        done = await LinkCheck(lambda: policy, manners).run(urls, tell)
    assert told == [(number, len(set(urls))) for number in range(1, len(set(urls)) + 1)]
    return [done[url] for url in urls]


# What is said of a link


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "ok"),
        (204, "ok"),
        (401, "refused"),
        (403, "refused"),
        (404, "broken"),
        (410, "broken"),
        (429, "refused"),
        (500, "broken"),
        (503, "refused"),
    ],
)
async def test_a_status_says_whether_the_page_is_there(site: Web, status: int, kind: str) -> None:
    site.pages["/"] = answer(status)
    assert await checked(site.url()) == [Checked(kind, status)]  # type: ignore[arg-type]


async def test_a_server_that_knows_no_head_is_asked_with_get(site: Web) -> None:
    site.pages = {"HEAD /a": answer(405), "GET /a": answer(200)}
    assert await checked(site.url("/a?b=c#d")) == [Checked("broken", 404)]
    site.asked.clear()
    assert await checked(site.url("/a")) == [Checked("ok", 200)]
    assert site.asked == [("HEAD", "/a"), ("GET", "/a")]


async def test_a_server_that_hangs_up_at_head_is_asked_with_get(site: Web) -> None:
    site.pages = {"HEAD /a": b"HTTP/1.1", "GET /a": answer(200)}
    assert await checked(site.url("/a")) == [Checked("ok", 200)]
    site.pages = {"/a": b"HTTP/1.1"}
    (one,) = await checked(site.url("/a"))
    assert one == Checked("unreachable", None, "it closed the connection without an answer")


async def test_a_page_that_moved_for_good_is_told_with_its_new_address(site: Web) -> None:
    site.pages |= {"/old": answer(301, "/older"), "/older": answer(308, site.url("/"))}
    (one,) = await checked(site.url("/old"))
    assert one == Checked("moved", 200, leads_to=site.url("/"))


async def test_a_page_that_moved_for_now_is_ok(site: Web) -> None:
    site.pages["/now"] = answer(302, "/")
    assert await checked(site.url("/now")) == [Checked("ok", 200)]


async def test_a_redirect_to_nowhere_is_told_with_where_it_led(site: Web) -> None:
    site.pages["/old"] = answer(301, "/gone")
    (one,) = await checked(site.url("/old"))
    assert one == Checked("broken", 404, leads_to=site.url("/gone"))


async def test_a_circle_of_redirects_ends(site: Web) -> None:
    site.pages |= {"/a": answer(302, "/b"), "/b": answer(302, "/a")}
    (one,) = await checked(site.url("/a"))
    assert (one.kind, one.reason) == ("unreachable", "more than 10 redirects")


async def test_no_server_no_name_and_no_http_are_unreachable() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        closed = held.getsockname()[1]
        (refused,) = await checked(f"http://127.0.0.1:{closed}/")
    assert (refused.kind, refused.reason) == ("unreachable", "Connection refused")
    async with web({"/": b"\x00\x01no http\r\n\r\n"}) as odd:
        (other,) = await checked(odd.url())
    assert (other.kind, other.reason) == ("unreachable", "it did not answer in HTTP")
    async with web({"/": b"HTTP/1.1 200"}) as cut:
        (half,) = await checked(cut.url())
    assert half.kind == "unreachable"
    # No resolver asks anybody for a name that is too long.
    (nameless,) = await checked(f"http://{'x' * 64}.example/")
    assert (nameless.kind, "no address" in nameless.reason) == ("unreachable", True)


async def test_a_server_that_never_answers_is_given_up(site: Web) -> None:
    site.slow_s = GUARD_S
    manners = Manners(pause_s=0, request_s=0.3)
    (one,) = await checked(site.url(), manners=manners)
    assert one == Checked("unreachable", reason="no answer within 0.3 s")


async def test_a_head_without_an_end_is_given_up(site: Web) -> None:
    site.pages["/"] = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000
    (one,) = await checked(site.url())
    assert one.kind == "unreachable"


async def test_what_is_no_address_of_the_web_is_skipped() -> None:
    urls = ("chrome://settings", "file:///etc/passwd", "mailto:a@b.example", "ws://localhost/", "x")
    assert await checked(*urls) == [Checked("skipped")] * len(urls)


async def test_certificates_are_verified(tmp_path: Path) -> None:
    signs = authority(tmp_path)
    async with web({"/": answer(200)}, signs.context()) as safe:
        (one,) = await checked(safe.url())
        assert (one.kind, "certificate" in one.reason) == ("unreachable", True)
        trusting = ssl.create_default_context(cafile=str(signs.ca_file))
        check = LinkCheck(lambda: OPEN, QUICK, trusting)
        done = await check.run([safe.url()], _silent)
    assert done[safe.url()] == Checked("ok", 200)


async def _silent(done: int, total: int) -> None:
    pass


# Where nobody is asked


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://0x7f.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://metadata.google.internal/",
    ],
)
async def test_private_addresses_are_blocked_in_every_spelling(site: Web, url: str) -> None:
    (one,) = await checked(url.format(port=site.port), policy=Policy())
    assert one.kind == "blocked"
    assert one.reason
    assert site.asked == []


async def test_a_redirect_does_not_lead_past_the_policy(site: Web) -> None:
    async with web({"/": answer(200)}) as inner:
        site.pages["/"] = answer(302, inner.url())
        guarded = Policy(development=True, blocked_ports=frozenset({inner.port}))
        (one,) = await checked(site.url(), policy=guarded)
        assert inner.asked == []
    assert one.kind == "blocked"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "javascript:1", "http://[", "ftp://x/"])
async def test_a_redirect_out_of_the_web_is_not_followed(site: Web, location: str) -> None:
    site.pages["/"] = answer(302, location)
    (one,) = await checked(site.url())
    assert one.kind in ("blocked", "unreachable")


async def test_neither_credentials_nor_cookies_nor_fragments_are_sent(site: Web) -> None:
    url = site.url("/?q=%E6%9C%AC&é=1#secret").replace("//", "//user:geheim@", 1)
    assert (await checked(url))[0].status == 404
    head = site.heads[0]
    assert head.startswith("HEAD /?q=%E6%9C%AC&%C3%A9=1 HTTP/1.1\r\n")
    assert f"Host: localhost:{site.port}\r\n" in head
    assert not any(word in head.lower() for word in ("geheim", "authorization", "cookie", "secret"))


async def test_no_newline_of_a_link_gets_into_the_request(site: Web) -> None:
    await checked(site.url("/a\r\nX-Evil: 1\r\n\r\nGET /b HTTP/1.1"))
    assert not any("X-Evil: 1\r\n" in head for head in site.heads)
    assert {path for _, path in site.asked} == {"/aX-Evil:%201GET%20/b%20HTTP/1.1"}


# Manners


async def test_a_host_is_asked_by_one_at_a_time_with_a_pause(site: Web) -> None:
    site.slow_s = 0.02
    for number in range(6):
        site.pages[f"/{number}"] = answer(200)
    manners = Manners(pause_s=0.1)
    await checked(*(site.url(f"/{number}") for number in range(6)), manners=manners)
    assert site.most_at_once == 1
    pauses = [after - before for before, after in zip(site.times, site.times[1:], strict=False)]
    assert min(pauses) >= 0.1


async def test_other_hosts_do_not_wait_for_a_slow_one(site: Web) -> None:
    async with web({"/": answer(200)}) as other:
        site.slow_s = GUARD_S
        check = LinkCheck(lambda: OPEN, Manners(pause_s=0.0, request_s=GUARD_S, total_s=GUARD_S))
        urls = [site.url(), other.url(host="127.0.0.1")]
        first = asyncio.Event()

        async def tell(done: int, total: int) -> None:
            first.set()

        running = asyncio.ensure_future(check.run(urls, tell))
        with anyio.fail_after(GUARD_S / 2):
            await first.wait()
        assert list(check.done) == urls[1:]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_when_the_time_is_over_the_rest_is_left(site: Web) -> None:
    site.pages |= {f"/{number}": answer(200) for number in range(50)}
    check = LinkCheck(lambda: OPEN, Manners(pause_s=0.2, total_s=1.0))
    with anyio.fail_after(GUARD_S):
        done = await check.run([site.url(f"/{number}") for number in range(50)], _silent)
    assert 0 < len(done) < 50
    assert all(one.kind == "ok" for one in done.values())


async def test_one_address_is_asked_once(site: Web) -> None:
    await checked(site.url(), site.url(), site.url())
    assert site.asked == [("HEAD", "/")]
