"""Tools that bring bookmarks in from files and write them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio import move_on_after, to_thread
from pydantic import Field

from pilothouse.bookmarks.changes.apply import CHANGING, carry_out
from pilothouse.bookmarks.changes.batch import ChangeList
from pilothouse.bookmarks.changes.change import Change, Create, reference
from pilothouse.bookmarks.files.files import (
    Format,
    changes_of,
    read_bookmarks,
    read_file,
    write_file,
    written,
)
from pilothouse.bookmarks.files.node import Saved, every, saved_of
from pilothouse.bookmarks.model import AmbiguousPath, InvalidUrl
from pilothouse.bookmarks.ports import Bookmarks
from pilothouse.bookmarks.tools.shared import ADDRESSED, BOOKMARKS, BookmarkArgs
from pilothouse.bookmarks.tree.mask import mask
from pilothouse.bookmarks.tree.paths import find
from pilothouse.bookmarks.tree.tree import counts, flat
from pilothouse.bookmarks.tree.urls import check_url, same_key
from pilothouse.core.declare.faults import InvalidInput, PermissionDenied
from pilothouse.core.declare.model import Result
from pilothouse.core.declare.tool import Example, Progress, tool
from pilothouse.core.net.url_policy import cleaned_url, scheme_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.bookmarks.model import Node
    from pilothouse.core.declare.fence import Story

MOST_INLINE = 200_000
MOST_IMPORTED = 20_000
_SHOWN = 20
_REPORTED_EACH = 100
"""Thousands take longer than some clients wait for a sign of life."""
_REPORTED_WITHIN_S = 1.0
FOLDER = "Imported"


class Export(BookmarkArgs):
    folder_id: str | None = Field(default=None, description="Only this folder, id or path")
    format: Format = Field(default="html", description="html is what every browser imports")
    inline: bool = Field(default=False, description="Answer with the text, too")


class ExportedBookmarks(Result):
    path: str = Field(description="The file")
    bookmarks: int = Field(description="Bookmarks in it")
    folders: int = Field(description="Folders in it")
    bytes: int = Field(description="Its size")
    masked: int = Field(description="Titles and URLs in which a secret is masked")
    content: str | None = Field(default=None, description="The text, if asked for")

    def tell(self, story: Story) -> None:
        story.say(
            f"Wrote {self.bookmarks} bookmarks in {self.folders} folders ({self.bytes} bytes)."
        )
        if self.masked:
            story.say(f"{self.masked} texts have a mask in place of a secret: they do not import.")
        story.quote("path", self.path)
        if self.content is not None:
            story.quote("content", self.content)


@tool(
    BOOKMARKS,
    effect="read",
    idempotent=True,
    own=True,
    raises=ADDRESSED,
    examples=(Example(title="A folder as JSON", args={"folderId": "Bar", "format": "json"}),),
)
async def bookmark_export(args: Export, bookmarks: Bookmarks) -> ExportedBookmarks:
    """Write bookmarks to a file."""
    peer = bookmarks.profile(args.profile).peer
    if args.folder_id is None:
        nodes = (await peer.ask("getTree"))[0].get("children") or []
    else:
        id = await find(peer, args.folder_id, field="folderId")
        nodes = await peer.ask("getSubTree", {"id": id})
    hidden = mask(nodes, bookmarks.redactor)

    def write() -> tuple[str, str]:
        text = written(saved_of(nodes), args.format)
        return text, str(write_file(bookmarks.export_folder(), args.format, text))

    text, path = await to_thread.run_sync(write)
    if args.inline and len(text) > MOST_INLINE:
        raise InvalidInput(
            f"the text has {len(text)} characters, too many to answer with",
            hint=f"leave inline out, or export a folder; the file is there: {path}",
            field="inline",
            expected=f"at most {MOST_INLINE} characters",
        )
    return ExportedBookmarks(
        **counts(nodes),
        path=path,
        bytes=len(text.encode("utf-8", "replace")),
        masked=hidden,
        content=text if args.inline else None,
    )


class Import(BookmarkArgs):
    path: str | None = Field(default=None, description="File: HTML of any browser, or JSON")
    content: str | None = Field(default=None, description="Its text instead")
    parent_id: str | None = Field(
        default=None, description="Into this folder; default a new one, Imported"
    )
    create_folders: bool | None = Field(default=None, description="Make missing ones")
    skip_existing: bool = Field(default=False, description="Leave out URLs that are there")


class Imported(Result):
    folder_id: str | None = Field(default=None, description="Where they are")
    bookmarks: int = Field(description="Bookmarks made")
    folders: int = Field(description="Folders made")
    skipped: int = Field(description="Bookmarks left out")
    examples: list[dict[str, Any]] = Field(description="The first of those left out, and why")
    entry: str = Field(description="For bookmark_undo")

    def tell(self, story: Story) -> None:
        story.say(f"Made {self.bookmarks} bookmarks and {self.folders} folders.")
        story.say("Their dates are those of now: Chrome lets nobody set them.")
        if self.entry:
            story.say(f"bookmark_undo with entry {self.entry} takes all of it back.")
        if self.skipped:
            story.say(f"Left out: {self.skipped}.")
            story.quote("left out", self.examples)
        story.quote("folderId", self.folder_id)


@tool(
    BOOKMARKS,
    effect="write",
    own=True,
    raises=(*CHANGING, AmbiguousPath, PermissionDenied),
    examples=(Example(title="A file", args={"path": "bookmarks.html", "skipExisting": True}),),
)
async def bookmark_import(args: Import, bookmarks: Bookmarks, progress: Progress) -> Imported:
    """Import bookmarks from a file, all or none of them."""
    profile = bookmarks.profile(args.profile)
    saved = await _saved(args, bookmarks)
    nodes = await profile.peer.ask("getTree") if args.skip_existing else []
    left_out: list[tuple[Saved, str]] = []
    kept = await to_thread.run_sync(lambda: _without(saved, _pages(nodes), left_out))
    plan = ChangeList(profile.peer, makes_folders=bool(args.create_folders))
    if args.parent_id is None:
        plan.made.append(Create(None, FOLDER))
        target = "$1"
    else:
        target = await plan.folder(args.parent_id)
    made = changes_of(kept, target, len(plan.made))
    if len(made) > MOST_IMPORTED:
        raise InvalidInput(
            f"the file has {len(made)} bookmarks and folders",
            hint="import it in parts",
            field="path",
            expected=f"at most {MOST_IMPORTED}",
        )
    changes: list[Change] = [*plan.made, *made] if made else []

    async def tell(done: int, total: int) -> None:
        if done % _REPORTED_EACH == 0 or done == total:
            # A client that does not read must not keep others from changing bookmarks.
            with move_on_after(_REPORTED_WITHIN_S):
                await progress(done, total, "made")

    try:
        done = await carry_out(profile, "bookmark_import", bookmarks.session, changes, tell=tell)
    except InvalidUrl as fault:
        raise _which(fault, changes) from None
    bookmarks_made = sum(one.url is not None for one in made)
    return Imported(
        folder_id=_id_of(target, done.nodes),
        bookmarks=bookmarks_made,
        folders=len(changes) - bookmarks_made,
        skipped=len(left_out),
        examples=[
            {
                "title": bookmarks.redactor.text(one.title),
                "url": bookmarks.redactor.url((one.url or "")[:300]),
                "reason": reason,
            }
            for one, reason in left_out[:_SHOWN]
        ],
        entry=done.entry,
    )


def _id_of(target: str, nodes: Sequence[Node | None]) -> str | None:
    """Return the id of the folder that they are in; None if there was nothing to make it for."""
    number = reference(target)
    if number is None:
        return target
    made = nodes[number - 1] if nodes else None
    return str(made["id"]) if made else None


async def _saved(args: Import, bookmarks: Bookmarks) -> list[Saved]:
    if (args.path is None) == (args.content is None):
        raise InvalidInput(
            "path or content is required, and only one of them",
            hint="give the path of a file, or its text as content",
            field="path",
            expected="path or content",
        )
    content, path = args.content, args.path

    def read() -> list[Saved]:
        if content is not None:
            return read_bookmarks(content)
        roots = [*bookmarks.file_roots(), bookmarks.export_folder()]
        return read_bookmarks(read_file(path or "", roots))

    # An export of thousands takes seconds to read.
    found = await to_thread.run_sync(read)
    if not any(True for _ in every(found)):
        raise InvalidInput(
            "there are no bookmarks in it",
            hint="give Netscape HTML as browsers export it, or JSON as bookmark_export writes it",
            field="content" if args.path is None else "path",
        )
    return found


def _pages(nodes: Sequence[Node]) -> set[str]:
    return {same_key(node["url"], strict=True) for node in flat(nodes) if "url" in node}


def _without(
    saved: Sequence[Saved], there: set[str], left_out: list[tuple[Saved, str]]
) -> list[Saved]:
    """Return what can be imported; what cannot goes to `left_out` with the reason."""
    kept = []
    for one in saved:
        if one.url is None:
            one.children = _without(one.children, there, left_out)
            kept.append(one)
            continue
        reason = _reason(one.url)
        if not reason and same_key(one.url, strict=True) in there:
            reason = "it is there already"
        if reason:
            left_out.append((one, reason))
        else:
            kept.append(one)
    return kept


def _reason(url: str) -> str:
    """Return why a URL cannot be imported; empty if it can."""
    if scheme_of(cleaned_url(url)) == "place":
        return "it is a search of Firefox, not an address"
    try:
        check_url(url)
    except InvalidUrl as fault:
        return fault.message
    return ""


def _which(fault: InvalidUrl, changes: Sequence[Change]) -> InvalidUrl:
    """Return the same fault, naming the bookmark that Chrome refused."""
    number = fault.details.get("change")
    change = changes[number - 1] if isinstance(number, int) else None
    if not isinstance(change, Create):
        return fault
    hint = "take this bookmark out of the file, then import it again"
    return InvalidUrl(fault.message, hint=hint, title=change.title, url=change.url)


TOOLS = (bookmark_import, bookmark_export)
