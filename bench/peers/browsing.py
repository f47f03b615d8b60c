"""How the peers are driven over a browser that they did not start themselves.

Each opens a page, lists the console lines that it has kept, and tells the body of a request, in
the words of its own tools. Their answers are prose, so numbers are picked out of text.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from bench.peers import DEVTOOLS, PLAYWRIGHT, Workshop
from bench.wire import Json, StdioServer, WireError


class BrowsingPeer(Protocol):
    """What the observer's rows ask of a peer."""

    def open(self, url: str) -> None:
        """Open a new tab and stay with it."""

    def navigate(self, url: str) -> None:
        """Take that tab elsewhere."""

    def last_line(self) -> str:
        """The end of the list of console lines."""

    def kept_lines(self) -> int:
        """How many lines that list has."""

    def listed_requests(self, part_of_url: str) -> list[int]:
        """The numbers of the requests that are listed, also those of the page before."""

    def body(self, request: int) -> str:
        """The answer to a request, or whatever is told in its place."""


class DevTools:
    """chrome-devtools-mcp."""

    def __init__(self, server: StdioServer) -> None:
        self._server = server
        self._page = 0
        self._kept = 1

    def open(self, url: str) -> None:
        pages = self._ask("new_page", url=url)
        self._page = int(_found(r"(\d+): .*\[selected\]", pages))
        self._kept = 1

    def navigate(self, url: str) -> None:
        self._ask("navigate_page", pageId=self._page, url=url)

    def last_line(self) -> str:
        # The cheapest look at the end: a page of one, as far back as the last look told.
        at = max(0, self._kept - 1)
        lines = self._ask("list_console_messages", pageId=self._page, pageSize=1, pageIdx=at)
        self._kept = int(_found(r" of (\d+) \(Page", lines, "0"))
        return lines

    def kept_lines(self) -> int:
        return self._kept

    def listed_requests(self, part_of_url: str) -> list[int]:
        listed = self._ask(
            "list_network_requests",
            pageId=self._page,
            resourceTypes=["fetch"],
            includePreservedRequests=True,
        )
        return [int(number) for number in re.findall(rf"reqid=(\d+) .*{part_of_url}", listed)]

    def body(self, request: int) -> str:
        told = self._ask("get_network_request", pageId=self._page, reqid=request)
        return told.partition("### Response Body\n")[2]

    def _ask(self, tool: str, **arguments: object) -> str:
        return _text(self._server.call_tool(tool, arguments))


class Playwright:
    """@playwright/mcp."""

    def __init__(self, server: StdioServer) -> None:
        self._server = server
        self._lines = ""

    def open(self, url: str) -> None:
        self._ask("browser_tabs", action="new", url=url)

    def navigate(self, url: str) -> None:
        self._ask("browser_navigate", url=url)

    def last_line(self) -> str:
        # It has no page of the list: all of it comes every time.
        self._lines = self._ask("browser_console_messages")
        return self._lines

    def kept_lines(self) -> int:
        return self._lines.count("[LOG] ")

    def listed_requests(self, part_of_url: str) -> list[int]:
        listed = self._ask("browser_network_requests", filter=part_of_url)
        return [int(number) for number in re.findall(r"^(\d+)\. \[", listed, re.MULTILINE)]

    def body(self, request: int) -> str:
        return self._ask("browser_network_request", index=request, part="response-body")

    def _ask(self, tool: str, **arguments: object) -> str:
        return _text(self._server.call_tool(tool, arguments))


_PEERS: dict[str, tuple[Callable[[StdioServer], BrowsingPeer], str]] = {
    DEVTOOLS: (DevTools, "--browserUrl"),
    PLAYWRIGHT: (Playwright, "--cdp-endpoint"),
}


@contextmanager
def on_browser(workshop: Workshop, contender: str, port: int) -> Iterator[BrowsingPeer]:
    """A peer on the browser with that debugging port; it listens to every tab of it."""
    kind, flag = _PEERS[contender]
    with workshop.start(contender, flag, f"http://127.0.0.1:{port}") as server:
        server.handshake()
        yield kind(server)


def _text(result: Json) -> str:
    return "\n".join(str(part.get("text", "")) for part in result["content"])


def _found(pattern: str, text: str, otherwise: str | None = None) -> str:
    found = re.search(pattern, text)
    if found is not None:
        return found[1]
    if otherwise is None:
        raise WireError(f"no {pattern!r} in the peer's answer: {text[:200]!r}")
    return otherwise
