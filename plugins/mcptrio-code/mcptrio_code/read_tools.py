"""The tools that read source code: outline, find_symbol, definition and references."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

import trio
from attrs import frozen
from msgspec import Meta

from mcptrio import ToolError, tool

from .code_lines import CodeLines, Limit, Line, Offset, Path, Symbol, lines_text, page_of
from .connection import RequestRefused
from .folders import SourceText, path_of_uri
from .grammars import Grammar, grammar_of
from .messages import Location, SymbolInformation, locations_of, read_result
from .outlines import FileOutline, outline_of, outline_text
from .positions import split_lines
from .servers import LanguageServers
from .session import LanguageSession, OpenDocument
from .source_parser import SourceParser
from .symbols import positions_of, symbols_of

__all__ = ["CodeReadTools"]

_INDEXING_TIMEOUT: Final = 10.0
"""Seconds to wait for a server that has found no symbol, because it may not have read the folder yet."""
_MAX_POSITIONS: Final = 8
"""Maximum occurrences of a name that are sent to a server. The first ones may be in comments."""


@frozen(eq=False)
class CodeReadTools:
    """The reading tools."""

    servers: LanguageServers
    parser: SourceParser

    @tool(title="Outline", read_only=True, destructive=False, idempotent=True, open_world=False, text=outline_text)
    async def outline(self, path: Path, limit: Limit = 300, offset: Offset = 0) -> FileOutline:
        """List the classes, functions and variables of a file with their lines. Use it before reading a long file."""
        real = await self.servers.resolve(path)
        name = self.servers.folders.display_path(real)
        if (reason := await self.servers.why_no_server(real)) is not None:
            source, grammar = await self._read(real, reason)
            symbols = await self.parser.symbols(source, grammar, shown=name)
            return outline_of(name, split_lines(source.text), symbols, limit=limit, offset=offset)

        async def work(session: LanguageSession) -> FileOutline:
            document = await _open_document(session, real)
            symbols = await symbols_of(session, document)
            return outline_of(name, document.lines, symbols, limit=limit, offset=offset)

        return await self.servers.use_server_of(real, work)

    @tool(title="Find Symbol", read_only=True, destructive=False, idempotent=True, open_world=False, text=lines_text)
    async def find_symbol(
        self,
        query: Annotated[str, Meta(min_length=1, max_length=500, description="Name or a part of it.")],
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> CodeLines:
        """Find classes, functions and variables by name in all files."""
        locations: list[Location] = []
        notes: list[str] = []
        servers = await self.servers.servers_in_use()
        for server in servers:
            try:
                symbols = await self.servers.use(server, partial(_workspace_symbols, query=query))
            except ToolError as error:
                notes.append(str(error))
            else:
                locations += [each.location for each in symbols if self._is_inside(each.location)]
        if len(notes) == len(servers):
            raise ToolError("; ".join(notes) or "no file in the folders has a language server")
        return await self._page(locations, limit, offset, notes)

    @tool(title="Definition", read_only=True, destructive=False, idempotent=True, open_world=False, text=lines_text)
    async def definition(self, symbol: Symbol, path: Path, line: Line = 0) -> CodeLines:
        """Show where a symbol that occurs in a file is defined, also in another file or library."""
        return await self._locations("textDocument/definition", {}, symbol, path, line)

    @tool(title="References", read_only=True, destructive=False, idempotent=True, open_world=False, text=lines_text)
    async def references(
        self, symbol: Symbol, path: Path, line: Line = 0, limit: Limit = 200, offset: Offset = 0
    ) -> CodeLines:
        """List the lines in all files that use a symbol, its definition included. Names in text and comments do not
        count."""
        extra = {"context": {"includeDeclaration": True}}
        return await self._locations("textDocument/references", extra, symbol, path, line, limit, offset)

    async def _locations(
        self, method: str, extra: dict[str, Any], symbol: str, path: str, line: int, limit: int = 100, offset: int = 0
    ) -> CodeLines:
        real = await self.servers.resolve(path)
        name = self.servers.folders.display_path(real)

        async def work(session: LanguageSession) -> list[Location]:
            document = await _open_document(session, real)
            for position in (await positions_of(session, document, symbol, line, shown=name))[:_MAX_POSITIONS]:
                params = {"textDocument": {"uri": document.uri}, "position": position, **extra}
                if locations := locations_of(await session.request(method, params)):
                    return locations
            return []

        return await self._page(await self.servers.use_server_of(real, work), limit, offset)

    async def _read(self, real: str, reason: str) -> tuple[SourceText, Grammar]:
        """Return the text and the grammar of a file without a language server.

        Args:
            reason: The reason why the file has no language server, for the message.

        Raises:
            ToolError: The file has no grammar either, or cannot be read.
        """
        grammar = grammar_of(real)
        if grammar is None:
            raise ToolError(reason)
        if not grammar.is_installed:
            raise ToolError(f"{reason}; for outlines, mcptrio-code[tree-sitter] is enough")
        return await trio.to_thread.run_sync(self.servers.folders.read, real, abandon_on_cancel=True), grammar

    def _is_inside(self, location: Location) -> bool:
        path = path_of_uri(location.uri)
        return path is not None and self.servers.folders.folder_of(path) is not None

    async def _page(self, locations: list[Location], limit: int, offset: int, notes: Sequence[str] = ()) -> CodeLines:
        work = partial(page_of, self.servers.folders, locations, limit=limit, offset=offset, notes=notes)
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


async def _open_document(session: LanguageSession, real: str) -> OpenDocument:
    document = await session.sync(real)
    assert document is not None  # a path was given
    return document


async def _workspace_symbols(session: LanguageSession, *, query: str) -> list[SymbolInformation]:
    if not session.capabilities.get("workspaceSymbolProvider"):
        raise RequestRefused("the language server cannot search for symbols")
    document = await session.sync()
    # JSON can contain lone surrogates, which cannot be encoded in UTF-8.
    sendable = query.encode(errors="replace").decode()
    result = await session.request("workspace/symbol", {"query": sendable})
    if not result and document is not None:
        # pyright reads the folder some time after its start, and reports diagnostics only after that.
        with trio.move_on_after(_INDEXING_TIMEOUT), suppress(RequestRefused):
            await session.diagnose(document)
        result = await session.request("workspace/symbol", {"query": sendable})
    return read_result(result or [], list[SymbolInformation])
