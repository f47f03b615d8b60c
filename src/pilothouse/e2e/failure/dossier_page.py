"""The failure dossier as one HTML file: no script, no address, safe to open and to pass on.

It is read from top to bottom: what failed, why most likely, what the page looked like, and then
the evidence in the order in which it usually helps. What is long and seldom needed is folded.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

CSS = """
:root { color-scheme: light dark; --page: #f4f6f8; --card: #fff; --ink: #18212b; --soft: #5a6875;
  --line: #d8dfe6; --code: #f4f6f8; --accent: #0b6e5f; --bad: #b3261e; --bad-soft: #fdecea;
  --good: #1a7f37; --good-soft: #e6f4ea; --warn: #8a5a00; --warn-soft: #fdf3d8 }
@media (prefers-color-scheme: dark) { :root { --page: #0f151b; --card: #18212b; --ink: #e6ebf0;
  --soft: #9aa8b5; --line: #2d3946; --code: #111920; --accent: #4fc3ad; --bad: #ff8a80;
  --bad-soft: #3a1d1d; --good: #7ee2a0; --good-soft: #15301f; --warn: #f2c265;
  --warn-soft: #33290f } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, "Segoe UI", Roboto, sans-serif }
main, footer { max-width: 66rem; margin: 0 auto; padding: 0 1.25rem }
header { background: var(--card); border-bottom: 1px solid var(--line);
  border-top: 4px solid var(--bad); padding: 1.6rem 0 1.3rem; margin-bottom: 1.25rem }
header > div { max-width: 66rem; margin: 0 auto; padding: 0 1.25rem }
h1 { font-size: 1.45rem; line-height: 1.3; margin: .5rem 0 .25rem; overflow-wrap: anywhere }
h2 { font-size: .95rem; margin: 0 0 .7rem; color: var(--soft); font-weight: 600 }
p { margin: .3rem 0; overflow-wrap: anywhere }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.2rem 1.1rem; margin-bottom: 1rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .8rem 0 0 }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
pre, code, td { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  font-size: 13px }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; margin: 0;
  padding: .7rem .85rem; white-space: pre-wrap; overflow-wrap: anywhere }
ol { margin: 0; padding-left: 1.4rem } li { padding: .15rem 0; overflow-wrap: anywhere }
ol.causes li:first-child { font-weight: 600 } li::marker { color: var(--soft) }
article + article { border-top: 1px solid var(--line); margin-top: .9rem; padding-top: .9rem }
article p { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13px }
article small { color: var(--soft); display: block; margin: .5rem 0 .2rem }
.tag { display: inline-block; border-radius: 5px; padding: 0 .5rem; margin-right: .5rem;
  font: 600 12px/1.75 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  background: var(--code); color: var(--soft) } .tag:empty { display: none }
.bad { color: var(--bad) } .good { color: var(--good) } .warn { color: var(--warn) }
.tag.bad, span.removed { background: var(--bad-soft); color: var(--bad) }
.tag.good, span.added { background: var(--good-soft); color: var(--good) }
.tag.warn { background: var(--warn-soft); color: var(--warn) }
.soft { color: var(--soft) } .hint { color: var(--accent) }
pre span { display: block }
img { display: block; max-width: 100%; border: 1px solid var(--line); border-radius: 8px }
table { border-collapse: collapse; width: 100% }
td { padding: .12rem 0; vertical-align: top; overflow-wrap: anywhere }
td:first-child { white-space: nowrap; color: var(--soft); text-align: right;
  padding-right: 1rem; width: 1% }
summary { cursor: pointer; color: var(--soft); font-weight: 600; font-size: .95rem }
details pre { margin-top: .7rem }
footer { color: var(--soft); font-size: 13px; padding-bottom: 2rem }
@media print { body { background: none } section, article { break-inside: avoid } }
"""

_LABELS = {
    "step": "Step",
    "url": "Address",
    "at": "Time",
    "selector": "Selector",
    "timeout": "Timeout",
    "reason": "Reason",
}
_OUTCOME = re.compile(r"→ (\d{3}\b|\w.*)")
_MOMENT = re.compile(r"([+-]?\d+(?:\.\d+)? m?s) (.*)", re.DOTALL)
_TROUBLE = re.compile(
    r"(?i)\w*(error|exception)\b|\b(traceback|fatal|panic|unhandled|failed)\b|^[45]\d\d "
)
_LEVELS = {"error": "bad", "assert": "bad", "warn": "warn", "warning": "warn"}


def dossier_page(title: str, facts: dict[str, Any], picture: bytes = b"") -> str:
    """Return the page. `facts` are masked; everything in them is shown as text."""
    logs = facts.get("serverLogs") or {}
    sections = (
        _section("Likely causes", _list(facts.get("causes"), "causes")),
        _section("Page", _picture(picture)),
        _section("Error overlay", _text(facts.get("overlay"))),
        _section("The element", _pairs(facts.get("element"))),
        _section("Elements that match", _list(facts.get("candidates"))),
        _section("What changed since the last good step", _diff(facts.get("snapshotDiff"))),
        _section("Console", _articles(map(_console, facts.get("console") or ()))),
        _section("Requests", _articles(map(_request, facts.get("requests") or ()))),
        _section("Server", _pairs(facts.get("server"))),
        _section("Server log", _text(logs.get("stderr"))),
        _section("Server output", _text(logs.get("stdout"))),
        _section("Timeline", _timeline(facts.get("timeline"))),
        _folded("Snapshot", _text(facts.get("snapshot"))),
        _section("Not available", _list(facts.get("missing"))),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{CSS}</style></head><body>"
        f"{_header(title, facts)}<main>{''.join(sections)}</main>"
        "<footer>Written by Pilothouse. Secrets are masked; what a page, a console or a server"
        " said is quoted as it was.</footer></body></html>"
    )


def _header(title: str, facts: dict[str, Any]) -> str:
    kind = str(facts.get("type") or "")
    tag = f'<span class="tag bad">{_safe(kind)}</span>' if kind else ""
    hint = facts.get("suggestion")
    told = {label: facts[name] for name, label in _LABELS.items() if facts.get(name)}
    if "Timeout" in told:
        told["Timeout"] = f"{told['Timeout']} ms"
    # The tag above says it already.
    heading = title.removesuffix(f": {kind}")
    return (
        f"<header><div>{tag}<h1>{_safe(heading)}</h1><p>{_safe(facts.get('message', ''))}</p>"
        + (f'<p class="hint">{_safe(hint)}</p>' if hint else "")
        + f"{_pairs(told)}</div></header>"
    )


def _safe(value: Any) -> str:
    """Return text for HTML; what would be invisible, or turn the text round, is spelled out."""
    text = str(value)
    if not text.isascii() or not text.isprintable():
        text = "".join(c if _is_plain(c) else f"\\u{ord(c):04x}" for c in text)
    return escape(text)


def _is_plain(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in (
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    )


def _section(name: str, content: str) -> str:
    return f"<section><h2>{name}</h2>{content}</section>" if content else ""


def _folded(name: str, content: str) -> str:
    return (
        f"<section><details><summary>{name}</summary>{content}</details></section>"
        if content
        else ""
    )


def _text(value: Any) -> str:
    return f"<pre>{_safe(value)}</pre>" if value else ""


def _list(values: Any, kind: str = "") -> str:
    items = "".join(f"<li>{_safe(value)}</li>" for value in values or ())
    return f'<ol class="{kind}">{items}</ol>' if items else ""


def _pairs(values: Any) -> str:
    shown = {name: value for name, value in (values or {}).items() if value not in (None, "")}
    rows = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(_word(shown[name]))}</dd>" for name in shown)
    return f"<dl>{rows}</dl>" if rows else ""


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _articles(contents: Iterable[str]) -> str:
    return "".join(f"<article>{content}</article>" for content in contents)


def _console(entry: dict[str, Any]) -> str:
    level = str(entry.get("level") or "log")
    places = "".join(f'<p class="soft">{_safe(place)}</p>' for place in entry.get("at") or ())
    tag = f'<span class="tag {_LEVELS.get(level, "")}">{_safe(level)}</span>'
    return f"<p>{tag}{_safe(entry.get('text', ''))}</p>{places}"


def _request(entry: dict[str, Any]) -> str:
    line = str(entry.get("request", ""))
    found = _OUTCOME.search(line)
    outcome = found[1] if found else ""
    if found:
        line = line[: found.start()].rstrip() + line[found.end() :]
    kind = "good" if outcome[:1] in ("1", "2", "3") else "warn" if outcome == "pending" else "bad"
    # The tag is always there, so that no text of a page has a say in what the tags are.
    parts = [f'<p><span class="tag {kind}">{_safe(outcome)}</span>{_safe(line)}</p>']
    for name, label in (("sent", "Sent"), ("body", "Answered")):
        if entry.get(name):
            parts.append(f"<small>{label}</small>{_text(entry[name])}")
    return "".join(parts)


def _timeline(lines: Any) -> str:
    rows = []
    for line in lines or ():
        found = _MOMENT.fullmatch(str(line))
        when, what = (found[1], found[2]) if found else ("", str(line))
        mark = ' class="bad"' if _TROUBLE.search(what) else ""
        rows.append(f"<tr><td>{_safe(when)}</td><td{mark}>{_safe(what)}</td></tr>")
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _diff(lines: Any) -> str:
    kinds = {"+": "added", "-": "removed"}
    shown = "".join(
        f'<span class="{kinds.get(str(line)[:1], "soft")}">{_safe(line)}</span>'
        for line in lines or ()
    )
    return f"<pre>{shown}</pre>" if shown else ""


def _picture(png: bytes) -> str:
    if not png:
        return ""
    data = base64.b64encode(png).decode()
    return (
        f'<img alt="The page at the moment of the failure" src="data:image/png;base64,{data}">'
        '<p class="soft">The picture shows what the page showed: nothing in it is masked.</p>'
    )
