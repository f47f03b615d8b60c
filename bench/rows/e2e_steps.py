"""Steps in a page: what Pilothouse adds to Playwright's own call, with its digest of effects."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Any

from bench.driving import Driver, driver, site
from bench.peers import PILOTHOUSE, PLAYWRIGHT, RAW_PLAYWRIGHT, Workshop
from bench.row import Bound, Row, Samplers
from bench.stats import median

STEPS = 15
SLOWEST = 4
"""Steps a sample of the peer that rests half a second after each."""

LONGEST_PAUSE_S = 0.05
_chance = random.Random(1)

type Arguments = Callable[[str], dict[str, Any]]


def sample(contender: Driver, do: str, arguments: Arguments, url: str, steps: int) -> float:
    """Milliseconds of a step, the median of a few.

    A browser draws sixty times a second, and many steps end with a frame. Steps that follow one
    another at once begin with a frame too; those of an agent, who thinks, begin at any time.
    """
    took = []
    for _ in range(steps):
        time.sleep(_chance.uniform(0, LONGEST_PAUSE_S))
        took.append(contender.take(do, **arguments(url)))
    return median(took)


@contextmanager
def run(do: str, arguments: Arguments, workshop: Workshop) -> Iterator[Samplers]:
    with site() as url, ExitStack() as stack:
        samplers = {}
        for name in (PILOTHOUSE, RAW_PLAYWRIGHT, PLAYWRIGHT):
            contender = stack.enter_context(driver(workshop, name, url))
            contender.take("navigate", url=f"{url}/act")
            steps = SLOWEST if name == PLAYWRIGHT else STEPS
            samplers[name] = partial(sample, contender, do, arguments, url, steps)
        yield samplers


def step_row(do: str, title: str, arguments: Arguments) -> Row:
    opened: Callable[[Workshop], AbstractContextManager[Samplers]] = partial(run, do, arguments)
    return Row(
        name=f"e2e-{do}",
        title=title,
        subject=PILOTHOUSE,
        peers=(RAW_PLAYWRIGHT, PLAYWRIGHT),
        unit="ms",
        better="lower",
        bound=Bound(1.25, of=RAW_PLAYWRIGHT, plus=3),
        run=opened,
    )


_texts = count()

CLICK = step_row("click", "Click a button, through MCP on stdio", lambda _: {"selector": "#count"})
TYPE = step_row(
    "type",
    "Type into a field, through MCP on stdio",
    lambda _: {"selector": "#name", "text": f"text {next(_texts)}"},
)
EVALUATE = step_row(
    "evaluate", "Evaluate an expression, through MCP on stdio", lambda _: {"script": "1 + 1"}
)
NAVIGATE = step_row(
    "navigate", "Navigate to a page, through MCP on stdio", lambda url: {"url": f"{url}/act"}
)
SCREENSHOT = step_row("screenshot", "Take a screenshot, through MCP on stdio", lambda _: {})
