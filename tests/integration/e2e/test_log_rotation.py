"""A dev server's log is of bounded size, and goes on in a new file while it is read."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support import talker
from tests.support.driving import Driver
from tests.support.talker import WIDTH
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.browser

GUARD_S = 60
MOST_BYTES = 1 << 20
A_HALF = MOST_BYTES // WIDTH // 2
"""Lines, after which the log has gone on in another file at least once."""


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver(env={"PILOTHOUSE_LOG_MB": "1"}) as running:
        yield running


@pytest.fixture
def app(driver: Driver) -> Iterator[Driver]:
    """A session of its own, with an empty log."""
    driver.start(command=[sys.executable, str(Path(talker.__file__))])
    yield driver
    driver.call("endSession")


def say(app: Driver, first: int, many: int) -> None:
    httpx.get(f"{app.url}/say?first={first}&many={many}", timeout=GUARD_S).raise_for_status()


def read(app: Driver, **how: Any) -> dict[str, Any]:
    return app.call("readServerLogs", **how)


def numbers(content: str) -> list[int]:
    return [int(line.split()[1]) for line in content.splitlines()]


def written(app: Driver, lines: int) -> None:
    """Wait until so many lines are in the log: what is printed is read a moment later."""
    wait_until(lambda: read(app, lines=1)["size"] >= lines * WIDTH)


def files_of(app: Driver) -> list[Path]:
    return list(Path(read(app, lines=1)["path"]).parent.glob("*.combined.log*"))


def read_on(app: Driver, place: int) -> tuple[list[int], int, int]:
    """All that there is behind a place: the lines, the bytes that were missed, where to go on."""
    found: list[int] = []
    missed = 0
    while True:
        page = read(app, next=place, lines=10_000)
        found += numbers(page["content"])
        missed += page.get("missed", 0)
        place = page["next"]
        if not page["truncated"]:
            return found, missed, place


def test_reading_on_over_the_border_of_two_files_loses_nothing(app: Driver) -> None:
    say(app, 0, 1000)
    written(app, 1000)
    first = read(app)
    assert (numbers(first["content"])[0], first["next"]) == (900, 1000 * WIDTH)
    assert len(files_of(app)) == 1
    say(app, 1000, A_HALF)
    written(app, 1000 + A_HALF)
    assert len(files_of(app)) == 2
    assert read(app, lines=1)["path"] == first["path"], "the log's path stays"
    found, missed, place = read_on(app, first["next"])
    assert found == list(range(1000, 1000 + A_HALF))
    assert (missed, place) == (0, (1000 + A_HALF) * WIDTH)
    again = read(app, next=place)
    assert (again["content"], again["next"]) == ("", place)


def test_the_last_lines_are_told_right_after_the_log_went_on_in_another_file(app: Driver) -> None:
    many = 0
    while len(files_of(app)) == 1:
        say(app, many, 100)
        many += 100
        written(app, many)
    last = numbers(read(app, lines=3000)["content"])
    assert last == list(range(many - 3000, many))


def test_who_comes_too_late_is_told_how_much_was_missed(app: Driver) -> None:
    say(app, 0, 1000)
    written(app, 1000)
    place = read(app)["next"]
    say(app, 1000, 5 * A_HALF)
    written(app, 1000 + 5 * A_HALF)
    page = read(app, next=place, lines=1)
    (first,) = numbers(page["content"])
    assert page["missed"] == first * WIDTH - place > 0
    assert page["next"] == (first + 1) * WIDTH
    assert sum(path.stat().st_size for path in files_of(app)) <= MOST_BYTES


def test_reading_while_it_prints_loses_and_repeats_nothing(app: Driver) -> None:
    many = 10 * A_HALF
    printing = threading.Thread(target=say, args=(app, 0, many))
    printing.start()
    found: list[int] = []
    missed = place = 0
    while place < many * WIDTH:
        lines, more, place = read_on(app, place)
        found += lines
        missed += more
    printing.join(GUARD_S)
    assert len(found) * WIDTH + missed == many * WIDTH
    assert found == sorted(set(found))
    assert sum(path.stat().st_size for path in files_of(app)) <= MOST_BYTES


def test_a_place_that_the_log_has_not_reached_is_told_as_such(app: Driver) -> None:
    say(app, 0, 3)
    written(app, 3)
    page = read(app, next=10**9)
    assert (page["restarted"], numbers(page["content"])) == (True, [0, 1, 2])
