"""Draws the outcomes as one SVG: a group of horizontal bars per row. Pure: outcomes in, text out.

Rows have different units, so each group has its own scale: its longest bar fills the width.
"""

from collections.abc import Sequence
from html import escape

from bench.report import format_bound, format_value
from bench.row import Outcome

WIDTH = 820
LABEL_WIDTH = 190
BAR_SPACE = 550
BAR_HEIGHT = 16
LINE_HEIGHT = 22
TITLE_HEIGHT = 30
GROUP_GAP = 16

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 }
  .note { fill: #6e7781 }
  .subject { fill: #1f6feb }
  .peer { fill: #afb8c1 }
  .bound { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 4 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #8d96a0 }
    .subject { fill: #58a6ff }
    .peer { fill: #484f58 }
    .bound { stroke: #ff7b72 }
  }
"""


def draw(outcomes: Sequence[Outcome]) -> str:
    body: list[str] = []
    top = 0
    for outcome in outcomes:
        body += _group(outcome, top)
        top += TITLE_HEIGHT + LINE_HEIGHT * len(outcome.row.contenders) + GROUP_GAP
    summary = "Medians of Pilothouse and its peers, one group of bars per benchmark row"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">',
            f"<title>{summary}</title>",
            f"<style>{STYLE}</style>",
            *body,
            "</svg>\n",
        )
    )


def _group(outcome: Outcome, top: int) -> list[str]:
    row = outcome.row
    medians = {name: outcome.summary(name).median for name in row.contenders}
    bound = outcome.bound_value
    longest = max(*medians.values(), bound or 0.0)
    scale = BAR_SPACE / longest if longest > 0 else 0.0
    note = f"{row.unit}, {row.better} is better; {format_bound(row)}"
    parts = [
        f'<text class="title" x="0" y="{top + 18}">{escape(row.title)}'
        f'<tspan class="note" font-weight="400" dx="8">{escape(note)}</tspan></text>'
    ]
    for index, (name, value) in enumerate(medians.items()):
        y = top + TITLE_HEIGHT + index * LINE_HEIGHT
        kind = "subject" if name == row.subject else "peer"
        # A bar too short to see would read as "not measured".
        length = max(1.0, value * scale)
        baseline = y + BAR_HEIGHT - 3
        parts += [
            f'<text x="{LABEL_WIDTH - 10}" y="{baseline}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LABEL_WIDTH}" y="{y}" rx="2" '
            f'width="{length:.1f}" height="{BAR_HEIGHT}"/>',
            # In a column of their own, where neither a bar nor the bound runs through them.
            f'<text x="{WIDTH}" y="{baseline}" text-anchor="end">{format_value(value)}</text>',
        ]
    if bound is not None:
        x = LABEL_WIDTH + bound * scale
        bottom = top + TITLE_HEIGHT + LINE_HEIGHT * len(medians) - 4
        parts.append(
            f'<line class="bound" x1="{x:.1f}" x2="{x:.1f}" '
            f'y1="{top + TITLE_HEIGHT - 3}" y2="{bottom}"/>'
        )
    return parts
