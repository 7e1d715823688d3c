"""The tool ``rename``, which changes files."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import trio
from attrs import field, frozen
from msgspec import Meta

from mcptrio import ToolError, tool

from .code_lines import Line, Path, Symbol
from .edits import FileEdit, diff_of, edits_of, read_edits
from .servers import LanguageServers
from .session import LanguageSession
from .symbols import positions_of

__all__ = ["RenameTool", "SymbolRename"]

_MAX_DIFF_CHARS: Final = 36_000


@frozen(kw_only=True)
class SymbolRename:
    """The changes of a rename."""

    applied: bool
    files: tuple[str, ...]
    places: int
    diff: str


def _rename_text(rename: SymbolRename) -> str:
    diff = rename.diff
    if len(diff) > _MAX_DIFF_CHARS:
        diff = f"{diff[:_MAX_DIFF_CHARS]}\n[the diff is cut; files: {', '.join(rename.files)}]"
    how = "changed" if rename.applied else "would change with apply=true"
    return f"{diff}\n[{rename.places} places in {len(rename.files)} files {how}]"


@frozen(eq=False)
class RenameTool:
    """The tool ``rename``."""

    servers: LanguageServers
    _rename_lock: trio.Lock = field(init=False, factory=trio.Lock)

    @tool(title="Rename", read_only=False, destructive=True, idempotent=False, open_world=False, text=_rename_text)
    async def rename(
        self,
        symbol: Symbol,
        path: Path,
        new_name: Annotated[str, Meta(min_length=1, max_length=500)],
        line: Line = 0,
        apply: Annotated[bool, "Change the files."] = False,
    ) -> SymbolRename:
        """Rename a symbol in all files that use it. Returns the diff; changes nothing unless apply is true."""
        folders = self.servers.folders
        real = await self.servers.resolve(path)
        name = folders.display_path(real)
        new_name = new_name.encode(errors="replace").decode()

        async def work(session: LanguageSession) -> list[FileEdit]:
            document = await session.sync(real)
            assert document is not None  # a path was given
            [position, *_] = await positions_of(session, document, symbol, line, shown=name)
            params: dict[str, Any] = {
                "textDocument": {"uri": document.uri},
                "position": position,
                "newName": new_name,
            }
            edits = edits_of(await session.request("textDocument/rename", params))
            reading = partial(read_edits, folders, edits, session.encoding)
            return await trio.to_thread.run_sync(reading, abandon_on_cancel=True)

        async with self._rename_lock:
            edits = await self.servers.use_server_of(real, work)
            if not edits:
                raise ToolError(f"symbol: the language server returned no edits to rename {symbol!r} in {name}")
            diff = await trio.to_thread.run_sync(diff_of, folders, edits, abandon_on_cancel=True)
            if apply:
                # The thread is not abandoned, so a cancelled call waits until all files are written.
                await trio.to_thread.run_sync(self._write, edits)
        return SymbolRename(
            applied=apply,
            files=tuple(folders.display_path(each.path) for each in edits),
            places=sum(each.count for each in edits),
            diff=diff,
        )

    def _write(self, edits: list[FileEdit]) -> None:
        folders = self.servers.folders
        written_paths: list[str] = []
        for each in edits:
            try:
                folders.replace(each.path, each.source, each.source.encode(each.text))
            except ToolError as error:
                changed = f"; already changed: {', '.join(written_paths)}" if written_paths else "; nothing was changed"
                raise ToolError(f"{error}{changed}") from None
            written_paths.append(folders.display_path(each.path))
