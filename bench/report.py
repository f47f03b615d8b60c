"""The outcomes as a table for the terminal, as Markdown, and as JSON. Pure: nothing is written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from bench.row import Outcome, Row
from bench.stats import Ratio

BEGIN_MARK = "<!-- bench:begin -->"
END_MARK = "<!-- bench:end -->"


def format_value(value: float) -> str:
    """Three to four digits are all that such a measurement carries."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def format_ratio(ratio: float) -> str:
    return f"{ratio:.2f}×" if math.isfinite(ratio) else "∞"


def format_spread(ratio: Ratio) -> str:
    low, high = (format_ratio(end).removesuffix("×") for end in (ratio.low, ratio.high))
    return f"{low}–{high}"


def format_bound(row: Row) -> str:
    if row.bound is None:
        return "no bound"
    sign = "≤" if row.better == "lower" else "≥"
    if row.bound.of is not None:
        plus = f" + {row.bound.plus:g} {row.unit}" if row.bound.plus else ""
        return f"{sign} {row.bound.limit:g}× {row.bound.of}{plus}"
    limit = format_value(row.bound.limit)
    # A single exact reading is neither a median nor a p95.
    return f"{sign} {limit} {row.unit}" + ("" if row.exact else f" ({row.absolute})")


def format_verdict(outcome: Outcome) -> str:
    return {True: "✓", False: "✗", None: ""}[outcome.within_bound]


def terminal_table(outcome: Outcome) -> Table:
    row = outcome.row
    table = Table(
        title=Text.assemble((row.name, "bold"), f"  {row.title}"),
        title_justify="left",
        title_style="",
        caption=_caption(outcome),
        caption_justify="left",
        caption_style="",
        box=None,
        header_style="dim",
    )
    table.add_column("", width=22)
    table.add_column("median", justify="right", width=9)
    table.add_column("p95", justify="right", width=9)
    table.add_column("", width=20)
    table.add_column(f"{row.subject} ÷ it", justify="right", width=15)
    table.add_column("spread", justify="right", width=12)
    for name, median, p95, ratio, spread in _lines(outcome):
        style = "bold" if name == row.subject else ""
        table.add_row(name, median, p95, _unit(outcome, name), ratio, spread, style=style)
    return table


def markdown_section(
    outcomes: Sequence[Outcome],
    machine: Mapping[str, str | int],
    versions: Mapping[str, str],
    date: str,
) -> str:
    """What stands between the marks of docs/benchmarks.md."""
    measured = "; ".join(f"{name} {version}" for name, version in versions.items())
    parts = [
        f"Measured on {date} on {machine['cpus']} × {machine['cpu']}, {machine['system']}, "
        f"Python {machine['python']}, Node {machine['node']}, {machine['browser']}, "
        f"load before the run {machine['load_1min']}. Versions: {measured}.",
        "",
        "| row | contender | median | p95 | pilothouse ÷ it | spread | bound |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for outcome in outcomes:
        row = outcome.row
        for name, median, p95, ratio, spread in _lines(outcome):
            first = name == row.subject
            label = f"`{row.name}`" if first else ""
            shown = f"**{name}**" if first else name
            bound = f"{format_bound(row)} {format_verdict(outcome)}".strip() if first else ""
            cells = (label, shown, f"{median} {_unit(outcome, name)}", p95, ratio, spread, bound)
            parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts)


def replace_section(page: str, section: str) -> str:
    """The page with what stands between its marks exchanged."""
    before, begin, rest = page.partition(BEGIN_MARK)
    _, end, after = rest.partition(END_MARK)
    if not begin or not end:
        raise ValueError(f"the page lacks the marks {BEGIN_MARK} and {END_MARK}")
    return f"{before}{begin}\n{section}\n{end}{after}"


def as_json(
    outcomes: Sequence[Outcome],
    machine: Mapping[str, str | int],
    versions: Mapping[str, str],
    date: str,
) -> dict[str, Any]:
    return {
        "date": date,
        "machine": dict(machine),
        "versions": dict(versions),
        "rows": [_outcome_json(outcome) for outcome in outcomes],
    }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    row = outcome.row
    return {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "better": row.better,
        "subject": row.subject,
        "bound": None if row.bound is None else asdict(row.bound),
        "within_bound": outcome.within_bound,
        "contenders": {
            name: _rounded(asdict(outcome.summary(name)))
            | {"samples": [_round(sample) for sample in outcome.samples[name]]}
            | ({"note": outcome.notes[name]} if name in outcome.notes else {})
            for name in row.contenders
        },
        "ratios": {peer: _rounded(asdict(outcome.ratio(peer))) for peer in row.peers},
    }


def _lines(outcome: Outcome) -> list[tuple[str, str, str, str, str]]:
    """Name, median, p95, ratio and spread of each contender, as shown."""
    lines = []
    for name in outcome.row.contenders:
        summary = outcome.summary(name)
        p95 = "" if outcome.row.exact else format_value(summary.p95)
        if name == outcome.row.subject:
            ratio = spread = ""
        else:
            against = outcome.ratio(name)
            ratio = format_ratio(against.median)
            spread = "" if outcome.row.exact else format_spread(against)
        lines.append((name, format_value(summary.median), p95, ratio, spread))
    return lines


def _unit(outcome: Outcome, contender: str) -> str:
    note = outcome.notes.get(contender)
    return f"{outcome.row.unit}, {note}" if note else outcome.row.unit


def _caption(outcome: Outcome) -> Text:
    style = {True: "green", False: "bold red", None: "dim"}[outcome.within_bound]
    return Text(f"{format_bound(outcome.row)} {format_verdict(outcome)}\n", style=style)


def _round(value: float) -> float | None:
    """JSON has no infinity, which is the ratio to a peer that counts nothing."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rounded(values: Mapping[str, float]) -> dict[str, Any]:
    return {name: _round(value) for name, value in values.items()}
