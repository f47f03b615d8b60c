"""The report: the whole story as one HTML file, without scripts or outside addresses."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from pilothouse import __version__
from scripts.demo.telling import Call, Chapter, Exhibit, Lines, Moment, Moments, Picture, Quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scripts.demo.telling import Teller

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
FOLDED_FROM = 30
"""Exhibits of so many lines are folded."""
WHAT = {
    "report.html": "this page",
    "dossier.html": "the failed step with all its evidence",
    "traffic.har": "the API's traffic, for any tool that reads HAR",
    "test_shop.py": "the steps as a test, which fails at the fault",
    "conftest.py": "which browser the test uses",
    "pytest.ini": "keeps the settings of a project around it away from the test",
    "bookmarks.json": "the profile's bookmarks, as Chrome kept them",
    "shop.png": "the shop",
    "failure.png": "the page when the step failed",
    "bookmark.png": "the bookmark in Chrome",
    "dashboard.png": "the session in the dashboard",
}

CSS = """
:root { color-scheme: light dark; --page: #f4f6f8; --card: #fff; --ink: #18212b; --soft: #5a6875;
  --line: #d8dfe6; --code: #f4f6f8; --accent: #0b6e5f; --on-accent: #fff; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --page: #0f151b; --card: #18212b; --ink: #e6ebf0;
  --soft: #9aa8b5; --line: #2d3946; --code: #111920; --accent: #4fc3ad; --on-accent: #0f151b;
  --bad: #ff8a80 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.6 system-ui, "Segoe UI", Roboto, sans-serif }
header { background: var(--card); border-bottom: 1px solid var(--line);
  border-top: 4px solid var(--accent); padding: 2rem 0 1.6rem }
header > div, main, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem }
header p { margin: 0; color: var(--soft); max-width: 46rem }
dl { display: flex; flex-wrap: wrap; gap: .4rem 2.2rem; margin: 1.2rem 0 0 }
dl div { display: grid } dd { margin: 0; font-weight: 600 }
dt { color: var(--soft); font-size: 13px }
ol.story { list-style: none; margin: 0; padding: 1.5rem 0 0 }
ol.story > li { position: relative; padding: 0 0 1.6rem 3.2rem }
ol.story > li::before { content: ""; position: absolute; left: 1.02rem; top: .4rem; bottom: -.4rem;
  width: 2px; background: var(--line) }
ol.story > li:last-child::before { display: none }
.number { position: absolute; left: 0; top: 0; width: 2.1rem; height: 2.1rem; border-radius: 50%;
  background: var(--accent); color: var(--on-accent); font-weight: 600; display: grid;
  place-items: center }
h2 { font-size: 1.12rem; line-height: 1.4; margin: .25rem 0 .5rem }
h3 { font-size: 13px; color: var(--soft); font-weight: 600; margin: 0 0 .35rem }
p { margin: .35rem 0; overflow-wrap: anywhere }
pre, code { font: 12.5px/1.55 ui-monospace, "SF Mono", Menlo, Consolas, monospace }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; margin: 0;
  padding: .65rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere }
section, .calls { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: .8rem 1rem; margin: .7rem 0 }
.calls { list-style: none; padding: .5rem 1rem }
.calls li { display: flex; justify-content: space-between; gap: 1rem; padding: .12rem 0 }
.calls code { overflow-wrap: anywhere } .calls b { color: var(--accent); font-weight: 600 }
.calls span { color: var(--soft); white-space: nowrap; font-size: 13px }
.calls .bad { color: var(--bad) }
ul.lines { margin: 0; padding-left: 1.1rem; list-style: disc }
ul.lines li { padding: .1rem 0; overflow-wrap: anywhere }
ul.lines li::marker { color: var(--soft) } .bad { color: var(--bad); font-weight: 600 }
img { display: block; width: 100%; border: 1px solid var(--line); border-radius: 8px }
summary { cursor: pointer; font-size: 13px; color: var(--soft); font-weight: 600 }
details pre, details ul { margin-top: .5rem }
table { border-collapse: collapse } td { padding: .15rem 1.5rem .15rem 0; vertical-align: top }
.left td + td { color: var(--soft) } a { color: var(--accent) }
.moments { width: 100% } .moments td { font-size: 13px; overflow-wrap: anywhere }
.moments td:first-child { text-align: right; color: var(--soft);
  font-variant-numeric: tabular-nums }
.moments td:not(:last-child) { white-space: nowrap; padding-right: .9rem }
.moments i { font-style: normal; background: var(--code); border-radius: 5px; padding: 0 .45rem;
  color: var(--soft) } .moments small { display: block; color: var(--soft); font-weight: 400 }
.moments td:last-child { width: 100%; padding-right: 0 }
footer { color: var(--soft); font-size: 13px; padding-bottom: 2.5rem }
@media (max-width: 40rem) { ol.story > li { padding-left: 0; padding-top: 2.6rem }
  ol.story > li::before { display: none } }
@media print { body { background: none } section { break-inside: avoid } }
"""


def report(teller: Teller, files: Sequence[str], dashboard: str, folder: Path) -> str:
    """Everything that came from the shop is shown as text."""
    calls = [call for chapter in teller.chapters for call in chapter.calls]
    facts = {
        "Took": f"{teller.elapsed_s:.0f} s",
        "Tool calls": str(len(calls)),
        "Dashboard": dashboard,
        "Pilothouse": __version__,
    }
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    story = "".join(_chapter(number, one) for number, one in enumerate(teller.chapters, 1))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The receipt that never came</title><style>{CSS}</style></head><body>"
        "<header><div><h1>The receipt that never came</h1><p>An agent orders a sextant in a small"
        " shop. No receipt comes. With one MCP server it finds out why, proves it, and writes it"
        f" down.</p><dl>{shown}</dl></div></header><main><ol class='story'>{story}"
        f"{_left(len(teller.chapters) + 1, files, folder)}</ol></main>"
        "<footer>Written by <code>make demo</code>. What the shop, its log and the page said is"
        " quoted as it was.</footer></body></html>"
    )


def _chapter(number: int, chapter: Chapter) -> str:
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in chapter.sentences)
    calls = "".join(map(_call, chapter.calls))
    listed = f"<ul class='calls' aria-label='Tool calls'>{calls}</ul>" if calls else ""
    exhibits = "".join(map(_exhibit, chapter.exhibits))
    return _item(number, chapter.title, said + listed + exhibits)


def _left(number: int, files: Sequence[str], folder: Path) -> str:
    there = [name for name in files if name == files[0] or (folder / name).is_file()]
    rows = "".join(
        f"<tr><td><a href='{name}'>{name}</a></td><td>{escape(WHAT.get(name, ''))}</td></tr>"
        for name in there
    )
    return _item(number, "What is left", f"<section><table class='left'>{rows}</table></section>")


def _item(number: int, title: str, content: str) -> str:
    mark = f"<span class='number' aria-hidden='true'>{number}</span>"
    return f"<li>{mark}<h2>{escape(title)}</h2>{content}</li>"


def _call(call: Call) -> str:
    rest = escape(call.text.removeprefix(call.tool))
    outcome = "failed" if call.is_error else f"{call.took_s * 1000:,.0f} ms"
    kind = " class='bad'" if call.is_error else ""
    return f"<li><code><b>{call.tool}</b>{rest}</code><span{kind}>{outcome}</span></li>"


def _exhibit(exhibit: Exhibit) -> str:
    match exhibit:
        case Quote(title, text):
            return _framed(title, f"<pre>{escape(text)}</pre>", len(text.splitlines()))
        case Lines(title, lines, bad):
            items = "".join(
                f"<li{' class=bad' if at in bad else ''}>{escape(line)}</li>"
                for at, line in enumerate(lines)
            )
            return _framed(title, f"<ul class='lines'>{items}</ul>", len(lines)) if lines else ""
        case Moments(title, rows):
            table = f"<table class='moments'>{''.join(map(_moment, rows))}</table>"
            return _framed(title, table, len(rows))
        case Picture(title, path):
            data = base64.b64encode(path.read_bytes()).decode()
            return _framed(
                title, f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">', 1
            )


def _moment(row: Moment) -> str:
    kind = " class='bad'" if row.is_bad else ""
    why = f"<small>{escape(row.why)}</small>" if row.why else ""
    return (
        f"<tr><td>{escape(row.when)}</td><td><i>{escape(row.lane)}</i></td>"
        f"<td{kind}>{escape(row.text)}{why}</td></tr>"
    )


def _framed(title: str, content: str, lines: int) -> str:
    if lines >= FOLDED_FROM:
        return (
            f"<section><details><summary>{escape(title)}, {lines} lines</summary>"
            f"{content}</details></section>"
        )
    return f"<section><h3>{escape(title)}</h3>{content}</section>"
