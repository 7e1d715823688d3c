"""The tools that change files, which the plugin registers unless it is configured read-only.

A call that fails or is cancelled before its last step changes nothing.

Source: names, annotations and titles of the reference filesystem server (2026.8.31).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta
from trio.from_thread import check_cancelled

from mcptrio import Context, ToolError, tool

from .access import FileAccess
from .editing import MAX_EDITS, Edit, Edited, apply_edits, truncate_diff
from .errors import printable
from .reading import read_bytes
from .results import with_notes
from .sandbox import Sandbox
from .writing import append, move, replace, write

__all__ = ["EditOperation", "FileChanges"]

_Path = Annotated[str, "Absolute, or relative to the first allowed directory."]


class EditOperation(TypedDict):
    """One replacement."""

    old_text: str
    new_text: str
    expected_replacements: NotRequired[
        Annotated[int, Meta(ge=1, description="Replace all matches; fail if there are more or fewer.")]
    ]


class FileChanges:
    """The tools that change files."""

    def __init__(self, access: FileAccess) -> None:
        self.access = access

    @tool(title="Write File", read_only=False, idempotent=True, destructive=True, open_world=False)
    async def write_file(
        self,
        ctx: Context,
        path: _Path,
        content: str,
        mode: Annotated[Literal["replace", "create", "append"], "create fails if the file exists."] = "replace",
    ) -> str:
        """Create a file, replace an existing one completely, or append to it. Atomic. To change a part of a file use
        {tool:edit_file}."""
        sandbox = await self.access.sandbox(ctx)
        config = self.access.config
        data = self._encode(content)
        if mode == "append":
            add = partial(append, sandbox, path, data, limit=config.max_write_bytes, durable=config.durable)
            async with self.access.edit_lock(path):
                await self.access.run(sandbox, path, lambda: add(checkpoint=check_cancelled))
            return f"appended {len(data)} bytes to {printable(path)}"
        put = partial(write, sandbox, path, data, create_only=mode == "create", durable=config.durable)
        await self.access.run(sandbox, path, lambda: put(checkpoint=check_cancelled))
        return f"wrote {len(data)} bytes to {printable(path)}"

    @tool(title="Edit File", read_only=False, idempotent=False, destructive=True, open_world=False)
    async def edit_file(
        self,
        ctx: Context,
        path: _Path,
        edits: Annotated[list[EditOperation], Meta(min_length=1, max_length=MAX_EDITS)],
        dry_run: Annotated[bool, "Only return the diff."] = False,
    ) -> str:
        """Replace texts in a file and return a diff. Each old_text must match exactly; white space around lines is
        ignored if nothing else matches. Only its first match is replaced. All edits apply, in their order, or none."""
        sandbox = await self.access.sandbox(ctx)
        changes = [Edit(edit["old_text"], edit["new_text"], edit.get("expected_replacements")) for edit in edits]
        async with self.access.edit_lock(path):
            edited = await self.access.run(sandbox, path, lambda: self._edit(sandbox, path, changes, dry_run))
        # The file keeps bytes that are not UTF-8, but JSON cannot contain them.
        diff = edited.diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return with_notes(truncate_diff(diff), edited.notes)

    @tool(
        title="Create Directory",
        read_only=False,
        idempotent=True,
        destructive=False,
        open_world=False,
    )
    async def create_directory(self, ctx: Context, path: _Path) -> str:
        """Create a directory with its missing parents."""
        sandbox = await self.access.sandbox(ctx)
        await self.access.run(sandbox, path, lambda: sandbox.make_directories(path))
        return f"created {printable(path)}"

    @tool(title="Move File", read_only=False, idempotent=False, destructive=True, open_world=False)
    async def move_file(self, ctx: Context, source: _Path, destination: _Path) -> str:
        """Move or rename a file or directory. Fails if the destination exists."""
        sandbox = await self.access.sandbox(ctx)
        await self.access.run(sandbox, source, lambda: move(sandbox, source, destination, checkpoint=check_cancelled))
        return f"moved {printable(source)} to {printable(destination)}"

    def _edit(self, sandbox: Sandbox, path: str, edits: Sequence[Edit], dry_run: bool) -> Edited:
        file = read_bytes(sandbox, path, limit=self.access.config.max_read_bytes, checkpoint=check_cancelled)
        text = file.data.decode("utf-8", "surrogateescape")
        edited = apply_edits(text, edits, path=file.location.typed, checkpoint=check_cancelled)
        if not dry_run:
            data = self._encode(edited.text)
            replace(sandbox, path, data, file.status, durable=self.access.config.durable, checkpoint=check_cancelled)
        return edited

    def _encode(self, text: str) -> bytes:
        data = text.encode("utf-8", "surrogateescape")
        limit = self.access.config.max_write_bytes
        if len(data) > limit:
            raise ToolError(f"expected a file of at most {limit} bytes, got {len(data)}")
        return data
