"""A line of a log belongs to a request by id, path or time, and never to one that began later."""

from __future__ import annotations

import pytest

from pilothouse.core.timeline.attribution import (
    LoggedRequest,
    LogLine,
    LogOwners,
    continues,
    is_background,
    sent_at,
    windows,
)

TRACE = "Traceback (most recent call last):\n  File 'app.py'\n"


def asked(path: str, at: float, answered: float, *, ids: tuple[str, ...] = ()) -> LoggedRequest:
    return LoggedRequest(f"{path}@{at:g}", path, at, answered, answered, True, frozenset(ids))


def owners(requests: list[LoggedRequest], *lines: LogLine) -> list[str]:
    return [owner.key if owner else "" for owner in LogOwners(requests).find(lines)]


def test_an_id_counts_more_than_a_path_and_a_path_more_than_the_time() -> None:
    requests = [asked("/a", 0, 50, ids=("req81f3a2b7",)), asked("/b", 0, 60), asked("/c", 0, 41)]
    lines = [
        LogLine("req81f3a2b7 Error at /b", 40, is_error=True),
        LogLine("Error at /b", 40, is_error=True),
        LogLine("Error", 40, is_error=True),
    ]
    assert owners(requests, *lines) == ["/a@0", "/b@0", "/c@0"]


def test_a_request_that_began_after_a_line_never_owns_it() -> None:
    requests = [asked("/a", 100, 150)]
    assert owners(requests, LogLine("Error at /a", 90, is_error=True)) == [""]
    assert owners(requests, LogLine("Error", 90, is_error=True)) == [""]


def test_what_follows_an_error_names_its_request_unless_lines_of_two_are_mixed() -> None:
    requests = [asked("/poll", at, at + 10) for at in (0, 100, 200)] + [asked("/save", 195, 215)]
    polls = [LogLine(f"{TRACE}Gone", at, True, "GET /poll 500") for at in (5, 105)]
    saved = LogLine(f"{TRACE}DBDown", 206, True, "GET /poll 500")
    mixed = LogLine(f"{TRACE}Gone", 205, True, "Traceback")
    found = owners(requests, *polls, mixed, saved)
    assert found == ["/poll@0", "/poll@100", "/poll@200", "/save@195"]


def test_how_many_others_a_line_fits_is_told() -> None:
    requests = [asked("/a", 0, 50), asked("/b", 0, 60)]
    (owner,) = LogOwners(requests).find([LogLine("Error", 40, is_error=True)])
    assert owner is not None
    assert (owner.key, owner.way, owner.rivals) == ("/a@0", "time", 1)


def test_a_line_without_a_time_belongs_to_whom_it_names() -> None:
    requests = [asked("/a", 0, 50), asked("/b", 900, 960)]
    assert owners(requests, LogLine("Error at /a", None, is_error=True)) == ["/a@0"]


@pytest.mark.parametrize(
    ("line", "block", "apart_ms", "is_part"),
    [
        ("  at app.js:3", "Error: x", 5, True),
        ("  at app.js:3", "Error: x", 2_000, False),
        ("DBDown: x", TRACE.rstrip("\n"), 5, True),
        ("Traceback (most recent call last):", "ERROR in app: Exception on /a [POST]", 1, True),
        ("Traceback (most recent call last):", "ERROR in app: Exception on /a [POST]", 90, False),
        ("Traceback (most recent call last):", "GET /a 200", 1, False),
        ("GET /a 200", "Error: x", 1, False),
    ],
)
def test_lines_of_one_error_are_one(line: str, block: str, apart_ms: float, is_part: bool) -> None:
    assert continues(line, block, apart_ms) is is_part


def test_what_failed_before_without_an_action_is_background() -> None:
    clicks = windows([(1_000, 1_100, False), (5_000, 5_100, False)])
    assert is_background([400, 5_010], 5_000, clicks)
    assert not is_background([1_050, 5_010], 5_000, clicks)
    assert not is_background([5_010, 5_400], 5_000, clicks)
    # What a page does after it was loaded is not the doing of the click before.
    loaded = windows([(1_000, 1_100, False), (1_200, 1_300, True), (5_000, 5_100, False)])
    assert is_background([1_400, 5_010], 5_000, loaded)


@pytest.mark.parametrize(
    ("wall_time", "at"),
    [(9.95, 9_950), (None, 10_000), (10.5, 10_000), (1.0, 10_000), ("9", 10_000)],
)
def test_a_request_was_sent_when_the_browser_says_unless_clocks_differ(
    wall_time: object, at: float
) -> None:
    assert sent_at(10_000, wall_time) == pytest.approx(at)


def test_frames_after_an_errors_name_are_those_of_another_traceback() -> None:
    trace = 'Traceback (most recent call last):\n  File "app.py", line 4'
    assert continues('  File "lib.py", line 9', trace, 0)
    assert continues("DBDown: 17", trace, 0)
    assert continues("  a note of it", f"{trace}\nDBDown: 17", 0)
    assert not continues('  File "lib.py", line 9', f"{trace}\nDBDown: 17", 0)
