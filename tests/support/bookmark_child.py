"""A process that changes bookmarks over a socket for as long as it is let live.

All of its changes together move everything from one folder to the other, so that anybody can see
whether they were made whole.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from anyio.streams.buffered import BufferedByteReceiveStream

from pilothouse.bookmarks.changes.apply import carry_out, recover, undo
from pilothouse.bookmarks.changes.change import Change, Create, Move, RemoveTree, Update
from pilothouse.bookmarks.changes.journal import open_journal
from tests.support.memory_profile import MemoryProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import SocketStream

ITEMS = [f"item {number}" for number in range(6)]
_COPY = {"title": "copy", "children": [{"title": "in it", "url": "https://copy.example/"}]}
FOLDERS: list[dict[str, Any]] = [
    {
        "title": "full",
        "children": [*({"title": one, "url": "https://item.example/"} for one in ITEMS), _COPY],
    },
    {"title": "empty", "children": []},
]


def is_whole(tree: list[dict[str, Any]]) -> bool:
    """Whether all that was moved is in one of the two folders, once, in its order."""
    folders = tree[0]["children"][0]["children"]
    contents = [[child["title"] for child in folder["children"]] for folder in folders]
    if sorted(folder["title"] for folder in folders) != ["empty", "full"]:
        return False
    full = next(folder for folder in folders if folder["title"] == "full")
    copies = [[one["title"] for one in child.get("children", ())] for child in full["children"]]
    return sorted(contents) == [[], [*ITEMS, "copy"]] and copies[-1] == ["in it"]


class _Peer:
    id = "profile-1"
    name = "Test"

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._answers = BufferedByteReceiveStream(stream)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        await self._stream.send(orjson.dumps([method, params or {}]) + b"\n")
        return orjson.loads(await self._answers.receive_until(b"\n", 1 << 20))


def _over(tree: list[dict[str, Any]]) -> list[Change]:
    """Everything from the full folder into the empty one, and their titles exchanged."""
    folders = {folder["title"]: folder for folder in tree[0]["children"][0]["children"]}
    full, empty = folders["full"], folders["empty"]
    *items, copy = full["children"]
    return [
        Update(full["id"], title="empty"),
        Update(empty["id"], title="full"),
        *(Move(item["id"], empty["id"], 0) for item in reversed(items)),
        RemoveTree(copy["id"]),
        Create(empty["id"], "copy"),
        Create(f"${len(items) + 4}", "in it", "https://copy.example"),
    ]


async def main(socket: str, folder: str) -> None:
    async with await anyio.connect_unix(socket) as stream:
        peer = _Peer(stream)
        profile = MemoryProfile(peer, open_journal(Path(folder), peer.id))
        await recover(profile)
        for number in count():
            if number % 3 == 2:
                await undo(profile)
            else:
                await carry_out(profile, "t", "s", _over(await peer.ask("getTree")))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
