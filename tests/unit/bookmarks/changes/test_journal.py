"""The journal keeps what is needed to take changes back, whatever happens to the process."""

from __future__ import annotations

import json
import resource
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pilothouse.bookmarks.changes import journal as journal_module
from pilothouse.bookmarks.changes.apply import carry_out, recover, undo
from pilothouse.bookmarks.changes.change import Create, Move, Remove, RemoveTree, Update, renamed
from pilothouse.bookmarks.changes.journal import ALWAYS_KEPT, Journal, open_journal
from pilothouse.bookmarks.changes.journal import _now as journal_now
from pilothouse.bookmarks.changes.journal_entry import JournalEntry, lines_of
from pilothouse.bookmarks.model import ConnectionLost, NothingToUndo
from pilothouse.core.declare.faults import Fault, NotAvailable
from tests.support.chrome_bookmarks import BAR, ChromeBookmarks
from tests.support.memory_profile import WRITES, Breaking, MemoryProfile, possible_changes
from tests.support.rounds import examples
from tests.unit.bookmarks.changes.test_change import TREE, rolls, trees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pilothouse.bookmarks.changes.change import Change

pytestmark = pytest.mark.anyio
generous = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
"""Each example writes files."""
DAY_MS = 86_400_000.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = open_journal(tmp_path, "profile-1")
    yield journal
    journal.close()


def again(journal: Journal, **limits: Any) -> Journal:
    """The same journal, as another process finds it."""
    return Journal(journal._path, tag=journal._tag, **limits)


def whole(journal: Journal) -> list[list[dict[str, Any]]]:
    return [list(lines_of(entry)) for entry in journal.entries]


def finished(journal: Journal, title: str = "t", session: str = "s") -> JournalEntry:
    """An entry of one step."""
    entry = journal.begin("bookmark_update", session, 1)
    was = {"id": "5", "parentId": "1", "index": 0, "title": title, "url": "https://a.example/"}
    number = journal.step(entry, Update("5", title=f"{title}+"), was)
    journal.did(entry, number, {**was, "title": f"{title}+"}, "done")
    return entry


def with_journal[T](run: Any) -> Any:
    """Run a coroutine function with a journal of its own."""
    with tempfile.TemporaryDirectory() as folder:
        journal = open_journal(Path(folder), "profile-1")
        try:
            return anyio.run(run, journal)
        finally:
            journal.close()


@generous
@given(trees, rolls)
def test_what_is_done_and_undone_leaves_the_same_tree(tree: Any, chosen: Any) -> None:
    async def run(journal: Journal) -> None:
        chrome = ChromeBookmarks(tree)
        profile = MemoryProfile(chrome, journal)
        before = chrome.shape()
        changes = possible_changes(chrome.get_tree({}), chosen)
        await carry_out(profile, "t", "s", changes)
        if not changes:
            return
        after = chrome.shape()
        first = await undo(profile, session="s")
        assert chrome.shape() == before
        if not first.entry:
            return
        second = await undo(profile, first.entry)
        assert chrome.shape() == after
        await undo(MemoryProfile(chrome, again(journal)), second.entry)
        assert chrome.shape() == before

    with_journal(run)


@generous
@given(trees, rolls, rolls, rolls)
def test_several_entries_are_undone_one_after_the_other_across_new_ids(
    tree: Any, one: Any, two: Any, three: Any
) -> None:
    async def run(journal: Journal) -> None:
        chrome = ChromeBookmarks(tree)
        profile = MemoryProfile(chrome, journal)
        shapes = []
        for chosen in (one, two, three):
            shapes.append(chrome.shape())
            changes = possible_changes(chrome.get_tree({}), chosen)
            if not (await carry_out(profile, "t", "s", changes)).entry:
                shapes.pop()
        for shape in reversed(shapes):
            await undo(profile, session="s")
            assert chrome.shape() == shape
        with pytest.raises(NothingToUndo):
            await undo(profile, session="s")

    with_journal(run)


@generous
@given(trees, rolls, st.integers(0, 12))
def test_a_step_that_fails_leaves_the_same_tree(tree: Any, chosen: Any, at: int) -> None:
    async def run(journal: Journal) -> None:
        chrome = ChromeBookmarks(tree)
        before = chrome.shape()
        changes = possible_changes(chrome.get_tree({}), chosen)
        changes[at:at] = [Remove("99")]
        later = [renamed(change, _shifted(at)) for change in changes[at + 1 :]]
        with pytest.raises(Fault):
            await carry_out(MemoryProfile(chrome, journal), "t", "s", [*changes[: at + 1], *later])
        assert chrome.shape() == before
        assert not journal.open_entries
        assert not again(journal).open_entries

    with_journal(run)


def _shifted(at: int) -> Any:
    """References behind a change that was put in between."""

    def name(id: str) -> str:
        number = int(id[1:]) if id.startswith("$") else 0
        return f"${number + 1}" if number > at else id

    return name


@generous
@given(trees, rolls, st.integers(1, 12), st.sampled_from(["before", "after"]), st.integers(1, 12))
def test_a_connection_lost_twice_leaves_all_or_nothing(
    tree: Any, chosen: Any, at: int, when: Literal["before", "after"], then: int
) -> None:
    async def run(journal: Journal) -> None:
        chrome = ChromeBookmarks(tree)
        before = chrome.shape()
        changes = possible_changes(chrome.get_tree({}), chosen)
        reference = ChromeBookmarks(tree)
        with_other = open_journal(journal._path.parent, "other")
        await carry_out(MemoryProfile(reference, with_other), "t", "s", changes)
        with_other.close()
        breaking = Breaking(chrome, at, when)
        try:
            await carry_out(MemoryProfile(breaking, journal), "t", "s", changes)
        except ConnectionLost:
            await recover(MemoryProfile(Breaking(chrome, then, when), again(journal)))
            restarted = again(journal)
            await recover(MemoryProfile(chrome, restarted))
            assert not restarted.open_entries
        assert chrome.shape() in (before, reference.shape())

    with_journal(run)


def test_it_is_read_back_as_it_was_written(journal: Journal) -> None:
    for title in ("plain", "ä\u2028", "half \ud83d of a character"):
        finished(journal, title)
    assert whole(again(journal)) == whole(journal)
    assert again(journal).entries[2].steps[0].was == {
        "id": "5", "parentId": "1", "index": 0, "title": "half \ud83d of a character",
        "url": "https://a.example/",
    }  # fmt: skip


def test_only_its_user_may_read_it(journal: Journal) -> None:
    assert stat.S_IMODE(journal._path.stat().st_mode) == 0o600


def test_a_file_cut_anywhere_is_read_up_to_there_and_goes_on(journal: Journal) -> None:
    finished(journal, "one")
    finished(journal, "two")
    data = journal._path.read_bytes()
    for length in range(len(data)):
        journal._path.write_bytes(data[:length])
        read = again(journal)
        assert whole(read) == whole(journal)[: len(read.entries) - len(read.open_entries)] + [
            list(lines_of(entry)) for entry in read.open_entries
        ]
        finished(read, "three")
        assert again(read).entries[-1].steps[0].was is not None
        assert again(read).entries[-1].outcome == "done"
        read.close()


def test_lines_that_are_damaged_cost_only_their_entry(journal: Journal) -> None:
    finished(journal, "one")
    finished(journal, "two")
    lines = journal._path.read_bytes().splitlines(keepends=True)
    lines[0] = b'{"e": [1], "of"' + b"\xff\n"
    journal._path.write_bytes(b"".join(lines))
    assert [entry.steps[0].was for entry in again(journal).entries] == [
        journal.entries[1].steps[0].was
    ]


def test_numbers_of_entries_go_on_after_a_restart(journal: Journal) -> None:
    first = finished(journal)
    second = finished(again(journal))
    assert first.id != second.id
    assert first.id.partition("-")[2] == second.id.partition("-")[2]


def test_two_profiles_have_two_journals_and_no_entry_in_common(tmp_path: Path) -> None:
    one, two = open_journal(tmp_path, "../evil"), open_journal(tmp_path, "b")
    assert finished(one).id not in two
    assert finished(two).id not in one
    assert {path.parent for path in tmp_path.rglob("*.jsonl")} == {tmp_path}


def test_the_oldest_finished_entries_go_when_there_are_too_many(journal: Journal) -> None:
    small = again(journal, kept_entries=15)
    opened = small.begin("t", "s", 2)
    small.did(opened, small.step(opened, Create("1", "x"), None), {"id": "70", "title": "x"})
    ids = [finished(small).id for _ in range(100)]
    assert len(small.entries) <= 30 + 1
    assert opened.id in small
    assert ids[-1] in small
    assert whole(again(small)) == whole(small)


def test_the_file_stays_within_its_bounds(journal: Journal) -> None:
    small = again(journal, kept_bytes=20_000)
    for _ in range(200):
        finished(small, "t" * 300)
        assert small._path.stat().st_size <= 2 * 20_000 + 2_000


def test_a_large_entry_is_kept_for_a_while_and_then_goes(journal: Journal) -> None:
    small = again(journal, kept_bytes=20_000)
    large = finished(small, "t" * 100_000)
    for _ in range(ALWAYS_KEPT - 1):
        finished(small)
    for one in (small, again(small, kept_bytes=20_000)):
        assert one.undoable(large.id, "s").id == large.id
    finished(small)
    assert large.id not in small
    assert small._path.stat().st_size < 20_000


def test_old_entries_go_when_the_journal_is_opened_but_for_the_newest_and_the_open(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = journal_now()
    monkeypatch.setattr(journal_module, "_now", lambda: now - 8 * DAY_MS)
    opened = journal.begin("t", "s", 2)
    journal.did(opened, journal.step(opened, Create("1", "x"), None), {"id": "70", "title": "x"})
    old = [finished(journal).id for _ in range(20)]
    monkeypatch.setattr(journal_module, "_now", lambda: now)
    ids = [finished(journal).id for _ in range(4)]
    assert len(again(journal).entries) == 25, "without a limit all stay"
    kept = [entry.id for entry in again(journal, kept_s=7 * DAY_MS / 1000).entries]
    assert kept == [opened.id, *old[4 - ALWAYS_KEPT :], *ids]
    assert [entry.id for entry in again(journal).entries] == kept, "they are gone from the file"


async def test_ids_are_still_followed_when_the_entries_that_changed_them_are_gone(
    journal: Journal,
) -> None:
    chrome = ChromeBookmarks(TREE)
    small = again(journal, kept_entries=ALWAYS_KEPT)
    profile = MemoryProfile(chrome, small)
    id = chrome.find("B")
    for _ in range(30):
        removed = await carry_out(profile, "t", "s", [Remove(chrome.find("B"))])
        await undo(profile, removed.entry)
    assert chrome.find("B") != id
    for one in (small, again(small, kept_entries=ALWAYS_KEPT)):
        assert len(one.entries) < 30
        named = {step.change.id for entry in one.entries for _, step in entry.done
                 if isinstance(step.change, Remove)}  # fmt: skip
        assert named
        assert {one.current(old) for old in named} == {chrome.find("B")}


async def test_nothing_is_changed_that_cannot_be_written_down(journal: Journal) -> None:
    chrome = ChromeBookmarks(TREE)
    before, profile = chrome.shape(), MemoryProfile(chrome, journal)
    finished(journal)
    data = journal._path.read_bytes()
    # The file may grow by a part of the next line only, as on a disk that is full.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) + 40, limits[1]))
    try:
        with pytest.raises(NotAvailable):
            await carry_out(profile, "t", "s", [Remove("6")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal._path.read_bytes() == data
    assert chrome.shape() == before
    done = await carry_out(profile, "t", "s", [Remove("6")])
    assert again(journal).entries[-1].id == done.entry


async def test_the_last_change_of_the_session_is_undone_and_not_an_undo(journal: Journal) -> None:
    mine, other = finished(journal, session="me"), finished(journal, session="other")
    assert journal.undoable(None, "me") is mine
    assert journal.undoable(None, "a new session") is other
    undoing = journal.begin("bookmark_undo", "me", 1, mine.id)
    journal.did(undoing, journal.step(undoing, Update("5", title="t"), {"id": "5"}), {}, "done")
    with pytest.raises(NothingToUndo):
        journal.undoable(None, "me")
    with pytest.raises(NothingToUndo) as caught:
        journal.undoable(mine.id, "me")
    assert undoing.id in caught.value.message
    redoing = journal.begin("bookmark_undo", "me", 1, undoing.id)
    journal.did(redoing, journal.step(redoing, Update("5", title="t"), {"id": "5"}), {}, "done")
    assert again(journal).undoable(None, "me").id == redoing.id


async def test_a_single_write_costs_one_read_at_most(journal: Journal) -> None:
    chrome = ChromeBookmarks(TREE)
    profile = MemoryProfile(chrome, journal)
    costs: list[tuple[Change, list[str]]] = [
        (Create(BAR, "x", "https://x.example/"), ["create"]),
        (Update("6", title="y"), ["get", "update"]),
        (Move("6", BAR, 0), ["get", "move"]),
        (Remove("6"), ["get", "remove"]),
        (RemoveTree("4"), ["getSubTree", "removeTree"]),
    ]
    for change, calls in costs:
        chrome.calls.clear()
        size = journal._path.stat().st_size
        await carry_out(profile, "t", "s", [change])
        assert [method for method, _ in chrome.calls] == calls
        assert journal._path.stat().st_size > size
    assert set(chrome.writes()) <= set(WRITES)


def test_every_line_is_an_object_of_its_own(journal: Journal) -> None:
    finished(journal, "new\nline")
    for line in journal._path.read_text().splitlines():
        assert isinstance(json.loads(line), dict)


async def test_a_profile_that_went_to_another_process_and_back_has_one_journal(
    journal: Journal,
) -> None:
    chrome = ChromeBookmarks(TREE)
    here, there = (
        MemoryProfile(chrome, journal),
        MemoryProfile(chrome, again(journal, kept_entries=ALWAYS_KEPT)),
    )
    first = await carry_out(here, "t", "s", [Update("6", title="one")])
    for number in range(30):  # enough for the file to be written anew
        await carry_out(there, "t", "s", [Update("6", title=f"{number}")])
    last = await carry_out(here, "t", "s", [Update("6", title="last")])
    assert first.entry not in journal
    for profile in (here, there, here):
        await undo(profile, session="s")
    assert last.entry in journal
    assert chrome.find("27") == "6"


async def test_a_journal_that_is_closed_writes_nowhere(journal: Journal) -> None:
    chrome = ChromeBookmarks(TREE)
    profile = MemoryProfile(chrome, again(journal))
    profile.journal.close()
    with pytest.raises(NotAvailable):
        await carry_out(profile, "t", "s", [Update("6", title="one")])
    assert not chrome.writes()
