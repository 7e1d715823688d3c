"""The tools that read, which the plugin registers.

A tool determines the allowed folders of the call, and then accesses them in threads. Tools keep no state between calls.

Source: names, annotations and titles of the reference filesystem server (2026.8.31).
"""

from __future__ import annotations

import base64
import os
import stat
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote, unquote_to_bytes

from msgspec import UNSET, Meta
from trio.from_thread import check_cancelled

from mcptrio import Context, ToolError, notification, tool
from mcptrio.types import AudioContent, BlobResourceContents, CallToolResult, EmbeddedResource, ImageContent

from .access import SLICE_SECONDS, FileAccess, uri_of
from .content_search import ContentSearch
from .errors import printable
from .examples import in_first_folder
from .line_pattern import LinePattern
from .listing import DirectoryPage, list_entries
from .patterns import GlobPattern
from .reading import Text, read_bytes, read_lines, read_tail, read_text
from .results import (
    Details,
    DirectoryListing,
    Found,
    ListedEntry,
    SizedListing,
    details_text,
    found_text,
    listing_text,
    part_text,
    sizes_text,
    with_notes,
)
from .sandbox import Sandbox
from .search import Search
from .sizes import MAX_TEXT_BYTES, how_many_fit, max_media_bytes, read_fitting, wire_size
from .tree import Tree

__all__ = ["MAX_PATHS", "Files"]

MAX_PATHS = 100
"""Maximum number of files in one ``read_multiple_files``."""

_MAX_ERROR_CHARS = 300
_MAX_LINE_CHARS = 40
"""Maximum length of the line for a file that does not fit, without its path."""
_MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader preserves. It is a valid file offset."""
_MAX_GLOBS = 100
_MAX_CONTEXT = 50
"""Maximum number of lines before and after a match; read_text_file shows more."""

_Path = Annotated[str, "Absolute, or relative to the first allowed directory."]
_ByteOffset = Annotated[int, Meta(ge=0, description="Byte to start at, from a truncated answer.")]
# The longest UTF-8 character has four bytes; with a smaller limit, a page could be empty.
_ByteLimit = Annotated[int, Meta(ge=4, description="Maximum bytes.")]
_Offset = Annotated[int, Meta(ge=0, description="Entries to skip.")]
_Limit = Annotated[int, Meta(ge=1, description="Maximum entries.")]
_Exclude = Annotated[list[str], "Globs of paths to leave out."]


class Files:
    """The tools that read files and directories."""

    def __init__(self, access: FileAccess) -> None:
        self.access = access

    @tool(title="Read Text File", read_only=True, open_world=False)
    async def read_text_file(
        self,
        ctx: Context,
        path: _Path,
        start_line: Annotated[int, "First line, from 1; -20 reads the last 20 lines."] = 1,
        end_line: Annotated[int, Meta(ge=0, description="Last line; 0 is the end of the file.")] = 0,
        offset: _ByteOffset = 0,
        limit: _ByteLimit = MAX_TEXT_BYTES,
    ) -> str:
        """Read a text file, or some of its lines. A long file is truncated after about 36,000 bytes; the last line says
        how to continue."""
        if offset and (start_line != 1 or end_line):
            raise ToolError("expected offset or lines, got both")
        if start_line < 0 < end_line:
            raise ToolError(f"expected end_line only with a start_line from 1, got start_line={start_line}")
        first = max(start_line, 1)
        if 0 < end_line < first:
            raise ToolError(f"expected an end_line >= start_line, got start_line={first} and end_line={end_line}")
        sandbox = await self.access.sandbox(ctx)
        bound = min(limit, MAX_TEXT_BYTES, self.access.config.max_read_bytes)
        if start_line >= 0 and first == 1 and not end_line:
            return part_text(await self._piece(sandbox, path, offset=offset, limit=bound, max_bytes=MAX_TEXT_BYTES))

        async def read(bound: int) -> Text:
            if start_line < 0:
                count = min(-start_line, _MAX_SAFE_INTEGER)
                last = partial(read_tail, sandbox, path, lines=count, limit=bound, checkpoint=check_cancelled)
                return await self.access.run(sandbox, path, last)
            count = (end_line or _MAX_SAFE_INTEGER) - first + 1
            lines = partial(
                read_lines, sandbox, path, first=first, count=count, limit=bound, checkpoint=check_cancelled
            )
            return await self.access.run(sandbox, path, lines)

        return part_text(await read_fitting(read, bound, MAX_TEXT_BYTES), from_end=start_line < 0)

    @tool(title="Read Media File", read_only=True, open_world=False)
    async def read_media_file(self, ctx: Context, path: _Path) -> CallToolResult:
        """Read an image, audio or other binary file as base64 with its media type."""
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        limit = min(config.max_read_bytes, max_media_bytes(config.max_answer_bytes))
        file = await self.access.run(
            sandbox, path, lambda: read_bytes(sandbox, path, limit=limit, checkpoint=check_cancelled)
        )
        data = base64.b64encode(file.data).decode("ascii")
        kind = file.mime_type.partition("/")[0]
        if kind in ("image", "audio"):
            block = (ImageContent if kind == "image" else AudioContent)(data=data, mime_type=file.mime_type)
            return CallToolResult(content=(block,))
        contents = BlobResourceContents(uri=uri_of(file.location.typed), mime_type=file.mime_type, blob=data)
        return CallToolResult(content=(EmbeddedResource(resource=contents),))

    @tool(title="Read Multiple Files", read_only=True, open_world=False)
    async def read_multiple_files(
        self, ctx: Context, paths: Annotated[list[str], Meta(min_length=1, max_length=MAX_PATHS)]
    ) -> str:
        """Read several small text files, each after a line with its path. They share the size of one answer; a file
        that cannot be read does not affect the others."""
        sandbox = await self.access.sandbox(ctx)
        # Reserve a line for each file, even if the first files fill the rest of the answer.
        room = MAX_TEXT_BYTES - sum(wire_size(printable(path)) + _MAX_LINE_CHARS for path in paths)
        left = self.access.config.max_read_bytes
        parts: list[str] = []
        cut: list[str] = []
        for number, path in enumerate(paths, 1):
            name = printable(path)
            try:
                # One after the other, because the room for a file depends on the size of those before it.
                text = (
                    await self._piece(sandbox, path, offset=0, limit=left, max_bytes=room)
                    if left and room > 3
                    else None
                )
            except ToolError as error:
                parts.append(f"==> {name}\nerror: {str(error)[: min(max(room, 0), _MAX_ERROR_CHARS)]}")
                room -= len(parts[-1])
            else:
                if text is None or text.cut:
                    cut.append(name)
                parts.append(f"==> {name}\n{text.text.removesuffix(chr(10)) if text else 'not read'}")
                left -= text.end if text else 0
                room -= wire_size(text.text) if text else 0
            await ctx.report_progress(number, total=len(paths))
        reader = ctx.tool_name("read_text_file")
        notes = [f"files cut: {len(cut)}, the first is {cut[0]}; {reader} reads them"] if cut else []
        return with_notes("\n".join(parts), notes)

    @tool(title="List Directory", read_only=True, examples=in_first_folder(), open_world=False, text=listing_text)
    async def list_directory(
        self, ctx: Context, path: _Path, offset: _Offset = 0, limit: _Limit = 2000
    ) -> DirectoryListing:
        """List a directory by name; directories end with a slash."""
        page = await self._page(await self.access.sandbox(ctx), path, offset, limit)
        names = [printable(f"{entry.name}/" if entry.is_directory else entry.name) for entry in page.entries]
        names = names[: how_many_fit(names, MAX_TEXT_BYTES)]
        end = offset + len(names)
        following = end if end < page.total else UNSET
        return DirectoryListing(entries=names, offset=offset, total=page.total, next_offset=following)

    @tool(
        title="List Directory with Sizes", read_only=True, examples=in_first_folder(), open_world=False, text=sizes_text
    )
    async def list_directory_with_sizes(
        self,
        ctx: Context,
        path: _Path,
        sort_by: Literal["name", "size"] = "name",
        offset: _Offset = 0,
        limit: _Limit = 2000,
    ) -> SizedListing:
        """List a directory with the size of each file, by name or with the largest first."""
        sandbox = await self.access.sandbox(ctx)
        page = await self._page(sandbox, path, offset, limit, sizes=True, largest_first=sort_by == "size")
        entries = [ListedEntry.of(entry) for entry in page.entries]
        entries = entries[: how_many_fit([entry.line for entry in entries], MAX_TEXT_BYTES)]
        end = offset + len(entries)
        following = end if end < page.total else UNSET
        return SizedListing(entries=entries, offset=offset, total=page.total, bytes=page.size, next_offset=following)

    @tool(title="Directory Tree", read_only=True, examples=in_first_folder(), open_world=False)
    async def directory_tree(
        self,
        ctx: Context,
        path: _Path,
        exclude: _Exclude = [],  # noqa: B006 (never changed, and shown in the schema)
        max_depth: Annotated[int, Meta(ge=1, description="Maximum levels.")] = 100,
        limit: _Limit = 2000,
    ) -> str:
        """List a directory recursively, indented by level. The deepest levels of a large tree are left
        out; a directory that is not expanded ends with "/ ..."."""
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        start = await self.access.run(sandbox, path, lambda: sandbox.absolute(path))
        excluded = _patterns(exclude)
        bound = min(limit, config.max_entries)
        visited = 0
        while True:
            tree = Tree(
                sandbox=sandbox,
                start=start,
                excluded=excluded,
                limit=bound,
                max_depth=max_depth,
                max_visited=config.max_visited,
            )
            while await self.access.run(sandbox, path, partial(tree.advance, SLICE_SECONDS, check_cancelled)):
                await ctx.report_progress(visited + tree.visited, message=f"{tree.visited} entries looked at")
            text = tree.text()
            size = wire_size(text)
            if size <= MAX_TEXT_BYTES or tree.count <= 1:
                break
            # The text of a tree cannot be cut, so build a smaller tree.
            visited += tree.visited
            bound = max(1, tree.count * MAX_TEXT_BYTES // size * 9 // 10)
        if not tree.unfinished:
            return text or "empty"
        return with_notes(
            text, [f"directories not expanded: {tree.unfinished}; ask for one of them, or exclude others"]
        )

    @tool(
        title="Search Files",
        read_only=True,
        examples=in_first_folder(pattern="**/*"),
        open_world=False,
        text=found_text,
    )
    async def search_files(
        self,
        ctx: Context,
        path: _Path,
        pattern: Annotated[str, "Glob relative to path: '*.py' matches only there, '**/*.py' at any depth."],
        exclude: _Exclude = [],  # noqa: B006 (never changed, and shown in the schema)
        limit: _Limit = 2000,
        cursor: Annotated[str, "From the previous answer."] = "",
    ) -> Found:
        """Find files and directories by name, with a glob for their paths below a directory."""
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        search = Search(
            sandbox=sandbox,
            start=await self.access.run(sandbox, path, lambda: sandbox.absolute(path)),
            patterns=[GlobPattern.parse(pattern)],
            excluded=_patterns(exclude),
            limit=min(limit, config.max_entries),
            max_visited=config.max_visited,
            max_bytes=MAX_TEXT_BYTES,
            after=tuple(os.fsdecode(unquote_to_bytes(cursor)).split("/")) if cursor else (),
        )
        while await self.access.run(sandbox, path, partial(search.advance, SLICE_SECONDS, check_cancelled)):
            await ctx.report_progress(
                search.visited, message=f"{search.visited} entries looked at, {len(search.found)} found"
            )
        notes = []
        next_cursor = UNSET if search.resume_after is None else quote(os.fsencode(search.resume_after))
        if next_cursor is not UNSET:
            notes.append(f"{search.visited} entries looked at; continue with cursor={next_cursor}")
        elif not search.found and not cursor:
            notes.append("no matches")
            if not pattern.startswith(("**/", "!")):
                notes[-1] += f"; to search all levels below {printable(path)}, use the pattern **/{pattern}"
        if search.skipped:
            notes.append(f"directories that could not be listed: {search.skipped}")
        paths = [_as_typed(found, search.start, path) for found in search.found]
        return Found(paths=paths, notes=notes, next_cursor=next_cursor)

    @tool(title="Grep", read_only=True, examples=in_first_folder(pattern="."), open_world=False)
    async def grep(
        self,
        ctx: Context,
        path: _Path,
        pattern: Annotated[str, "Regular expression for one line."],
        include: Annotated[list[str], "Globs of files: '*.py' at any depth, 'src/**/*.py' from path."] = [],  # noqa: B006
        exclude: _Exclude = [],  # noqa: B006
        ignore_case: bool = False,
        fixed_strings: Annotated[bool, "Search literally."] = False,
        context: Annotated[int, Meta(ge=0, description="Lines around each match.")] = 0,
        limit: Annotated[int, Meta(ge=1, description="Maximum matches.")] = 200,
        cursor: Annotated[str, "From the previous answer."] = "",
    ) -> str:
        """Search the contents of text files: returns matching lines as number:text below the path of their file."""
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        search = ContentSearch(
            sandbox=sandbox,
            start=await self.access.run(sandbox, path, lambda: sandbox.absolute(path)),
            shown=path,
            pattern=await self.access.run(
                sandbox, path, lambda: LinePattern.parse(pattern, ignore_case=ignore_case, fixed_strings=fixed_strings)
            ),
            included=_patterns(include, any_depth=True),
            excluded=[*_patterns(exclude, any_depth=True), GlobPattern.parse("**/.git")],
            context=min(context, _MAX_CONTEXT),
            limit=min(limit, config.max_entries),
            max_visited=config.max_visited,
            max_file_bytes=config.max_read_bytes,
            max_bytes=MAX_TEXT_BYTES,
            cursor=cursor,
        )
        while await self.access.run(sandbox, path, partial(search.advance, SLICE_SECONDS, check_cancelled)):
            await ctx.report_progress(
                search.searched, message=f"{search.searched} files searched, {search.found} lines found"
            )
        return with_notes("\n".join(search.lines), search.notes)

    @tool(title="Get File Info", read_only=True, examples=in_first_folder(), open_world=False, text=details_text)
    async def get_file_info(self, ctx: Context, path: _Path) -> Details:
        """Get type, size, times and permissions of a file or directory."""
        sandbox = await self.access.sandbox(ctx)
        status, _ = await self.access.run(sandbox, path, lambda: sandbox.status(path))
        created: float | None = getattr(status, "st_birthtime", None)
        if created is None:
            created = await self.access.run(sandbox, path, lambda: sandbox.creation_time(path))
        is_directory, is_file = stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)
        return Details(
            type="directory" if is_directory else "file" if is_file else "other",
            size=status.st_size,
            created=UNSET if created is None else _time(created),
            modified=_time(status.st_mtime),
            accessed=_time(status.st_atime),
            permissions=f"{status.st_mode & 0o777:03o}",
        )

    @tool(
        title="List Allowed Directories",
        read_only=True,
        examples=lambda files: [{}] if files.access.config.folders else [],
        open_world=False,
    )
    async def list_allowed_directories(self, ctx: Context) -> str:
        """List the directories that this server may access, including their subdirectories."""
        sandbox = await self.access.sandbox(ctx)
        lines = []
        for folder in sandbox.folders:
            lines.append(printable(folder.path))
            try:
                real = await self.access.run(sandbox, folder.path, folder.real)
            except ToolError:
                continue  # the folder does not answer, so only its configured path is listed
            if real != folder.path:
                lines.append(printable(real))
        return "\n".join(dict.fromkeys(lines))

    @notification("notifications/roots/list_changed")
    async def roots_changed(self) -> None:
        """Drop all cached roots, because the notification does not name the client."""
        self.access.clear_roots_cache()

    async def _piece(self, sandbox: Sandbox, path: str, *, offset: int, limit: int, max_bytes: int) -> Text:
        offset = min(offset, _MAX_SAFE_INTEGER)

        async def read(bound: int) -> Text:
            piece = partial(read_text, sandbox, path, offset=offset, limit=bound, checkpoint=check_cancelled)
            return await self.access.run(sandbox, path, piece)

        return await read_fitting(read, limit, max_bytes)

    async def _page(
        self, sandbox: Sandbox, path: str, offset: int, limit: int, *, sizes: bool = False, largest_first: bool = False
    ) -> DirectoryPage:
        listed = partial(list_entries, sandbox, path, offset=offset, limit=min(limit, self.access.config.max_entries))
        return await self.access.run(
            sandbox, path, lambda: listed(sizes=sizes, largest_first=largest_first, checkpoint=check_cancelled)
        )


def _patterns(texts: list[str], *, any_depth: bool = False) -> list[GlobPattern]:
    """Compile globs.

    Args:
        any_depth: A glob without a slash matches the name at any depth, as in ripgrep.
    """
    if len(texts) > _MAX_GLOBS:
        raise ToolError(f"expected at most {_MAX_GLOBS} globs, got {len(texts)}")
    return [GlobPattern.parse(f"**/{text}" if any_depth and text and "/" not in text else text) for text in texts]


def _as_typed(name: str, start: str, path: str) -> str:
    """Return a found path as an argument for the next call. Below a relative directory it is relative."""
    return printable(os.path.normpath(os.path.join(path, os.path.relpath(name, start))))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
