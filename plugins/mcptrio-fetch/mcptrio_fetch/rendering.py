"""Converts a page to text for a model.

Used for pages that are text, and for documents. Everything runs in threads or processes and has a deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from mcptrio import ToolError

from .charsets import decode_text
from .config import Config
from .documents import DOCUMENTS, DocumentRenderer
from .errors import printable
from .page import FetchedPage
from .rendered import Rendered
from .results import PageLink

__all__ = ["Renderer"]

T = TypeVar("T")

_THREADS = 2
"""Pages at work at once. They share one interpreter lock with everything else; more would only be slower together."""

_TOO_LARGE = "the page is too large, so its end was not read"
_NOTHING = "[no text found; raw=true returns the HTML]"


class Renderer:
    def __init__(self, config: Config) -> None:
        self.documents = DocumentRenderer(config)
        self._limit = config.max_html_bytes
        self._timeout = config.convert_timeout
        self._threads = trio.CapacityLimiter(_THREADS)

    async def render(self, page: FetchedPage, *, raw: bool) -> Rendered:
        """Return the text of a page.

        Args:
            raw: do not convert HTML.

        Raises:
            ToolError: it took too long, or the document cannot be read.
        """
        if page.kind in DOCUMENTS:
            return await self._limited(page, partial(self.documents.render, page))
        return await self._run(page, partial(_render, page, self._limit, raw))

    async def links(self, page: FetchedPage) -> list[PageLink]:
        """
        Raises:
            ToolError: it took too long.
        """
        return await self._run(page, partial(_links, page, self._limit))

    async def _run(self, page: FetchedPage, work: Callable[[], T]) -> T:
        return await self._limited(page, partial(trio.to_thread.run_sync, work, limiter=self._threads))

    async def _limited(self, page: FetchedPage, work: Callable[[], Awaitable[T]]) -> T:
        try:
            with trio.fail_after(self._timeout):
                return await work()
        except trio.TooSlowError as error:
            raise ToolError(
                f"Reading {printable(page.url)} took longer than {self._timeout:g} seconds; "
                "raw=true gets it without simplification"
            ) from error


def _render(page: FetchedPage, limit: int, raw: bool) -> Rendered:
    text = decode_text(page.body, page.charset, is_whole=page.is_whole)
    if raw or page.kind != "html":
        return Rendered(
            text=text,
            prefix=f"{page.content_type or 'text'}, not converted. ",
            notes=_notes(page.is_whole),
        )
    from .markdown import write_markdown  # takes a while, and is not wanted before

    article = write_markdown(text[:limit], page.url)
    notes = _notes(page.is_whole and len(text) <= limit)
    return Rendered(text=article.text or _NOTHING, title=article.title, notes=notes)


def _notes(is_whole: bool) -> tuple[str, ...]:
    return () if is_whole else (_TOO_LARGE,)


def _links(page: FetchedPage, limit: int) -> list[PageLink]:
    from .markdown import find_links  # as above

    return find_links(decode_text(page.body, page.charset, is_whole=page.is_whole)[:limit], page.url)
