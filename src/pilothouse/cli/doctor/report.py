"""What the doctor found, and how it is shown: as JSON, as plain lines, in colour on a terminal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

type State = Literal["ok", "note", "warn", "block"]

_LOOK: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", "cyan"),
    "warn": ("!", "yellow"),
    "block": ("✗", "bold red"),
}
_CHECK_WIDTH = 11
_FIX_INDENT = " " * (2 + _CHECK_WIDTH)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the doctor looked at."""

    check: str
    state: State
    """`block`: Pilothouse cannot work; `warn`: a part of it cannot; `note`: good to know."""
    said: str
    fix: str = ""
    """The command that mends it, to be pasted into a shell."""


def exit_code(findings: Sequence[Finding]) -> int:
    return 1 if any(finding.state == "block" for finding in findings) else 0


def as_json(findings: Sequence[Finding]) -> str:
    return json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False)


def summary(findings: Sequence[Finding]) -> str:
    """Return the last line: whether it works, and what is left to do."""
    blocks = sum(finding.state == "block" for finding in findings)
    warnings = sum(finding.state == "warn" for finding in findings)
    if not blocks and not warnings:
        return "Everything that Pilothouse needs is there."
    parts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((blocks, "blocking problem"), (warnings, "warning"))
        if count
    ]
    end = "Pilothouse cannot work like this." if blocks else "Pilothouse works."
    return f"{' and '.join(parts)}; {end}"


def plain_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        symbol, _ = _LOOK[finding.state]
        yield f"{symbol} {finding.check:{_CHECK_WIDTH}}{finding.said}"
        if finding.fix:
            yield f"{_FIX_INDENT}$ {finding.fix}"
    yield ""
    yield summary(findings)


def show(findings: Sequence[Finding], out: TextIO) -> None:
    """Write the findings for a person, in colour only where a terminal shows it."""
    if out.isatty():
        _show_on_terminal(findings, out)
        return
    # A pipe may be ASCII (LANG=C): a symbol that it cannot carry must not end the doctor.
    encoding = out.encoding or "utf-8"
    text = "".join(f"{line}\n" for line in plain_lines(findings))
    out.write(text.encode(encoding, errors="replace").decode(encoding))


def _show_on_terminal(findings: Sequence[Finding], out: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    # soft_wrap: a fix is pasted into a shell, so no line break may be put into it.
    console = Console(file=out, highlight=False, soft_wrap=True)
    for finding in findings:
        symbol, style = _LOOK[finding.state]
        console.print(
            Text.assemble(
                (f"{symbol} ", style),
                (f"{finding.check:{_CHECK_WIDTH}}", "bold"),
                finding.said,
            )
        )
        if finding.fix:
            console.print(Text.assemble((f"{_FIX_INDENT}$ ", "dim"), (finding.fix, "cyan")))
    worst: State = "block" if exit_code(findings) else "ok"
    console.print(Text(f"\n{summary(findings)}", style=_LOOK[worst][1]))
