"""The failure dossier as one HTML file: no script, no address, safe to open and to pass on."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

CSS = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem }
h1 { font-size: 1.3rem; margin: 0 0 .3rem } h2 { font-size: 1rem; margin: 1.6rem 0 .4rem }
p { margin: .3rem 0 } img { max-width: 100%; border: 1px solid var(--line); border-radius: 6px }
pre { background: var(--soft); padding: .7rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; margin: 0 }
ol { padding-left: 1.4rem } .what { color: #c33; font-weight: 600 }
table { border-collapse: collapse; width: 100% } td { border-top: 1px solid var(--line);
  padding: .3rem .5rem; vertical-align: top; overflow-wrap: anywhere }
td:first-child { white-space: nowrap; opacity: .75; width: 1% }
.added { color: #283 } .removed { color: #c33 }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_FACTS = ("step", "url", "at", "selector", "timeout", "reason", "suggestion")


def dossier_page(title: str, facts: dict[str, Any], picture: bytes = b"") -> str:
    """`facts` are masked; everything in them is shown as text."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="what">{escape(str(facts.get("message", "")))}</p>',
        _table([(name, facts[name]) for name in _FACTS if facts.get(name)]),
        _section("Likely causes", _list(facts.get("causes"))),
        _section("Page", _picture(picture)),
        _section("Error overlay", _text(facts.get("overlay"))),
        _section("What changed since the last good step", _diff(facts.get("snapshotDiff"))),
        _section("Console", _rows(facts.get("console"), "level", "text", "at")),
        _section("Requests", _rows(facts.get("requests"), "request", "sent", "body")),
        _section("Server log", _text((facts.get("serverLogs") or {}).get("stderr"))),
        _section("Timeline", _text("\n".join(facts.get("timeline") or ()))),
        _section("Snapshot", _text(facts.get("snapshot"))),
        _section("Not available", _list(facts.get("missing"))),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>"
        f"{''.join(parts)}</body></html>"
    )


def _section(name: str, content: str) -> str:
    return f"<h2>{name}</h2>{content}" if content else ""


def _text(value: Any) -> str:
    return f"<pre>{escape(str(value))}</pre>" if value else ""


def _list(values: Any) -> str:
    items = "".join(f"<li>{escape(str(value))}</li>" for value in values or ())
    return f"<ol>{items}</ol>" if items else ""


def _table(rows: list[tuple[str, Any]]) -> str:
    cells = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in rows
    )
    return f"<table>{cells}</table>" if cells else ""


def _rows(entries: Any, head: str, *rest: str) -> str:
    return _table(
        [
            (str(entry.get(head, "")), " · ".join(_plain(entry.get(name)) for name in rest))
            for entry in entries or ()
        ]
    )


def _plain(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _diff(lines: Any) -> str:
    shown = "\n".join(
        f'<span class="{"added" if line.startswith("+") else "removed"}">{escape(line)}</span>'
        for line in lines or ()
    )
    return f"<pre>{shown}</pre>" if shown else ""


def _picture(png: bytes) -> str:
    if not png:
        return ""
    data = base64.b64encode(png).decode()
    return f'<img alt="The page at the moment of the failure" src="data:image/png;base64,{data}">'
