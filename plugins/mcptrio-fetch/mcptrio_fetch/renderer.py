"""Converts a page to text for a model.

``PageFetcher`` uses it for pages that are text, and for documents. Conversions run in threads or processes with a
deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from mcptrio import ToolError

from .charsets import decode_text
from .config import Config
from .documents import DOCUMENT_KINDS, DocumentRenderer
from .errors import printable
from .page import FetchedPage
from .rendered_page import RenderedPage
from .results import PageLink

__all__ = ["Renderer"]

T = TypeVar("T")

_THREADS = 2
"""Pages that are converted concurrently. Threads share the interpreter lock, so more of them would not be faster."""

_TOO_LARGE = "the page is too large, so its end was not read"
_NO_TEXT = "[no text found; raw=true returns the HTML]"


class Renderer:
    """Converts pages and documents."""

    def __init__(self, config: Config) -> None:
        self.documents = DocumentRenderer(config)
        self._limit = config.max_html_bytes
        self._timeout = config.convert_timeout
        self._threads = trio.CapacityLimiter(_THREADS)

    async def render(self, page: FetchedPage, *, raw: bool) -> RenderedPage:
        """Return the text of a page.

        Args:
            raw: Do not convert HTML.

        Raises:
            ToolError: The conversion took too long, or the document cannot be read.
        """
        if page.kind in DOCUMENT_KINDS:
            return await self._run_with_timeout(page, partial(self.documents.render, page))
        return await self._run(page, partial(_render, page, self._limit, raw))

    async def links(self, page: FetchedPage) -> list[PageLink]:
        """Return the links of an HTML page.

        Raises:
            ToolError: Parsing took too long.
        """
        return await self._run(page, partial(_links, page, self._limit))

    async def _run(self, page: FetchedPage, work: Callable[[], T]) -> T:
        return await self._run_with_timeout(page, partial(trio.to_thread.run_sync, work, limiter=self._threads))

    async def _run_with_timeout(self, page: FetchedPage, work: Callable[[], Awaitable[T]]) -> T:
        try:
            with trio.fail_after(self._timeout):
                return await work()
        except trio.TooSlowError as error:
            raise ToolError(
                f"Reading {printable(page.url)} took longer than {self._timeout:g} seconds; "
                "raw=true gets it without simplification"
            ) from error


def _render(page: FetchedPage, limit: int, raw: bool) -> RenderedPage:
    text = decode_text(page.body, page.charset, is_complete=page.is_complete)
    if raw or page.kind != "html":
        return RenderedPage(
            text=text,
            prefix=f"{page.content_type or 'text'}, not converted. ",
            notes=_notes(page.is_complete),
        )
    from .markdown import write_markdown  # slow, so it is imported with the first page

    article = write_markdown(text[:limit], page.url)
    notes = _notes(page.is_complete and len(text) <= limit)
    return RenderedPage(text=article.text or _NO_TEXT, title=article.title, notes=notes)


def _notes(is_complete: bool) -> tuple[str, ...]:
    return () if is_complete else (_TOO_LARGE,)


def _links(page: FetchedPage, limit: int) -> list[PageLink]:
    from .markdown import find_links  # slow, as in _render()

    return find_links(decode_text(page.body, page.charset, is_complete=page.is_complete)[:limit], page.url)
