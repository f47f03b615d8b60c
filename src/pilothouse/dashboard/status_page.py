"""The status page: what runs here and how to connect a client. Pure: facts in, HTML out."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from pilothouse import __version__
from pilothouse.core.snippets import snippets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pilothouse.core.declare.listing import Listing


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session that the hub knows, and its worker if it has one."""

    name: str
    client: str
    """Name that the client gives itself."""
    seen_s: float
    """Seconds since its last request."""
    pid: int = 0
    state: str = ""
    """State of the worker, empty without one."""
    memory: int = 0
    """Bytes of the worker, with its browsers."""
    up_s: float = 0.0


@dataclass(frozen=True, slots=True)
class HubFacts:
    """Facts that a hub has and a single process has not."""

    rows: Sequence[SessionRow]
    """Sessions that were used last."""
    workers: int
    memory: int
    """Bytes of all workers."""
    queued: int
    services: Mapping[str, str] = field(default_factory=dict)
    """Services that all workers share: where each answers, or why it is off."""


def status_page(
    listings: Collection[Listing],
    summaries: Mapping[str, str],
    *,
    sessions: int,
    uptime_sec: float,
    url: str,
    hub: HubFacts | None = None,
) -> str:
    """Return the page's HTML as things stand now; `CSS` is served beside it.

    Args:
        listings: The tools that are served.
        summaries: The purpose of each of their groups.
        sessions: Number of those that are open.
        uptime_sec: Seconds for which it has run.
        url: Address by which it was requested.
        hub: Facts of the hub, if each session has a process of its own.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for tool in listings:
        groups.setdefault(tool.group, []).append((tool.name, tool.summary))
    tools = "".join(_group(name, summaries.get(name, ""), rows) for name, rows in groups.items())
    clients = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(line)}</code></dd>"
        for name, line in snippets(url).items()
    )
    return _PAGE.format(
        icon=ICON,
        version=escape(__version__),
        url=escape(url),
        uptime=_span(int(uptime_sec)),
        sessions=sessions,
        workers="" if hub is None else _fact(str(hub.workers), "workers, " + _size(hub.memory)),
        count=len(listings),
        clients=clients,
        table="" if hub is None else _sessions(hub, sessions) + _services(hub.services),
        tools=tools,
    )


def _fact(value: str, name: str) -> str:
    return f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>"


def _sessions(hub: HubFacts, sessions: int) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in _COLUMNS)
    rows = "".join(map(_session, hub.rows))
    more = sessions - len(hub.rows)
    notes = [f"{more} more, used less lately."] if more > 0 else []
    notes += [f"{hub.queued} calls wait for a worker."] if hub.queued else []
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    said = " ".join(notes) or ("" if rows else "None yet: a session begins when a client connects.")
    return f"<h2>Sessions</h2><section class=wide>{body}<p>{escape(said)}</p></section>"


def _services(services: Mapping[str, str]) -> str:
    if not services:
        return ""
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th><td>{escape(state)}</td></tr>"
        for name, state in services.items()
    )
    return f"<h2>Shared services</h2><section><table>{rows}</table></section>"


_COLUMNS = ("Session", "Client", "Last request", "Worker", "State", "Memory", "Up")


def _session(row: SessionRow) -> str:
    seen = f"{_span(int(row.seen_s))} ago"
    worker = (
        (str(row.pid), row.state, _size(row.memory) if row.memory else "", _span(int(row.up_s)))
        if row.pid
        else ()
    )
    cells = (row.client, seen, *(worker or ("none", "", "", "")))
    shown = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f"<tr><th scope=row><code>{escape(row.name)}</code></th>{shown}</tr>"


def _size(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MB"


def _group(name: str, summary: str, rows: list[tuple[str, str]]) -> str:
    listed = "".join(
        f"<tr><th scope=row><code>{escape(tool)}</code></th><td>{escape(text)}</td></tr>"
        for tool, text in rows
    )
    return (
        f"<section><h3>{escape(name)}</h3><p>{escape(summary)}</p><table>{listed}</table></section>"
    )


def _span(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )


# A ship's wheel.
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E"
    "%3Cg fill='none' stroke='%230b8a77' stroke-width='2.5' stroke-linecap='round'%3E"
    "%3Ccircle cx='16' cy='16' r='9'/%3E%3Ccircle cx='16' cy='16' r='2.5'/%3E"
    "%3Cpath d='M16 2v28M2 16h28M6.1 6.1l19.8 19.8M25.9 6.1L6.1 25.9'/%3E%3C/g%3E%3C/svg%3E"
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="10">
<title>Pilothouse</title>
<link rel="icon" href="{icon}">
<link rel="stylesheet" href="/style.css">
</head>
<body>
<header>
<h1>Pilothouse</h1>
<p>One MCP server from which an AI agent runs, drives, watches and intercepts a web app.</p>
</header>
<main>
<ul class="facts">
<li><b>running</b><span>up {uptime}</span></li>
<li><b>{sessions}</b><span>sessions</span></li>
{workers}
<li><b>{count}</b><span>tools</span></li>
<li><b>{version}</b><span>version</span></li>
</ul>
<h2>Connect a client</h2>
<p>MCP is served at <code>{url}/mcp</code>. Paste one line:</p>
<dl>{clients}</dl>
{table}
<h2>Tools</h2>
{tools}
</main>
<footer><a href="/health">health</a> <a href="/metrics">metrics</a></footer>
</body>
</html>
"""

CSS = """:root {
  --ground: #f6f7f9; --card: #ffffff; --ink: #18212b; --quiet: #5a6875; --line: #dde2e8;
  --accent: #0b6e5f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10161d; --card: #18212b; --ink: #e6ebf0; --quiet: #9aa8b5; --line: #2a3642;
    --accent: #4fc3ad;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.25rem 4rem; background: var(--ground);
  color: var(--ink); font: 16px/1.55 system-ui, sans-serif;
}
h1 { margin: 0; font-size: 1.9rem; letter-spacing: -0.02em; }
header p { margin: 0.25rem 0 0; color: var(--quiet); }
h2 { margin: 2.25rem 0 0.5rem; font-size: 1.15rem; }
h3 { margin: 0; font-size: 1rem; color: var(--accent); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.75rem;
  margin: 1.75rem 0 0; padding: 0; list-style: none; }
.facts li, section, dl { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; padding: 0.9rem 1.1rem; }
.facts b { display: block; font-size: 1.25rem; }
.facts span, section p { color: var(--quiet); }
section { margin-bottom: 0.75rem; }
section p { margin: 0 0 0.5rem; }
.wide { overflow-x: auto; }
.wide p { margin: 0.5rem 0 0; }
.wide p:empty { display: none; }
.wide td { white-space: nowrap; }
thead th { border-top: 0; color: var(--quiet); font-size: 0.86em; }
dl { margin: 0; }
dt { font-weight: 600; }
dd { margin: 0 0 0.75rem; overflow-x: auto; }
dd:last-child { margin-bottom: 0; }
code { font: 0.86em/1.5 ui-monospace, monospace; white-space: pre; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: 0.35rem 0.75rem 0.35rem 0; text-align: left; vertical-align: top;
  border-top: 1px solid var(--line); font-weight: 400; }
footer { margin-top: 2rem; color: var(--quiet); }
a { color: var(--accent); }
a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""
