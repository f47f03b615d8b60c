"""A real Chromium: changes made and taken back in it, and the bookmarks in memory that other tests
use, which answer as it does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pilothouse.bookmarks.changes.apply import carry_out, recover, undo
from pilothouse.bookmarks.changes.change import (
    Create,
    Move,
    Remove,
    RemoveTree,
    Update,
    params_of,
    renamed,
    to_json,
)
from pilothouse.bookmarks.changes.journal import open_journal
from pilothouse.bookmarks.extension.chrome_errors import fault_of
from pilothouse.bookmarks.model import EXTENSION_ID, ConnectionLost
from tests.support.chrome_bookmarks import BAR, OTHER, ROOT, ChromeBookmarks, Refused
from tests.support.chromium import Chromium
from tests.support.memory_profile import Breaking, MemoryProfile, possible_changes
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    type Call = tuple[str, dict[str, Any]]
    type Real = Callable[[str, dict[str, Any]], Any]

pytestmark = pytest.mark.browser

EXTENSION = Path(__file__).resolve().parents[3] / "extension"
ASK = """
async (method, params) => {
  const { id, ids, query, number, ...rest } = params;
  const first = id ?? ids ?? query ?? number;
  const given = method === "create" ? [rest]
    : ["update", "move"].includes(method) ? [id, rest]
    : first === undefined ? [] : [first];
  try { return { result: (await chrome.bookmarks[method](...given)) ?? null }; }
  catch (error) { return { refused: error.message }; }
}
"""
TREE: list[dict[str, Any]] = [
    {"title": "F", "children": [{"title": "a", "url": "https://a.example/"}]},
    {"title": "b", "url": "https://b.example/"},
    {"title": "c", "url": "https://c.example/"},
    {"title": "d", "url": "https://d.example/"},
]


@pytest.fixture(scope="module")
def real() -> Iterator[Real]:
    """`chrome.bookmarks` of a real Chromium, asked from a page of the extension."""
    with Chromium(f"--load-extension={EXTENSION}") as chromium:
        page = chromium.open(f"chrome-extension://{EXTENSION_ID}/popup.html")
        with chromium.debugger(page) as debugger:
            wait_until(
                lambda: debugger.evaluate("Boolean(globalThis.chrome?.bookmarks)"),
                "chrome.bookmarks in the extension's page",
            )

            def ask(method: str, params: dict[str, Any]) -> Any:
                answer = debugger.evaluate(f"({ASK})({json.dumps(method)}, {json.dumps(params)})")
                if "refused" in answer:
                    raise Refused(answer["refused"])
                return answer["result"]

            yield ask


class RealPeer:
    """A real Chromium as the tools see it."""

    id = "profile-1"
    name = "Chromium"

    def __init__(self, real: Real) -> None:
        self._real = real

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        given = dict(params or {})
        try:
            return self._real(method, given)
        except Refused as refused:
            raise fault_of({"code": -32000, "message": str(refused)}, method, given) from None


class Both:
    """The same calls to both, with the ids that each gives; it notes what each said."""

    def __init__(self, real: Real) -> None:
        self.real = real
        self.memory = ChromeBookmarks()
        self.ids = {ROOT: "0", BAR: "1", OTHER: "2", "99": "99999"}
        for folder in (BAR, OTHER):
            for child in real("getChildren", {"id": folder}):
                real("removeTree", {"id": child["id"]})

    def do(self, method: str, params: dict[str, Any]) -> tuple[Any, Any]:
        """What each of them answers, without ids and dates."""
        theirs = {
            name: self.ids[value] if name in ("id", "parentId") else value
            for name, value in params.items()
        }
        return self._answer(method, params, None), self._answer(method, theirs, self.real)

    def _answer(self, method: str, params: dict[str, Any], real: Real | None) -> Any:
        try:
            node = (real or self.memory.do)(method, params)
        except Refused as refused:
            return str(refused)
        if real is None:
            self._last = node
        elif method == "create":
            self.ids[self._last["id"]] = node["id"]
        return node and {name: node[name] for name in ("title", "url", "index") if name in node}

    def fill(self, parent: str, nodes: list[dict[str, Any]]) -> None:
        for node in nodes:
            made: dict[str, Any] = {name: node[name] for name in ("title", "url") if name in node}
            self.do("create", {"parentId": parent, **made})
            self.fill(self._last["id"], node.get("children", []))

    def shapes(self) -> tuple[Any, Any]:
        theirs = _shape(self.real("getTree", {})[0])
        return [self.memory.shape(BAR)[1], self.memory.shape(OTHER)[1]], theirs[:2]


def _shape(node: dict[str, Any]) -> Any:
    def inner(node: dict[str, Any]) -> Any:
        if "url" in node:
            return [node["title"], node["url"]]
        return [node["title"], [inner(child) for child in node["children"]]]

    return [inner(folder)[1] for folder in node["children"]]


def test_a_place_in_the_same_folder_is_counted_before_the_node_is_taken_out(real: Real) -> None:
    both = Both(real)
    both.fill(BAR, TREE)
    for title in ("F", "b", "c", "d"):
        for index in (None, 0, 1, 2, 3, 4, 5):
            params = {"id": both.memory.find(title), "parentId": BAR}
            mine, theirs = both.do("move", params | ({} if index is None else {"index": index}))
            assert mine == theirs, (title, index)
            mine, theirs = both.shapes()
            assert mine == theirs, (title, index)


@pytest.mark.parametrize(
    "call",
    [
        ("remove", {"id": "99"}),
        ("remove", {"id": ROOT}),
        ("remove", {"id": BAR}),
        ("remove", {"id": "4"}),
        ("removeTree", {"id": OTHER}),
        ("removeTree", {"id": "99"}),
        ("update", {"id": BAR, "title": "x"}),
        ("update", {"id": "99", "title": "x"}),
        ("update", {"id": "4", "url": "https://x.example/"}),
        ("update", {"id": "6", "url": "not a url"}),
        ("update", {"id": "6", "url": "HTTPS://X.example"}),
        ("update", {"id": "6", "title": "a\nb\tc\u2028d"}),
        ("create", {"parentId": ROOT, "title": "x"}),
        ("create", {"parentId": "99", "title": "x"}),
        ("create", {"parentId": "6", "title": "x"}),
        ("create", {"parentId": BAR, "title": "x", "index": 9}),
        ("create", {"parentId": BAR, "title": "x", "url": "nothing"}),
        ("create", {"parentId": BAR, "title": "x", "url": "javascript:alert(1)"}),
        ("create", {"title": "x\ny"}),
        ("move", {"id": BAR, "parentId": OTHER}),
        ("move", {"id": "4", "parentId": "4"}),
        ("move", {"id": "6", "parentId": "7"}),
        ("move", {"id": "6", "parentId": ROOT}),
        ("move", {"id": "99", "parentId": BAR}),
        ("move", {"id": "6", "parentId": "99"}),
    ],
    ids=lambda call: f"{call[0]} {sorted(call[1].values(), key=str)}"[:60],
)
def test_chrome_says_the_same(real: Real, call: Call) -> None:
    both = Both(real)
    both.fill(BAR, TREE)
    mine, theirs = both.do(*call)
    assert mine == theirs
    mine, theirs = both.shapes()
    assert mine == theirs


def test_hundreds_of_changes_lead_to_the_same_tree(real: Real) -> None:
    both = Both(real)
    both.fill(BAR, TREE)
    chances = random.Random(6)
    made: list[str] = []
    rolls = [
        (chances.randrange(60), chances.randrange(60), chances.randrange(60), chances.randrange(60))
        for _ in range(400)
    ]

    def name(id: str) -> str:
        return made[int(id[1:]) - 1] if id.startswith("$") else id

    for number, change in enumerate(possible_changes(both.memory.get_tree({}), rolls)):
        named = renamed(change, name)
        mine, theirs = both.do(to_json(named)["do"], params_of(named))
        assert mine == theirs, named
        made.append(both._last["id"] if both._last else "")
        if number % 20 == 0:
            mine, theirs = both.shapes()
            assert mine == theirs, named
    assert len(made) > 50
    mine, theirs = both.shapes()
    assert mine == theirs


ROLLS = [(n * 7 % 6, n * 11, n * 13, n * 5) for n in range(1, 40)]


@pytest.mark.anyio
async def test_what_is_done_in_a_real_chromium_and_undone_leaves_the_same_tree(
    real: Real, tmp_path: Path
) -> None:
    Both(real).fill(BAR, TREE)
    profile = MemoryProfile(RealPeer(real), open_journal(tmp_path, "p"))
    before = _shape(real("getTree", {})[0])
    changes = possible_changes(real("getTree", {}), ROLLS)
    assert {type(change) for change in changes} == {Create, Update, Move, Remove, RemoveTree}
    await carry_out(profile, "t", "s", changes)
    after = _shape(real("getTree", {})[0])
    assert after != before
    undone = await undo(profile)
    assert _shape(real("getTree", {})[0]) == before
    await undo(profile, undone.entry)
    assert _shape(real("getTree", {})[0]) == after


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_lost_at_any_step_leaves_all_or_nothing_in_a_real_chromium(
    real: Real, tmp_path: Path, when: Literal["before", "after"]
) -> None:
    Both(real).fill(BAR, TREE)
    before = _shape(real("getTree", {})[0])
    for step in range(1, 100):
        journal = open_journal(tmp_path, str(step))
        changes = possible_changes(real("getTree", {}), ROLLS)
        breaking = Breaking(RealPeer(real), step, when)
        try:
            await carry_out(MemoryProfile(breaking, journal), "t", "s", changes)
        except ConnectionLost:
            await recover(MemoryProfile(RealPeer(real), journal))
        assert not journal.open_entries
        if step >= len(changes):
            assert [entry.outcome for entry in journal.entries] == [
                "done" if step > len(changes) or when == "after" else "taken back"
            ]
        if step > len(changes):
            return
        if journal.entries[0].outcome == "done":
            await undo(MemoryProfile(RealPeer(real), journal))
        assert _shape(real("getTree", {})[0]) == before, step
