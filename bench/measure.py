"""Takes the samples of a row: a warm-up round, then rounds in alternating order."""

from collections.abc import Callable

from bench.peers import Workshop
from bench.row import Noted, Outcome, Row

FEWEST_PAIRS = 7


def measure(
    row: Row, workshop: Workshop, *, pairs: int, progress: Callable[[int, int], None]
) -> Outcome:
    """Sample every contender once a round, so that any two of them form a pair in each round.

    Every other round runs backwards: whoever goes second may find warmer caches or a busier
    machine, and that must not always be the same one.
    """
    rounds = 1 if row.exact else pairs
    samples: dict[str, list[float]] = {name: [] for name in row.contenders}
    notes: dict[str, str] = {}
    with row.run(workshop) as samplers:
        if not row.exact:
            for name in row.contenders:
                samplers[name]()
        for done in range(rounds):
            progress(done, rounds)
            forwards = done % 2 == 0
            for name in row.contenders if forwards else reversed(row.contenders):
                sample = samplers[name]()
                if isinstance(sample, Noted):
                    sample, notes[name] = sample
                samples[name].append(sample)
        progress(rounds, rounds)
    taken = {name: tuple(values) for name, values in samples.items()}
    return Outcome(row=row, samples=taken, notes=notes)
