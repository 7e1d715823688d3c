"""A plugin with state: an object whose methods are tools, resources and a prompt, with settings and subscriptions.

Run it: mcptrio serve --stdio --plugin examples/notes.py
To save the notes, add this to mcptrio.toml:

    [plugins.notes]
    file = "notes.json"
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import trio
from attrs import frozen

from mcptrio import Context, ResourceNotFound, ToolError, completion, lifespan, prompt, resource, tool

__all__ = ["Config", "Notes"]

MAX_NOTES = 1000


@frozen(kw_only=True)
class Config:
    """The settings in ``[plugins.notes]``.

    Args:
        file: Read when the server starts, and written when it stops; ``None`` keeps the notes in memory.
    """

    file: Path | None = None


class Notes:
    def __init__(self, config: Config) -> None:
        self._file = config.file
        self._texts: dict[str, str] = {}

    @tool(read_only=False, destructive=False)
    async def write(self, ctx: Context, name: str, text: str) -> str:
        """Write a note. A note of the same name is replaced."""
        if name not in self._texts and len(self._texts) >= MAX_NOTES:
            raise ToolError(f"there are {MAX_NOTES} notes already: delete one first")
        self._texts[name] = text
        # Notify the subscribers, in every revision.
        ctx.notify_resource_updated(f"notes:///{name}")
        return f"{len(self._texts)} notes"

    @tool(read_only=True)
    async def search(self, words: str) -> list[str]:
        """List the names of the notes that contain these words."""
        return [name for name, text in self._texts.items() if words.lower() in text.lower()]

    @tool(read_only=False, destructive=True, idempotent=True)
    async def delete(self, ctx: Context, name: str) -> str:
        """Delete a note."""
        if self._texts.pop(name, None) is None:
            raise ToolError(f"there is no note {name!r}")
        ctx.notify_resource_updated(f"notes:///{name}")
        return "deleted"

    @resource("notes:///{name}", mime_type="text/markdown")
    async def read(self, name: str) -> str:
        """One note."""
        if name not in self._texts:
            raise ResourceNotFound(f"notes:///{name}")
        return self._texts[name]

    @completion("resource", "notes:///{name}", "name")
    async def names(self) -> list[str]:
        return list(self._texts)

    @prompt
    async def summarize(self, name: str) -> str:
        """Summarize a note."""
        return f"Summarize in one sentence:\n\n{await self.read(name)}"

    @lifespan
    async def load_and_save(self) -> AsyncGenerator[None]:
        file = None if self._file is None else trio.Path(self._file)
        if file is not None and await file.exists():
            self._texts.update(json.loads(await file.read_text("utf-8")))
        try:
            yield
        finally:
            if file is not None:
                with trio.move_on_after(5, shield=True):
                    await file.write_text(json.dumps(self._texts), "utf-8")
