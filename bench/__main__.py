"""The command `python -m bench [ROW …]`: measure, print, and keep the results of a whole run."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from bench import suite
from bench.machine import contender_versions, machine_facts
from bench.measure import FEWEST_PAIRS, measure
from bench.peers import PeerUnavailable, Workshop, open_workshop
from bench.plot import draw
from bench.report import as_json, markdown_section, replace_section, terminal_table
from bench.row import Outcome, Row
from bench.rows import ROWS
from bench.wire import WireError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 says that a bound was missed or a row could not be measured."""
    options = _parse(arguments)
    console = Console(highlight=False, soft_wrap=True)
    if options.list:
        for row in ROWS:
            console.print(f"[bold]{row.name:24}[/]{escape(row.title)}")
        return 0
    if options.rows == [suite.NAME]:
        return suite.measure_suite()
    chosen = [row for row in ROWS if not options.rows or row.name in options.rows]

    machine = machine_facts()
    outcomes: list[Outcome] = []
    failed: list[str] = []
    with open_workshop() as workshop:
        for row in chosen:
            try:
                outcome = _measure_showing(row, workshop, options.pairs, console)
            # The last two are what the browser's own helpers raise.
            except (PeerUnavailable, WireError, TimeoutError, RuntimeError) as error:
                failed.append(row.name)
                console.print(f"[bold]{row.name}[/]  [red]not measured[/]: {escape(str(error))}\n")
                continue
            outcomes.append(outcome)
            console.print(terminal_table(outcome))

    _keep(outcomes, machine, options.json, console)
    missed = [outcome.row.name for outcome in outcomes if outcome.within_bound is False]
    if missed:
        console.print(f"[bold red]bound missed[/]: {', '.join(missed)}")
    if failed:
        console.print(f"[bold red]not measured[/]: {', '.join(failed)}")
    return 1 if missed or failed else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure Pilothouse side by side with its peers."
    )
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        help="rows to measure (default: all; only a run of all updates the kept results)",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=FEWEST_PAIRS,
        metavar="N",
        help=f"alternating pairs per row, at least {FEWEST_PAIRS} (default: %(default)s)",
    )
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results here too")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.rows) - {row.name for row in ROWS} - {suite.NAME}):
        parser.error(f"no such row: {', '.join(unknown)} (--list shows them)")
    if options.pairs < FEWEST_PAIRS:
        parser.error(f"--pairs must be at least {FEWEST_PAIRS}, not {options.pairs}")
    return options


def _measure_showing(row: Row, workshop: Workshop, pairs: int, console: Console) -> Outcome:
    with console.status(f"{row.name}: warming up") as status:
        return measure(
            row,
            workshop,
            pairs=pairs,
            progress=lambda done, of: status.update(f"{row.name}: {done} of {of} rounds"),
        )


def _keep(
    outcomes: Sequence[Outcome],
    machine: Mapping[str, str | int],
    extra: Path | None,
    console: Console,
) -> None:
    """Write the results.

    Only a run in which every row was measured replaces the tracked ones: numbers of different
    runs must not stand side by side.
    """
    if not outcomes:
        return
    versions = contender_versions()
    date = datetime.now(UTC).date().isoformat()
    result = as_json(outcomes, machine, versions, date)
    text = json.dumps(result, indent=2, ensure_ascii=False) + "\n"
    if extra is not None:
        extra.write_text(text)
        console.print(f"results in {escape(str(extra))}")
    if len(outcomes) < len(ROWS):
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(text)
    (RESULTS / "latest.svg").write_text(draw(outcomes))
    section = markdown_section(outcomes, machine, versions, date)
    PAGE.write_text(replace_section(PAGE.read_text(), section))
    console.print(
        "results in bench/results/latest.json, bench/results/latest.svg, docs/benchmarks.md"
    )


if __name__ == "__main__":
    sys.exit(main())
