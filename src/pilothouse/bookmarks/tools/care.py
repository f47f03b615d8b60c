"""Tools that look after bookmarks: which are there twice, which lead nowhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from anyio import to_thread
from pydantic import Field

from pilothouse.bookmarks.link_check.check import MEANINGS, LinkCheck, Manners
from pilothouse.bookmarks.model import BookmarkNotFound
from pilothouse.bookmarks.ports import Bookmarks
from pilothouse.bookmarks.tools.shared import ADDRESSED, BOOKMARKS, BookmarkArgs
from pilothouse.bookmarks.tree.duplicates import find_duplicates
from pilothouse.bookmarks.tree.mask import masked
from pilothouse.bookmarks.tree.paths import find, format_path
from pilothouse.bookmarks.tree.tree import part, walk
from pilothouse.bookmarks.tree.urls import SAME, SAME_STRICTLY
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.tool import Example, Progress, tool

if TYPE_CHECKING:
    from pilothouse.bookmarks.link_check.check import Checked
    from pilothouse.bookmarks.model import Node
    from pilothouse.bookmarks.ports import Peer
    from pilothouse.bookmarks.tree.tree import Found
    from pilothouse.core.declare.fence import Story
    from pilothouse.core.secrets.redactor import Redactor


_REPORTED = ("id", "title", "url", "dateAdded")


class _Under(BookmarkArgs):
    folder_id: str | None = Field(default=None, description="Only in this folder, id or path")


async def bookmarks_under(peer: Peer, folder_id: str | None) -> list[Found]:
    """Return the bookmarks in a folder and below it, or all, with their paths.

    Raises:
        BookmarkNotFound, AmbiguousPath.
    """
    # The whole tree each time: only that tells the path of a folder inside of it.
    nodes = await peer.ask("getTree")
    if folder_id is None:
        found = list(walk(nodes))
    else:
        id = await find(peer, folder_id, field="folderId")
        found = part(nodes, id)
        if not found:
            raise BookmarkNotFound(
                f"there is no folder {id[:40]}",
                hint="bookmark_get_tree has the ids of what is there",
                field="folderId",
            )
    return [(node, path) for node, path in found if "url" in node]


def _reported(found: Found, redactor: Redactor) -> dict[str, Any]:
    node, path = found
    kept: Node = {name: node[name] for name in _REPORTED if name in node}
    return {**masked(kept, redactor), "folder": redactor.text(format_path(path[:-1]))}


class FindDuplicates(_Under):
    strict: bool = Field(default=False, description="Only URLs that are the same to a browser")
    limit: int = Field(default=50, ge=1, le=1000, description="Groups at most")


class DuplicateGroups(Result):
    groups: list[dict[str, Any]] = Field(
        description="Largest first: bookmarks with their folders, keep (the oldest), remove"
    )
    total: int = Field(description="All groups")
    extra: int = Field(description="Bookmarks beside the oldest of each group")
    same: str = Field(description="What counts as the same")

    def tell(self, story: Story) -> None:
        story.say(
            f"{self.total} pages are bookmarked more than once, {self.extra} times too often."
        )
        story.say(f"What counts as the same: {self.same}.")
        if self.total > len(self.groups):
            story.say(f"The {len(self.groups)} largest groups are shown; raise limit for more.")
        if self.groups:
            story.say("Next: bookmark_remove with items, an object {id} for each id of remove.")
            story.quote("groups", self.groups)


@tool(
    BOOKMARKS,
    effect="read",
    own=True,
    raises=ADDRESSED,
    examples=(Example(title="In all bookmarks"), Example(title="Bar", args={"folderId": "Bar"})),
)
async def bookmark_find_duplicates(args: FindDuplicates, bookmarks: Bookmarks) -> DuplicateGroups:
    """Find bookmarks of the same page."""
    found = await bookmarks_under(bookmarks.profile(args.profile).peer, args.folder_id)
    # Reading thousands of addresses takes a while; the event loop goes on meanwhile.
    groups = await to_thread.run_sync(lambda: find_duplicates(found, strict=args.strict))
    return DuplicateGroups(
        groups=[
            {
                "keep": str(group.found[0][0]["id"]),
                "remove": group.extra,
                "bookmarks": [_reported(one, bookmarks.redactor) for one in group.found],
            }
            for group in groups[: args.limit]
        ],
        total=len(groups),
        extra=sum(len(group.extra) for group in groups),
        same=SAME_STRICTLY if args.strict else SAME,
    )


class CheckLinks(_Under):
    ids: Annotated[list[str], Field(max_length=500)] | None = Field(
        default=None, description="Only these bookmarks"
    )
    offset: int = Field(default=0, ge=0, description="First bookmark, to go on")
    limit: int = Field(default=100, ge=1, le=500, description="Bookmarks at most")
    max_seconds: float = Field(default=60, ge=1, le=600, description="Stop then")


class CheckedLinks(Result):
    counts: dict[str, int] = Field(description="Bookmarks by what came of them")
    problems: list[dict[str, Any]] = Field(
        description="All that are not ok: kind, status, reason, leadsTo"
    )
    not_reached: list[str] = Field(description="Ids for which there was no time; pass as ids")
    unknown: list[str] = Field(description="Of ids, those that are no bookmarks of the folder")
    total: int = Field(description="Bookmarks in the folder")
    next_offset: int | None = Field(default=None, description="Where to go on")

    def tell(self, story: Story) -> None:
        kinds = [kind for kind in MEANINGS if self.counts.get(kind)]
        told = ", ".join(f"{self.counts[kind]} {kind}" for kind in kinds) or "none"
        story.say(f"Checked {sum(self.counts.values())} of {self.total} bookmarks: {told}.")
        for kind in kinds:
            if kind != "ok":
                story.say(f"{kind}: {MEANINGS[kind]}.")
        if self.not_reached:
            story.say(f"There was no time for {len(self.not_reached)}: pass notReached as ids.")
        if self.unknown:
            story.say(f"{len(self.unknown)} of the ids are no bookmarks there: unknown has them.")
        if self.next_offset is not None:
            story.say(f"Next: go on with offset {self.next_offset}.")
        if self.problems:
            story.quote("problems", self.problems)


@tool(
    BOOKMARKS,
    effect="read",
    own=True,
    open_world=True,
    raises=ADDRESSED,
    examples=(Example(title="A folder", args={"folderId": "Bar > Tech", "maxSeconds": 30}),),
)
async def bookmark_check_links(
    args: CheckLinks, bookmarks: Bookmarks, progress: Progress
) -> CheckedLinks:
    """Find dead and moved links: asks each server for the page, without cookies.

    One request at a time per host.
    """
    found = await bookmarks_under(bookmarks.profile(args.profile).peer, args.folder_id)
    unknown: list[str] = []
    if args.ids is not None:
        there = {node["id"] for node, _ in found}
        unknown = [id for id in args.ids if id not in there]
        wanted = set(args.ids)
        found = [one for one in found if one[0]["id"] in wanted]
    asked = found[args.offset : args.offset + args.limit]

    async def tell(done: int, total: int) -> None:
        await progress(done, total, "links checked")

    check = LinkCheck(bookmarks.policy, Manners(total_s=args.max_seconds))
    done = await check.run([node["url"] for node, _ in asked], tell)
    reached = [(one, done[one[0]["url"]]) for one in asked if one[0]["url"] in done]
    after = args.offset + len(asked)
    return CheckedLinks(
        counts=dict(Counter(checked.kind for _, checked in reached)),
        problems=[
            _problem(one, checked, bookmarks.redactor)
            for one, checked in reached
            if checked.kind != "ok"
        ],
        not_reached=[str(node["id"]) for node, _ in asked if node["url"] not in done],
        unknown=unknown,
        total=len(found),
        next_offset=after if after < len(found) else None,
    )


def _problem(found: Found, checked: Checked, redactor: Redactor) -> dict[str, Any]:
    more = {
        "status": checked.status,
        "reason": redactor.text(checked.reason),
        "leadsTo": redactor.url(checked.leads_to),
    }
    said = {name: value for name, value in more.items() if value}
    return {**_reported(found, redactor), "kind": checked.kind, **said}


TOOLS = (bookmark_find_duplicates, bookmark_check_links)
