"""The whole tree of many bookmarks, beside the same call inside the extension."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.bookmarks import IN_THE_EXTENSION, Desk, open_desk
from bench.peers import PILOTHOUSE, Workshop
from bench.row import Bound, Noted, Row, Samplers
from bench.stats import median

FOLDERS = 100
BOOKMARKS = 10_000
CALLS = 3

FILL = """
(async (folders, bookmarks) => {
  for (let n = 0; n < folders; n++) {
    const { id } = await chrome.bookmarks.create({ title: `Folder ${n}` });
    for (let m = 0; m < bookmarks / folders; m++) {
      const url = `https://example.com/articles/${n}/${m}?page=${m}`;
      await chrome.bookmarks.create({ parentId: id, title: `Article ${m} of part ${n}`, url });
    }
  }
})
"""


def over_mcp(desk: Desk) -> Noted:
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        answer = desk.server.call_tool("bookmark_get_tree", {"all": True})
        took.append((time.perf_counter() - began) * 1000)
    text = answer["content"][0]["text"]
    return Noted(median(took), f"{text.count('example.com'):,} bookmarks, {len(text) >> 10:,} kB")


def inside(desk: Desk) -> float:
    return median(desk.inside("getTree()", CALLS))


@contextmanager
def run(_: Workshop) -> Iterator[Samplers]:
    with open_desk() as desk:
        desk.chrome.person.evaluate(f"{FILL}({FOLDERS}, {BOOKMARKS})")
        yield {PILOTHOUSE: partial(over_mcp, desk), IN_THE_EXTENSION: partial(inside, desk)}


ROW = Row(
    name="bookmarks-tree",
    title=f"bookmark_get_tree of {BOOKMARKS:,} bookmarks, whole",
    subject=PILOTHOUSE,
    peers=(IN_THE_EXTENSION,),
    unit="ms",
    better="lower",
    bound=Bound(3, of=IN_THE_EXTENSION),
    run=run,
)
