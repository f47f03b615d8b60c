"""Rules for a session's requests: which one a request falls under, and what is done to it."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin, urlsplit

from pilothouse.core.net.url_policy import UrlError, origin_of, target_of
from pilothouse.core.regex import compile_pattern
from pilothouse.e2e.browser.playwright import error_name
from pilothouse.e2e.egress_proxy.app_addresses import judged_addresses
from pilothouse.e2e.model import UrlNotAllowed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pilothouse.core.net.url_policy import Policy
    from pilothouse.e2e.browser.playwright import BrowserContext

EVERYTHING = "**/*"
BLOCKED_HEADER = "x-pilothouse-blocked"
FETCH_MS = 30_000
MOST_HOPS = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# They describe the body as it was sent, which a body that is given anew no longer is.
_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_GLOB = re.compile(r"(\*\*/?)|(\*)|\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class MockReply:
    """An answer that no server gave."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to the server's own answer."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    replace: tuple[tuple[str, str], ...] = ()
    json_set: Mapping[str, Any] = field(default_factory=dict)
    """Dotted path → value; `items.0.price` reaches into a list."""


@dataclass(slots=True, eq=False)
class RouteRule:
    """One rule: for which requests, and what becomes of them. Without an action they go on."""

    id: str
    url: str = ""
    """A glob if it has a `*`, else a part of the URL; empty is any."""
    method: str = ""
    reply: MockReply | None = None
    block: str = ""
    """Name of the network error."""
    edit: Edit | None = None
    har: HarAnswers | None = None
    delay_ms: int = 0
    fail_nth: int = 0
    """Number of the only matching request that it acts on, counted from 1; 0 is any."""
    times: int = 0
    """Most requests that it acts on; 0 is without a limit."""
    seen: int = 0
    hits: int = 0
    _pattern: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compile the pattern of the URL. Raises BadPattern."""
        self._pattern = compile_pattern(url_pattern(self.url))

    def matches(self, method: str, url: str) -> bool:
        if self.method and self.method.upper() != method.upper():
            return False
        if self.har is not None and not self.har.has(method, url):
            return False
        return self._pattern.search(url) is not None

    def is_due(self) -> bool:
        """Tell whether the request that was just counted is one that it acts on."""
        if self.fail_nth and self.seen != self.fail_nth:
            return False
        return not self.times or self.hits < self.times


def url_pattern(text: str) -> str:
    """Return the regular expression of a glob or of a part of a URL.

    `*` stands for anything but a slash, `**` for anything, `{a,b}` for either; a glob is of the
    whole URL, or of its end where it begins in the middle, as `/api/*` does.
    """
    if "*" not in text:
        return re.escape(text)
    parts, done = [], 0
    for found in _GLOB.finditer(text):
        parts.append(re.escape(text[done : found.start()]))
        if found[1]:
            # "a/**/b" is also "a/b".
            parts.append("(?:.*/)?" if found[1] == "**/" else ".*")
        elif found[2]:
            parts.append("[^/]*")
        else:
            parts.append(f"(?:{'|'.join(map(re.escape, found[3].split(',')))})")
        done = found.end()
    parts.append(re.escape(text[done:]))
    starts = "^" if re.match(r"\*|[a-z]+://", text) else ""
    return f"{starts}{''.join(parts)}$"


def choose(rules: Sequence[RouteRule], method: str, url: str) -> RouteRule | None:
    """Return the newest rule that acts on this request; rules count what they match and act on."""
    for rule in reversed(rules):
        if rule.matches(method, url):
            rule.seen += 1
            if rule.is_due():
                rule.hits += 1
                return rule
    return None


def edited(body: bytes, edit: Edit) -> bytes:
    """Return a body as edited. Raises ValueError if it is no JSON, or has no place for a value."""
    for old, new in edit.replace:
        body = body.replace(old.encode(), new.encode())
    if edit.json_set:
        value = json.loads(body)
        for path, wanted in edit.json_set.items():
            value = _with(value, path.split("."), wanted, path)
        body = json.dumps(value, ensure_ascii=False).encode()
    return body


def _with(value: Any, keys: list[str], wanted: Any, path: str) -> Any:
    """Return the value with one place set; objects on the way to it are made."""
    if not keys:
        return wanted
    key, *rest = keys
    if isinstance(value, list):
        if not (key.isdecimal() and int(key) <= len(value)):
            raise ValueError(f"jsonSet {path}: a list of {len(value)} has no place {key}")
        place = int(key)
        inner = value[place] if place < len(value) else {}
        return [*value[:place], _with(inner, rest, wanted, path), *value[place + 1 :]]
    if not isinstance(value, dict):
        raise ValueError(f"jsonSet {path}: there is no object to set {key} in")
    return {**value, key: _with(value.get(key, {}), rest, wanted, path)}


def content_type_of(body: str) -> str:
    """Guess the content type of a body for which none was given."""
    is_json = body.lstrip().startswith(("{", "["))
    return "application/json" if is_json else "text/plain;charset=utf-8"


def without_wire_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_WIRE}


class HarAnswers:
    """The answers of a HAR file. Asked again, it gives the next one; the last one stays."""

    def __init__(self, text: bytes) -> None:
        """Read a HAR file. Raises ValueError: it is none."""
        self._replies: dict[tuple[str, str], list[MockReply]] = {}
        try:
            for entry in json.loads(text)["log"]["entries"]:
                asked, url = entry["request"], urldefrag(entry["request"]["url"]).url
                reply = _reply(entry["response"])
                for place in {url, _local_path(url)} - {""}:
                    self._replies.setdefault((asked["method"].upper(), place), []).append(reply)
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"an entry lacks {error}") from None

    def __len__(self) -> int:
        return sum(len(replies) for (_, url), replies in self._replies.items() if url[0] != "/")

    def has(self, method: str, url: str) -> bool:
        return bool(self._found(method, url))

    def next(self, method: str, url: str) -> MockReply:
        replies = self._found(method, url)
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def _found(self, method: str, url: str) -> list[MockReply]:
        url = urldefrag(url).url
        exact = self._replies.get((method.upper(), url))
        return exact or self._replies.get((method.upper(), _local_path(url)), [])


def _local_path(url: str) -> str:
    """Return path and query of a URL of this machine, whose dev server changes its port."""
    try:
        if not target_of(url).host.is_localhost:
            return ""
    except UrlError:
        return ""
    parts = urlsplit(url)
    return f"{parts.path or '/'}?{parts.query}"


def _reply(response: dict[str, Any]) -> MockReply:
    content = response.get("content", {})
    text = content.get("text", "")
    headers: dict[str, str] = {}
    for header in response.get("headers", ()):
        name = str(header["name"]).lower()
        headers[name] = (
            f"{headers[name]}\n{header['value']}" if name in headers else header["value"]
        )
    if content.get("mimeType"):
        headers.setdefault("content-type", content["mimeType"])
    body = base64.b64decode(text) if content.get("encoding") == "base64" else text.encode()
    return MockReply(int(response["status"]), body, without_wire_headers(headers))


class BrowserRoutes:
    """The rules of one session, at work in its browser as long as there are any."""

    def __init__(
        self,
        context: BrowserContext,
        policy: Callable[[], Policy],
        note: Callable[[str, str], None],
        is_ours: Callable[[Any], bool],
    ) -> None:
        self.rules: list[RouteRule] = []
        self._context = context
        self._policy = policy
        self._note = note
        self._is_ours = is_ours
        """Test of whether a page belongs to the session: a joined browser has others."""
        self._last_id = 0

    def next_id(self) -> str:
        self._last_id += 1
        return f"r{self._last_id}"

    async def add(self, rule: RouteRule) -> None:
        self.rules.append(rule)
        if len(self.rules) == 1:
            await self._context.route(EVERYTHING, self._handle)

    async def remove(self, rule_id: str | None) -> list[RouteRule]:
        """Remove one rule, or all of them; return those that were there."""
        gone = [rule for rule in self.rules if rule_id in (None, rule.id)]
        self.rules = [rule for rule in self.rules if rule not in gone]
        if gone and not self.rules:
            # A request that no rule can want any more need not wait for our word.
            await self._context.unroute(EVERYTHING, self._handle)
        return gone

    async def _handle(self, route: Any) -> None:
        """Decide on a request that waits for our word; `route` is Playwright's."""
        request = route.request
        rule = None
        if self._is_ours(request):
            rule = choose(self.rules, request.method, request.url)
        try:
            if rule is None:
                await route.fallback()
                return
            if rule.delay_ms:
                await asyncio.sleep(rule.delay_ms / 1000)
            await self._apply(rule, route)
        except Exception as error:
            if not error_name(error):
                raise
            # The page has gone on without the answer, or the browser is closing.

    async def _apply(self, rule: RouteRule, route: Any) -> None:
        if rule.har is not None:
            await _give(route, rule.har.next(route.request.method, route.request.url))
        elif rule.reply is not None:
            await _give(route, rule.reply)
        elif rule.block or rule.fail_nth:
            await route.abort(rule.block or "failed")
        elif rule.edit is not None:
            await self._edit(rule, rule.edit, route)
        else:
            await route.fallback()

    async def _edit(self, rule: RouteRule, edit: Edit, route: Any) -> None:
        try:
            response = await self._fetch(route)
        except UrlNotAllowed as refusal:
            self._note("refused", refusal.message)
            await route.abort("blockedbyclient")
            return
        except Exception as error:
            if not error_name(error):
                raise
            self._note(f"route {rule.id}", str(error).split("\n", 1)[0])
            await route.abort("failed")
            return
        if response.status in REDIRECTS:
            # To another origin the browser goes itself, under its own rules for that.
            await route.fulfill(response=response)
            return
        body = await response.body()
        try:
            body = edited(body, edit)
        except ValueError as error:
            self._note(f"route {rule.id}", f"{route.request.url} is left as it was: {error}")
        headers = {**without_wire_headers(response.headers), **_lower(edit.headers)}
        await route.fulfill(status=edit.status or response.status, headers=headers, body=body)

    async def _fetch(self, route: Any) -> Any:
        """Fetch the server's own answer, after redirects within its origin.

        Playwright's driver asks for it, not the browser. It uses the context's proxy as well, but
        a joined browser has none, and so each address is judged here too.

        Raises:
            UrlNotAllowed: the session's browser may not go there.
        """
        url = route.request.url
        is_plain = route.request.method in ("GET", "HEAD")
        for _ in range(MOST_HOPS):
            await judged_addresses(url, self._policy())
            response = await route.fetch(url=url, max_redirects=0, timeout=FETCH_MS)
            if blocked := response.headers.get(BLOCKED_HEADER):
                raise UrlNotAllowed(f"{url} is blocked ({blocked})", url=url, rule=blocked)
            target = urljoin(url, response.headers.get("location", ""))
            if response.status not in REDIRECTS or not (is_plain and _same_origin(url, target)):
                break
            url = target
        return response


async def _give(route: Any, reply: MockReply) -> None:
    if reply.status < 100:
        await route.abort("failed")  # so a HAR file says that there was no answer
    else:
        await route.fulfill(status=reply.status, headers=dict(reply.headers), body=reply.body)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _same_origin(one: str, other: str) -> bool:
    try:
        return origin_of(one) == origin_of(other)
    except UrlError:
        return False
