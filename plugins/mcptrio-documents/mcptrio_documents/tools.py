"""The tools, which the plugin registers."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import trio
from msgspec import Meta
from trio.from_thread import check_cancelled

from mcptrio import Context, tool

from .library import DocumentLibrary
from .search import find_phrase
from .selection import selected_parts
from .texts import description_text, hits_text, part_text

__all__ = ["Documents"]

_Path = Annotated[str, "Absolute, or relative to the first allowed directory."]
_Limit = Annotated[int, Meta(ge=1)]


class Documents:
    """The documents of the allowed folders."""

    def __init__(self, library: DocumentLibrary) -> None:
        self.library = library

    @tool(title="Read Document", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def read_document(
        self,
        ctx: Context,
        path: _Path,
        pages: Annotated[str, "Pages, slides, sheets, chapters or sections: '3-7,9', or a title. All if empty."] = "",
        offset: Annotated[int, Meta(ge=0, description="Character to start at, from a truncated answer.")] = 0,
        limit: Annotated[int, Meta(ge=1, description="Maximum characters.")] = 36_000,
    ) -> str:
        """Read a PDF, DOCX, PPTX, XLSX, ODT, EPUB, HTML or CSV file as Markdown, with tables. For one fact in a long
        document, use {tool:search_document} first."""
        document = await self.library.get(ctx, path)
        selected = selected_parts(document, pages)
        return part_text(document, selected, offset=offset, max_chars=min(limit, self.library.config.max_chars))

    @tool(title="Describe Document", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def describe_document(self, ctx: Context, path: _Path) -> str:
        """Show the kind, title and length of a document, and its outline with page numbers."""
        document = await self.library.get(ctx, path)
        return description_text(document, os.path.basename(path), self.library.config.max_chars)

    @tool(title="Search Document", read_only=True, destructive=False, idempotent=True, open_world=False)
    async def search_document(
        self,
        ctx: Context,
        path: _Path,
        query: Annotated[str, Meta(min_length=1, description="A phrase, in any case.")],
        offset: Annotated[int, Meta(ge=0, description="Hits to skip.")] = 0,
        limit: _Limit = 20,
    ) -> str:
        """Find a phrase in a document: a line with the page and the text around each hit. If no page has the phrase,
        the pages with all its words are returned."""
        document = await self.library.get(ctx, path)
        find = partial(find_phrase, document, query, check_cancelled)
        hits = await trio.to_thread.run_sync(find)
        return hits_text(document, hits, offset=offset, limit=limit, max_chars=self.library.config.max_chars)
