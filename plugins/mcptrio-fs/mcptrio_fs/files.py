"""The tools that read, which the plugin registers.

A tool determines the folders that it may use, then works in threads. It keeps nothing between calls.

Source: names, arguments, annotations, titles and results of the reference filesystem server (2026.8.31). Arguments that
it does not have are optional: offset, limit, cursor, maxDepth.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote, unquote_to_bytes

from msgspec import Meta
from trio.from_thread import check_cancelled

from mcptrio import Context, ToolError, notification, tool
from mcptrio.types import AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent

from .access import SLICE, FileAccess, uri_of
from .errors import printable
from .listing import DirectoryEntry, DirectoryPage, format_size, list_entries
from .patterns import GlobPattern
from .reading import Text, read_bytes, read_head, read_tail, read_text
from .results import MEDIA, TEXT, answer, notes_on
from .sandbox import Sandbox
from .search import Search
from .sizes import fitting, how_many_fit, most_bytes_of_media, share, wire_size
from .tree import Tree

__all__ = ["MAX_PATHS", "Files"]

MAX_PATHS = 200
"""Files in one ``read_multiple_files``."""

_MAX_ERROR_CHARS = 2000
_MAX_LINE_CHARS = 100
"""Characters of the error for one unreadable file, in addition to its path."""
_MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps."""

_Path = Annotated[str, "A path in an allowed directory; relative paths start at the first allowed directory."]
_Head = Annotated[Annotated[int, Meta(ge=0, le=_MAX_SAFE_INTEGER)] | None, "Return only the first N lines."]
_Tail = Annotated[Annotated[int, Meta(ge=0, le=_MAX_SAFE_INTEGER)] | None, "Return only the last N lines."]
_ByteOffset = Annotated[int, Meta(ge=0, le=_MAX_SAFE_INTEGER, description="Start at this byte of the file.")]
# The longest UTF-8 character has four bytes; with a smaller limit, a page could be empty.
_ByteLimit = Annotated[Annotated[int, Meta(ge=4, le=_MAX_SAFE_INTEGER)] | None, "Return at most this many bytes."]
_Offset = Annotated[int, Meta(ge=0, le=_MAX_SAFE_INTEGER, description="Skip this many entries.")]
_Limit = Annotated[Annotated[int, Meta(ge=1, le=_MAX_SAFE_INTEGER)] | None, "Return at most this many entries."]
_Exclude = Annotated[list[str], Meta(max_length=100, description="Glob patterns of entries to leave out.")]


class Files:
    """The reading tools over one file system."""

    def __init__(self, access: FileAccess) -> None:
        self.access = access

    @tool(title="Read File (Deprecated)", read_only=True, open_world=False, output_schema=TEXT)
    async def read_file(
        self,
        ctx: Context,
        path: _Path,
        head: _Head = None,
        tail: _Tail = None,
        offset: _ByteOffset = 0,
        limit:
        # The longest UTF-8 character has four bytes; with a smaller limit, a page could be empty.
        _ByteLimit = None,
    ) -> CallToolResult:
        """Read the contents of a file as text. DEPRECATED: use read_text_file instead."""
        return await self._read(ctx, path, head, tail, offset, limit)

    @tool(title="Read Text File", read_only=True, open_world=False, output_schema=TEXT)
    async def read_text_file(
        self,
        ctx: Context,
        path: _Path,
        head: _Head = None,
        tail: _Tail = None,
        offset: _ByteOffset = 0,
        limit:
        # The longest UTF-8 character has four bytes; with a smaller limit, a page could be empty.
        _ByteLimit = None,
    ) -> CallToolResult:
        """Read a file as UTF-8 text: the whole file, its first lines (head), its last lines (tail), or a part
        (offset and limit, in bytes). The result of a long file is truncated and says how to continue."""
        return await self._read(ctx, path, head, tail, offset, limit)

    @tool(title="Read Media File", read_only=True, open_world=False, output_schema=MEDIA)
    async def read_media_file(self, ctx: Context, path: _Path) -> CallToolResult:
        """Read a file as base64 with its media type: images and audio as image and audio content, other files
        as an embedded resource.
        """
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        limit = min(config.max_read_bytes, most_bytes_of_media(config.max_answer_bytes))
        file = await self.access.run(
            sandbox, path, lambda: read_bytes(sandbox, path, limit=limit, checkpoint=check_cancelled)
        )
        data = base64.b64encode(file.data).decode("ascii")
        kind = file.mime_type.partition("/")[0]
        if kind in ("image", "audio"):
            block = (ImageContent if kind == "image" else AudioContent)(data=data, mime_type=file.mime_type)
            structured = {"type": kind, "data": data, "mimeType": file.mime_type}
            return CallToolResult(content=(block,), structured_content={"content": [structured]})
        uri = uri_of(file.place.typed)
        resource = EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=file.mime_type, blob=data))
        embedded = {"type": "resource", "resource": {"uri": uri, "mimeType": file.mime_type, "blob": data}}
        return CallToolResult(content=(resource,), structured_content={"content": [embedded]})

    @tool(title="Read Multiple Files", read_only=True, open_world=False, output_schema=TEXT)
    async def read_multiple_files(
        self,
        ctx: Context,
        paths: Annotated[
            list[str],
            Meta(min_length=1, max_length=MAX_PATHS, description="Paths of files within allowed directories."),
        ],
    ) -> CallToolResult:
        """Read several files as text in one call. Each text follows its path; an unreadable file does not
        affect the others. All texts together are limited like one file.
        """
        sandbox = await self.access.sandbox(ctx)
        left, room = self.access.config.max_read_bytes, share(self.access.config.max_answer_bytes)
        # There is room for a line about each, also where the files fill the rest.
        room -= sum(wire_size(printable(path)) + _MAX_LINE_CHARS for path in paths)
        parts: list[str] = []
        cut: list[str] = []
        for number, path in enumerate(paths, 1):
            try:
                # One after the other: the room for a file depends on the files before it.
                text = await self._piece(sandbox, path, offset=0, limit=left, most=room) if left and room > 0 else None
            except ToolError as error:
                parts.append(f"{printable(path)}: Error - {str(error)[:_MAX_ERROR_CHARS]}")
            else:
                if text is None or text.cut:
                    cut.append(printable(path))
                parts.append(
                    f"{printable(path)}:\n{text.text}\n" if text else f"{printable(path)}: not read, the answer is full"
                )
                left -= text.end if text else 0
                room -= wire_size(text.text) if text else 0
            await ctx.report_progress(number, total=len(paths))
        notes = (
            [f"cut: not all of {', '.join(cut[:20])}; {ctx.tool_name('read_text_file')} reads them in pieces"]
            if cut
            else []
        )
        return answer("\n---\n".join(parts), notes, {"truncated": True} if cut else {})

    @tool(title="List Directory", read_only=True, open_world=False, output_schema=TEXT)
    async def list_directory(
        self, ctx: Context, path: _Path, offset: _Offset = 0, limit: _Limit = None
    ) -> CallToolResult:
        """List a directory, sorted by name, with [FILE] or [DIR] before each entry. A long list is truncated
        and says how to continue."""
        listing = await self._list(ctx, path, offset, limit, sizes=False, largest_first=False)
        lines = [f"{_kind(entry)} {printable(entry.name)}" for entry in listing.entries]
        return self._answer_listing(lines, listing)

    @tool(title="List Directory with Sizes", read_only=True, open_world=False, output_schema=TEXT)
    async def list_directory_with_sizes(
        self,
        ctx: Context,
        path: _Path,
        sortBy: Annotated[Literal["name", "size"], "Sort entries by name, or by size with the largest first."] = "name",
        offset: _Offset = 0,
        limit: _Limit = None,
    ) -> CallToolResult:
        """List a directory with the size of each file, and the totals of the directory. A long list is
        truncated and says how to continue."""
        listing = await self._list(ctx, path, offset, limit, sizes=True, largest_first=sortBy == "size")
        lines = []
        for entry in listing.entries:
            size = "" if entry.is_directory else format_size(entry.size).rjust(10)
            lines.append(f"{_kind(entry)} {printable(entry.name):30} {size}")
        totals = [
            "",
            f"Total: {listing.files} files, {listing.directories} directories",
            f"Combined size: {format_size(listing.size)}",
        ]
        return self._answer_listing(lines, listing, totals)

    @tool(title="Directory Tree", read_only=True, open_world=False, output_schema=TEXT)
    async def directory_tree(
        self,
        ctx: Context,
        path: _Path,
        excludePatterns: _Exclude = [],  # noqa: B006 (never changed, and shown in the schema)
        maxDepth: Annotated[
            Annotated[int, Meta(ge=1, le=_MAX_SAFE_INTEGER)] | None, "Maximum number of levels."
        ] = None,
        limit: _Limit = None,
    ) -> CallToolResult:
        """Show a directory and its contents as JSON: each entry has name, type (file or directory) and, for a
        directory, children. Upper levels are listed first; a truncated directory has "truncated": true, and the
        result names it.
        """
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        start = await self.access.run(sandbox, path, lambda: sandbox.absolute(path))
        excluded = [GlobPattern.parse(text) for text in excludePatterns]
        bound, most = min(limit or config.max_entries, config.max_entries), share(config.max_answer_bytes)
        visited = 0
        while True:
            tree = Tree(
                sandbox=sandbox,
                start=start,
                excluded=excluded,
                limit=bound,
                max_depth=maxDepth or _MAX_SAFE_INTEGER,
                max_visited=config.max_visited,
            )
            while await self.access.run(sandbox, path, partial(tree.advance, SLICE, check_cancelled)):
                await ctx.report_progress(visited + tree.visited, message=f"{tree.visited} entries looked at")
            shown = json.dumps(tree.nodes, indent=2, ensure_ascii=False)
            size = wire_size(shown)
            if size <= most or tree.count <= 1:
                break
            # A cut tree would be no tree, so build it again for a smaller size.
            visited += tree.visited
            bound = max(1, tree.count * most // size * 9 // 10)
        notes = []
        if tree.cut:
            names = ", ".join(printable(name) for name in tree.unfinished)
            others = f" and {tree.cut - len(tree.unfinished)} more" if tree.cut > len(tree.unfinished) else ""
            notes.append(f"cut: not all of {names}{others}; ask for these directories, or list_directory with offset")
        return answer(shown, notes, {"truncated": True} if notes else {})

    @tool(title="Search Files", read_only=True, open_world=False, output_schema=TEXT)
    async def search_files(
        self,
        ctx: Context,
        path: _Path,
        pattern: Annotated[
            str, "A glob for paths below the directory: '*.py' matches in the directory itself, '**/*.py' at any depth."
        ],
        excludePatterns: _Exclude = [],  # noqa: B006 (never changed, and shown in the schema)
        limit: _Limit = None,
        cursor: Annotated[str | None, "nextCursor of the previous result."] = None,
    ) -> CallToolResult:
        """Search a directory recursively for files and directories whose relative path matches a glob pattern,
        and return their full paths. A long result is truncated and says how to continue."""
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        search = Search(
            sandbox=sandbox,
            start=await self.access.run(sandbox, path, lambda: sandbox.absolute(path)),
            pattern=GlobPattern.parse(pattern),
            excluded=[GlobPattern.parse(text) for text in excludePatterns],
            limit=min(limit or config.max_entries, config.max_entries),
            max_visited=config.max_visited,
            max_bytes=share(config.max_answer_bytes),
            after=tuple(os.fsdecode(unquote_to_bytes(cursor)).split("/")) if cursor else (),
        )
        while await self.access.run(sandbox, path, partial(search.advance, SLICE, check_cancelled)):
            await ctx.report_progress(
                search.visited, message=f"{search.visited} entries looked at, {len(search.found)} found"
            )
        notes, more = [], {}
        if search.cut is not None:
            next_cursor = quote(os.fsencode(search.cut))
            notes.append(f"cut: after {search.visited} entries; go on with cursor={next_cursor}")
            more = {"truncated": True, "nextCursor": next_cursor}
        if search.skipped:
            notes.append(f"{search.skipped} directories could not be listed")
        return answer("\n".join(printable(name) for name in search.found) or "No matches found", notes, more)

    @tool(title="Get File Info", read_only=True, open_world=False, output_schema=TEXT)
    async def get_file_info(self, ctx: Context, path: _Path) -> CallToolResult:
        """Get the metadata of a file or directory without reading it: size, times, type and permissions."""
        sandbox = await self.access.sandbox(ctx)
        status, _ = await self.access.run(sandbox, path, lambda: sandbox.status(path))
        # Linux keeps the time of creation where the standard library does not reach it before Python 3.15.
        created = getattr(status, "st_birthtime", None)
        lines = {
            "size": status.st_size,
            "created": "unknown" if created is None else _time(created),
            "modified": _time(status.st_mtime),
            "accessed": _time(status.st_atime),
            "isDirectory": str(stat.S_ISDIR(status.st_mode)).lower(),
            "isFile": str(stat.S_ISREG(status.st_mode)).lower(),
            "permissions": f"{status.st_mode & 0o777:03o}",
        }
        return answer("\n".join(f"{name}: {value}" for name, value in lines.items()))

    @tool(title="List Allowed Directories", read_only=True, open_world=False, output_schema=TEXT)
    async def list_allowed_directories(self, ctx: Context) -> CallToolResult:
        """List the directories that the other tools can access, with everything below them. Call it after a path was
        refused."""
        sandbox = await self.access.sandbox(ctx)
        lines = []
        for folder in sandbox.folders:
            lines.append(printable(folder.path))
            try:
                real = await self.access.run(sandbox, folder.path, folder.real)
            except ToolError:
                continue  # it hangs; its name is known all the same
            if real != folder.path:
                lines.append(printable(real))
        return answer("Allowed directories:\n" + "\n".join(dict.fromkeys(lines)))

    @notification("notifications/roots/list_changed")
    async def roots_changed(self) -> None:
        """Request the roots again at the next call. The notification does not name the client, so all are dropped."""
        self.access.forget_roots()

    async def _read(
        self, ctx: Context, path: str, head: int | None, tail: int | None, offset: int, limit: int | None
    ) -> CallToolResult:
        if head and tail:
            raise ToolError("expected head or tail, got both")
        if tail and offset:
            raise ToolError("expected tail or offset, got both")
        sandbox = await self.access.sandbox(ctx)
        bound = min(limit or self.access.config.max_read_bytes, self.access.config.max_read_bytes)
        most = share(self.access.config.max_answer_bytes)

        async def read(bound: int) -> Text:
            if tail:
                last = partial(read_tail, sandbox, path, lines=tail, limit=bound, checkpoint=check_cancelled)
                return await self.access.run(sandbox, path, last)
            assert head
            first = partial(
                read_head, sandbox, path, lines=head, offset=offset, limit=bound, checkpoint=check_cancelled
            )
            return await self.access.run(sandbox, path, first)

        if head or tail:
            text = await fitting(read, bound, most)
        else:
            text = await self._piece(sandbox, path, offset=offset, limit=bound, most=most)
        notes, more = notes_on(text, from_end=bool(tail))
        return answer(text.text, notes, more)

    async def _piece(self, sandbox: Sandbox, path: str, *, offset: int, limit: int, most: int) -> Text:
        async def read(bound: int) -> Text:
            piece = partial(read_text, sandbox, path, offset=offset, limit=bound, checkpoint=check_cancelled)
            return await self.access.run(sandbox, path, piece)

        return await fitting(read, limit, most)

    def _answer_listing(
        self, lines: Sequence[str], listing: DirectoryPage, totals: Sequence[str] = ()
    ) -> CallToolResult:
        """
        Args:
            lines: one for each entry.
        """
        count = how_many_fit(lines, share(self.access.config.max_answer_bytes))
        end = listing.offset + count
        text = "\n".join([*lines[:count], *totals])
        if end >= listing.total:
            return answer(text)
        note = f"cut: entries {listing.offset} to {end} of {listing.total}; go on with offset={end}"
        return answer(text, [note], {"truncated": True, "nextOffset": end, "total": listing.total})

    async def _list(
        self, ctx: Context, path: str, offset: int, limit: int | None, *, sizes: bool, largest_first: bool
    ) -> DirectoryPage:
        sandbox = await self.access.sandbox(ctx)
        bound = min(limit or self.access.config.max_entries, self.access.config.max_entries)
        return await self.access.run(
            sandbox,
            path,
            lambda: list_entries(
                sandbox,
                path,
                offset=offset,
                limit=bound,
                sizes=sizes,
                largest_first=largest_first,
                checkpoint=check_cancelled,
            ),
        )


def _kind(entry: DirectoryEntry) -> str:
    return "[DIR]" if entry.is_directory else "[FILE]"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
