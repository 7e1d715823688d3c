"""The tools that change files, which the plugin registers unless it is configured read-only.

A call that fails or is cancelled before its last step has changed nothing.

Source: names, arguments, annotations, titles and results of the reference filesystem server (2026.8.31); createOnly is
an addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from msgspec import Meta
from trio.from_thread import check_cancelled

from mcptrio import Context, ToolError, tool
from mcptrio.types import CallToolResult

from .access import FileAccess
from .editing import MAX_EDITS, Edit, Edited, apply_edits, fenced
from .reading import read_bytes
from .results import TEXT, answer
from .sandbox import Sandbox
from .writing import move, replace, write

__all__ = ["EditOperation", "FileChanges"]

_Path = Annotated[str, "A path in an allowed directory; relative paths start at the first allowed directory."]


class EditOperation(TypedDict):
    """One replacement."""

    oldText: Annotated[str, "The text to replace. White space at the start and end of its lines need not match."]
    newText: Annotated[str, "The new text."]


class FileChanges:
    """The changing tools over one file system."""

    def __init__(self, access: FileAccess) -> None:
        self.access = access

    @tool(title="Write File", read_only=False, idempotent=True, destructive=True, open_world=False, output_schema=TEXT)
    async def write_file(
        self,
        ctx: Context,
        path: _Path,
        content: Annotated[str, "The new content; written as UTF-8."],
        createOnly: Annotated[bool, "Fail if something exists at this path."] = False,
    ) -> CallToolResult:
        """Create a file or replace its whole content, atomically. To change a part, use {tool:edit_file}."""
        sandbox = await self.access.sandbox(ctx)
        data = self._encode(content)
        await self.access.run(
            sandbox,
            path,
            lambda: write(sandbox, path, data, create_only=createOnly, checkpoint=check_cancelled),
        )
        return answer(f"Successfully wrote to {path}")

    @tool(title="Edit File", read_only=False, idempotent=False, destructive=True, open_world=False, output_schema=TEXT)
    async def edit_file(
        self,
        ctx: Context,
        path: _Path,
        edits: Annotated[
            list[EditOperation], Meta(max_length=MAX_EDITS, description="The replacements, applied in this order.")
        ],
        dryRun: Annotated[bool, "Show the diff and change nothing."] = False,
    ) -> CallToolResult:
        """Replace parts of a text file and return a git-style diff. Each old text is searched exactly, then
        line by line ignoring white space around each line; its first match is replaced, and the file's
        indentation and line ends are kept. Either all edits are made or none.
        """
        sandbox = await self.access.sandbox(ctx)
        changes = [Edit(edit["oldText"], edit["newText"]) for edit in edits]
        async with self.access.one_at_a_time(path):
            edited = await self.access.run(sandbox, path, lambda: self._edit(sandbox, path, changes, dryRun))
        # Bytes that are no text are kept in the file, but cannot be shown.
        diff = edited.diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return answer(fenced(diff), edited.notes)

    @tool(
        title="Create Directory",
        read_only=False,
        idempotent=True,
        destructive=False,
        open_world=False,
        output_schema=TEXT,
    )
    async def create_directory(self, ctx: Context, path: _Path) -> CallToolResult:
        """Create a directory and its missing parents; does nothing if it exists."""
        sandbox = await self.access.sandbox(ctx)
        await self.access.run(sandbox, path, lambda: sandbox.make_directories(path))
        return answer(f"Successfully created directory {path}")

    @tool(title="Move File", read_only=False, idempotent=False, destructive=True, open_world=False, output_schema=TEXT)
    async def move_file(self, ctx: Context, source: _Path, destination: _Path) -> CallToolResult:
        """Move or rename a file or directory. Fails if something exists at the destination."""
        sandbox = await self.access.sandbox(ctx)
        await self.access.run(sandbox, source, lambda: move(sandbox, source, destination, checkpoint=check_cancelled))
        return answer(f"Successfully moved {source} to {destination}")

    def _edit(self, sandbox: Sandbox, path: str, edits: Sequence[Edit], dry_run: bool) -> Edited:
        file = read_bytes(sandbox, path, limit=self.access.config.max_read_bytes, checkpoint=check_cancelled)
        text = file.data.decode("utf-8", "surrogateescape")
        edited = apply_edits(text, edits, path=file.place.typed, checkpoint=check_cancelled)
        if not dry_run:
            data = self._encode(edited.text)
            replace(sandbox, path, data, file.status, checkpoint=check_cancelled)
        return edited

    def _encode(self, text: str) -> bytes:
        data = text.encode("utf-8", "surrogateescape")
        limit = self.access.config.max_write_bytes
        if len(data) > limit:
            raise ToolError(f"expected a file of at most {limit} bytes, got {len(data)}")
        return data
