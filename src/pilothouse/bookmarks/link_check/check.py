"""Which bookmarks lead nowhere: many links asked politely, within a time.

One request at a time goes to a host, with a pause after it; a few hosts are asked side by side.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pilothouse.bookmarks.link_check.fetch import Fetcher, LinkAnswer, LinkUnanswered
from pilothouse.core.net.url_policy import UrlError, target_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from pilothouse.core.net.url_policy import Policy

type Kind = Literal["ok", "moved", "broken", "refused", "unreachable", "blocked", "skipped"]

MEANINGS: dict[Kind, str] = {
    "ok": "it answers",
    "moved": "moved for good: update the bookmark",
    "broken": "the page is gone, or the server fails",
    "refused": "the server does not let a program in: look at it in the browser",
    "unreachable": "no server answers",
    "blocked": "the URL policy forbids to ask there",
    "skipped": "not an address of the web",
}
_LOGIN_OR_LIMIT = frozenset({401, 402, 403, 405, 406, 407, 423, 425, 429, 451, 501, 503, 999})


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """The limits that keep requests polite."""

    hosts_at_once: int = 8
    pause_s: float = 0.5
    """Seconds after each request before the next to the same host."""
    request_s: float = 10.0
    total_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for one link."""

    kind: Kind
    status: int | None = None
    reason: str = ""
    leads_to: str = ""


def judge(answer: LinkAnswer) -> Checked:
    """Judge a bookmark by an answer."""
    if answer.status >= 400:
        kind: Kind = "refused" if answer.status in _LOGIN_OR_LIMIT else "broken"
        return Checked(kind, answer.status, leads_to=answer.url if answer.hops else "")
    if answer.moved_for_good:
        return Checked("moved", answer.status, leads_to=answer.url)
    return Checked("ok", answer.status)


@dataclass(slots=True)
class LinkCheck:
    """One check of many links."""

    policy: Callable[[], Policy]
    manners: Manners = field(default_factory=Manners)
    context: ssl.SSLContext | None = None
    """Context for TLS; the usual authorities by default."""
    done: dict[str, Checked] = field(default_factory=dict)
    """Results by URL; what is not in it was not reached in time."""
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict)
    _rested: dict[str, float] = field(default_factory=dict)
    """Time from which a host may be asked again."""

    async def run(
        self, urls: Iterable[str], tell: Callable[[int, int], Awaitable[None]]
    ) -> dict[str, Checked]:
        """Check each URL once, until time is up; call `tell` with how many are done, of how many.

        Hosts are taken in turn, and each by one worker, so that a slow one keeps no other waiting.
        """
        hosts: dict[str, list[str]] = {}
        for url in dict.fromkeys(urls):
            hosts.setdefault(_host(url), []).append(url)
        total = sum(map(len, hosts.values()))
        waiting = list(reversed(hosts.values()))

        async def work() -> None:
            while waiting:
                for url in waiting.pop():
                    self.done[url] = await self._check(url)
                    await tell(len(self.done), total)

        try:
            async with asyncio.timeout(self.manners.total_s), asyncio.TaskGroup() as workers:
                for _ in range(min(self.manners.hosts_at_once, len(waiting))):
                    workers.create_task(work())
        except TimeoutError:
            pass  # the rest is reported as not reached
        return self.done

    async def _check(self, url: str) -> Checked:
        if not _host(url):
            return Checked("skipped")
        fetcher = Fetcher(self.policy, self._turn, self.manners.request_s, self.context)
        try:
            return judge(await fetcher.ask(url))
        except LinkUnanswered as problem:
            return Checked("blocked" if problem.is_blocked else "unreachable", None, str(problem))

    @asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[None]:
        now = asyncio.get_running_loop().time
        async with self._turns.setdefault(host, asyncio.Lock()):
            await asyncio.sleep(self._rested.get(host, 0.0) - now())
            try:
                yield
            finally:
                self._rested[host] = now() + self.manners.pause_s


def _host(url: str) -> str:
    """Return the host of a link; empty for what is no address of the web."""
    try:
        target = target_of(url)
    except UrlError:
        return ""
    return str(target.host) if target.scheme in ("http", "https") else ""
