"""All or nothing: plans, undo, and what is left when connection or process go in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest

from pilothouse.bookmarks.changes.apply import carry_out, recover, undo
from pilothouse.bookmarks.changes.change import Create, Move, Remove, RemoveTree, Update
from pilothouse.bookmarks.changes.journal import Journal, open_journal
from pilothouse.bookmarks.changes.preview import dry_run
from pilothouse.bookmarks.model import (
    BookmarkNotFound,
    ChangedMeanwhile,
    ConnectionLost,
    ExtensionTimeout,
    NothingToUndo,
)
from tests.support.chrome_bookmarks import BAR, OTHER, ChromeBookmarks
from tests.support.memory_profile import Breaking, MemoryProfile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pilothouse.bookmarks.changes.change import Change

pytestmark = pytest.mark.anyio

TREE: list[dict[str, Any]] = [
    {
        "title": "News",
        "children": [
            {"title": "A", "url": "https://a.example/"},
            {"title": "A", "url": "https://a.example/"},
            {"title": "Deep", "children": [{"title": "JS", "url": "javascript:alert(1)"}]},
        ],
    },
    {"title": "B", "url": "https://b.example/"},
    {"title": "C", "url": "https://c.example/"},
    {"title": "Empty", "children": []},
]
NEWS, DEEP, B, C, EMPTY = "4", "7", "9", "10", "11"
CHANGES: list[Change] = [
    Create(BAR, "Later", index=1),
    Move(B, "$1"),
    Update(C, title="See", url="https://see.example"),
    Move(C, BAR, 0),
    RemoveTree(NEWS),
    Create("$1", "A", "https://a.example"),
    Remove(EMPTY),
    Move("$1", OTHER),
]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = open_journal(tmp_path, "profile-1")
    yield journal
    journal.close()


@pytest.fixture
def chrome() -> ChromeBookmarks:
    return ChromeBookmarks(TREE)


@pytest.fixture
def profile(chrome: ChromeBookmarks, journal: Journal) -> MemoryProfile:
    return MemoryProfile(chrome, journal)


async def after(changes: list[Change], tmp_path: Path) -> Any:
    """What the tree is when all changes are made."""
    reference = ChromeBookmarks(TREE)
    await carry_out(
        MemoryProfile(reference, open_journal(tmp_path, "reference")), "t", "s", changes
    )
    return reference.shape()


async def test_all_changes_are_made_and_later_ones_find_what_earlier_ones_made(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    done = await carry_out(profile, "bookmark_apply", "s", CHANGES)
    assert len(done.nodes) == len(CHANGES)
    later = done.nodes[0]
    assert later is not None
    assert [child["title"] for child in chrome.get_children({"id": later["id"]})] == ["B", "A"]
    assert done.nodes[4] is None
    assert chrome.shape(OTHER)[1][0][0] == "Later"
    assert [entry.outcome for entry in profile.journal.entries] == ["done"]


async def test_undo_brings_everything_back_and_tells_the_new_ids(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    before = chrome.shape()
    done = await carry_out(profile, "bookmark_apply", "s", CHANGES)
    undone = await undo(profile)
    assert undone.undoes == done.entry
    assert chrome.shape() == before
    assert set(undone.id_map) == {NEWS, "5", "6", DEEP, "8", EMPTY}
    assert undone.id_map[NEWS] == chrome.find("News")
    assert set(undone.id_map.values()) <= set(chrome.ids())


async def test_undo_brings_back_a_script_that_the_user_had(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    await carry_out(profile, "t", "s", [Remove("8")])
    await undo(profile)
    assert chrome.get({"ids": [chrome.find("JS")]})[0]["url"] == "javascript:alert(1)"


async def test_an_undo_can_be_undone_and_that_again_after_a_restart(
    profile: MemoryProfile, chrome: ChromeBookmarks, journal: Journal
) -> None:
    before = chrome.shape()
    await carry_out(profile, "t", "s", CHANGES)
    changed = chrome.shape()
    entry = (await undo(profile)).entry
    for _ in range(3):
        restarted = MemoryProfile(chrome, Journal(journal._path, tag=journal._tag))
        entry = (await undo(restarted, entry)).entry
        assert chrome.shape() == changed
        entry = (await undo(restarted, entry)).entry
        assert chrome.shape() == before


async def test_an_entry_is_undone_once(profile: MemoryProfile) -> None:
    done = await carry_out(profile, "t", "s", [Update(B, title="x")])
    await undo(profile, done.entry)
    with pytest.raises(NothingToUndo):
        await undo(profile, done.entry)
    with pytest.raises(NothingToUndo):
        await undo(profile, "404-none")


async def test_older_entries_are_undone_although_ids_have_changed_since(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    before = chrome.shape()
    first = await carry_out(profile, "t", "s", [Update("5", title="renamed"), Move("5", NEWS, 2)])
    second = await carry_out(profile, "t", "s", [RemoveTree(NEWS)])
    await undo(profile, second.entry)
    assert "5" not in chrome.ids()
    await undo(profile, first.entry)
    assert chrome.shape() == before


@pytest.mark.parametrize("step", range(len(CHANGES) + 1))
async def test_a_change_that_fails_takes_those_before_it_back(
    profile: MemoryProfile, chrome: ChromeBookmarks, step: int
) -> None:
    before = chrome.shape()
    with pytest.raises(BookmarkNotFound) as caught:
        await carry_out(profile, "t", "s", [*CHANGES[:step], Remove("99"), *CHANGES[step:]])
    assert chrome.shape() == before
    assert f"change {step + 1} of 9" in caught.value.message
    assert ("taken back" if step else "nothing was changed") in caught.value.message
    assert not profile.journal.open_entries
    with pytest.raises(NothingToUndo):
        await undo(profile)


async def test_what_is_brought_back_by_taking_back_is_told_with_its_new_ids(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    with pytest.raises(BookmarkNotFound) as caught:
        await carry_out(profile, "t", "s", [Remove(B), Remove("99")])
    assert caught.value.details["idMap"] == {B: chrome.find("B")}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", range(1, len(CHANGES) + 1))
async def test_a_connection_lost_at_any_step_leaves_all_or_nothing(
    chrome: ChromeBookmarks,
    journal: Journal,
    tmp_path: Path,
    step: int,
    when: Literal["before", "after"],
) -> None:
    before, whole = chrome.shape(), await after(CHANGES, tmp_path)
    with pytest.raises(ConnectionLost) as caught:
        await carry_out(MemoryProfile(Breaking(chrome, step, when), journal), "t", "s", CHANGES)
    entry = caught.value.details["entry"]
    assert entry == journal.open_entries[0].id
    made = len(chrome.writes())
    restarted = Journal(journal._path, tag=journal._tag)
    assert [one.id for one in await recover(MemoryProfile(chrome, restarted))] == [entry]
    is_whole = step == len(CHANGES) and when == "after"
    assert chrome.shape() == (whole if is_whole else before)
    assert not restarted.open_entries
    settled = len(chrome.writes())
    assert (settled == made) is (is_whole or (step == 1 and when == "before"))
    assert await recover(MemoryProfile(chrome, Journal(journal._path, tag=journal._tag))) == []
    assert len(chrome.writes()) == settled


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_lost_at_any_step_of_the_way_back_is_made_good(
    tmp_path: Path, when: Literal["before", "after"]
) -> None:
    before = ChromeBookmarks(TREE).shape()
    for step in range(1, 40):
        chrome = ChromeBookmarks(TREE)
        journal = open_journal(tmp_path, f"back {step} {when}")
        failing = [*CHANGES, Remove("99")]
        breaking = Breaking(chrome, len(CHANGES) + step, when)
        with pytest.raises((ConnectionLost, BookmarkNotFound)) as caught:
            await carry_out(MemoryProfile(breaking, journal), "t", "s", failing)
        if not breaking.is_lost:
            assert isinstance(caught.value, BookmarkNotFound)
            assert step > len(CHANGES)
            return
        await recover(MemoryProfile(chrome, Journal(journal._path, tag=journal._tag)))
        assert chrome.shape() == before, step
    raise AssertionError("the way back never ended")


async def test_what_a_timeout_left_open_is_settled_before_the_next_change(
    chrome: ChromeBookmarks, journal: Journal
) -> None:
    class Slow(ChromeBookmarks):
        async def ask(self, method: str, params: Any = None) -> Any:
            answer = await chrome.ask(method, params)
            if method == "move" and len(chrome.writes()) == 2:
                raise ExtensionTimeout("no answer")
            return answer

    profile = MemoryProfile(Slow(), journal)
    with pytest.raises(ExtensionTimeout):
        await carry_out(profile, "t", "s", [Create(BAR, "Later"), Move(B, "$1"), Remove(C)])
    await carry_out(profile, "t", "s", [Update(C, title="after")])
    assert [child["title"] for child in chrome.get_children({"id": BAR})] == [
        "News", "B", "after", "Empty",
    ]  # fmt: skip


async def test_a_single_change_whose_answer_was_lost_stands_and_is_not_repeated(
    chrome: ChromeBookmarks, journal: Journal
) -> None:
    breaking = MemoryProfile(Breaking(chrome, 1, "after"), journal)
    with pytest.raises(ConnectionLost):
        await carry_out(breaking, "t", "s", [Create(BAR, "Once", "HTTPS://Once.example")])
    profile = MemoryProfile(chrome, journal)
    await recover(profile)
    titles = [child["title"] for child in chrome.get_children({"id": BAR})]
    assert titles.count("Once") == 1
    await undo(profile)
    assert "Once" not in [child["title"] for child in chrome.get_children({"id": BAR})]


async def test_a_twin_that_was_there_before_is_not_taken_for_the_lost_one(
    chrome: ChromeBookmarks, journal: Journal
) -> None:
    for node in chrome._nodes.values():
        node["dateAdded"] = 1_000
    with pytest.raises(ConnectionLost):
        await carry_out(
            MemoryProfile(Breaking(chrome, 1, "before"), journal), "t", "s",
            [Create(BAR, "B", "https://b.example/"), Remove(C)],
        )  # fmt: skip
    await recover(MemoryProfile(chrome, journal))
    assert B in chrome.ids()
    assert not chrome.writes()


async def test_what_a_person_changed_before_the_recovery_is_left_to_them(
    chrome: ChromeBookmarks, journal: Journal
) -> None:
    with pytest.raises(ConnectionLost):
        await carry_out(
            MemoryProfile(Breaking(chrome, 3, "before"), journal), "t", "s",
            [Update(B, title="ours"), Update(C, title="ours, too"), Remove(EMPTY)],
        )  # fmt: skip
    chrome.update({"id": B, "title": "theirs"})
    settled = (await recover(MemoryProfile(chrome, journal)))[0]
    assert settled.outcome == "partly taken back"
    assert "theirs" in settled.left[0]
    assert chrome.find("theirs") == B
    assert chrome.find("C") == C


async def test_a_plan_is_not_carried_out_when_a_person_changed_what_it_is_about(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    expected = dry_run(chrome.get_tree({}), CHANGES).expected
    chrome.update({"id": "8", "title": "JS, edited"})
    before = chrome.shape()
    with pytest.raises(ChangedMeanwhile) as caught:
        await carry_out(profile, "t", "s", CHANGES, expected=expected)
    assert chrome.shape() == before
    assert "JS, edited" in caught.value.message
    assert not profile.journal.entries


async def test_a_plan_is_carried_out_when_a_person_changed_something_else(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    changes: list[Change] = [Update(C, title="x"), RemoveTree(NEWS)]
    expected = dry_run(chrome.get_tree({}), changes).expected
    chrome.update({"id": B, "title": "edited"})
    await carry_out(profile, "t", "s", changes, expected=expected)
    assert NEWS not in chrome.ids()


async def test_undo_stops_at_what_a_person_changed_since_unless_forced(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    done = await carry_out(profile, "t", "s", [Update(B, title="ours"), Remove(C)])
    chrome.update({"id": B, "title": "theirs"})
    with pytest.raises(ChangedMeanwhile) as caught:
        await undo(profile, done.entry)
    assert caught.value.details["changed"] == [
        {"id": B, "title": "theirs", "what": "title", "left": "ours", "now": "theirs"}
    ]
    assert C not in chrome.ids()
    await undo(profile, done.entry, force=True)
    assert chrome.find("B") == B
    assert chrome.find("C")


async def test_a_forced_undo_never_removes_what_a_person_added(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    done = await carry_out(profile, "t", "s", [Create(BAR, "Ours"), Update(C, title="x")])
    ours = chrome.find("Ours")
    chrome.create({"parentId": ours, "title": "Theirs"})
    with pytest.raises(ChangedMeanwhile):
        await undo(profile, done.entry)
    undone = await undo(profile, done.entry, force=True)
    assert chrome.find("Theirs")
    assert chrome.find("C") == C
    assert "has something in it" in undone.left[0]


async def test_who_cannot_undo_even_by_force_is_not_told_to_try(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    done = await carry_out(profile, "t", "s", [Create(BAR, "Ours")])
    chrome.remove({"id": chrome.find("Ours")})
    with pytest.raises(ChangedMeanwhile) as caught:
        await undo(profile, done.entry)
    assert "not even with force" in caught.value.hint
    assert (await undo(profile, done.entry, force=True)).entry == ""


async def test_undo_puts_a_node_at_the_end_where_its_neighbours_have_gone(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    await carry_out(profile, "t", "s", [Remove(EMPTY), Move(C, OTHER)])
    chrome.remove_tree({"id": NEWS})
    chrome.remove({"id": B})
    await undo(profile)
    assert [child["title"] for child in chrome.get_children({"id": BAR})] == ["C", "Empty"]


async def test_a_caller_that_gives_up_leaves_nothing_half_done(
    chrome: ChromeBookmarks, journal: Journal, tmp_path: Path
) -> None:
    class Waiting(ChromeBookmarks):
        async def ask(self, method: str, params: Any = None) -> Any:
            await anyio.lowlevel.checkpoint()
            answer = await chrome.ask(method, params)
            if method == "update":
                scope.cancel()
            await anyio.lowlevel.checkpoint()
            return answer

    with anyio.CancelScope() as scope:
        await carry_out(MemoryProfile(Waiting(), journal), "t", "s", CHANGES)
    assert chrome.shape() == await after(CHANGES, tmp_path)
    assert not journal.open_entries


async def test_writers_wait_for_each_other(profile: MemoryProfile, chrome: ChromeBookmarks) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            made: list[Change] = [Create(BAR, f"F{number}"), Create("$1", f"in {number}")]
            tasks.start_soon(carry_out, profile, "t", "s", made)
    for number in range(20):
        inner = chrome.get_children({"id": chrome.find(f"F{number}")})
        assert [node["title"] for node in inner] == [f"in {number}"]


async def test_a_folder_that_was_made_with_all_in_it_is_undone_by_one_call(
    profile: MemoryProfile, chrome: ChromeBookmarks
) -> None:
    before = chrome.shape()
    made: list[Change] = [
        Create(BAR, "F"),
        Create("$1", "G"),
        Create("$2", "x", "https://x.example"),
    ]
    await carry_out(profile, "bookmark_import", "s", [*made, Create(BAR, "y", "https://y.example")])
    whole = chrome.shape()
    chrome.calls.clear()
    undone = await undo(profile)
    assert chrome.writes() == ["remove", "removeTree"]
    assert chrome.shape() == before
    await undo(profile, undone.entry)
    assert chrome.shape() == whole
