"""The tools, the prompt and the resources, which the plugin registers.

Requests of a model obey robots.txt; requests of a user through the prompt do not.

Source: names and annotations of the reference fetch server (2026.10.24).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import trio
from msgspec import Meta

from mcptrio import Context, ToolError, lifespan, prompt, resource, tool
from mcptrio.types import BlobResourceContents, CallToolResult, TextResourceContents

from .config import Config
from .documents import INSTALL_ADVICE
from .errors import printable
from .page_request import PageRequest
from .resolver import Resolver, SystemResolver
from .results import Links, PageHead, contents_of, head_text, links_text, media_result, text_result, text_with_notes

if TYPE_CHECKING:
    from .page_fetcher import PageFetcher

__all__ = ["TEMPLATE", "Fetch"]

TEMPLATE = "fetch://{+url}"

_UNENCODED = ":/?#[]@!$&'()*+,;=~"
"""Characters that ``{+url}`` does not encode (RFC 6570, 3.2.3)."""

_MAX_CURSOR_DIGITS = 15
"""Maximum digits of a cursor."""

_CLOSE_TIMEOUT = 1.0
"""Seconds to close idle connections."""

_MAX_URL_CHARS = 8192

_URL_WITHOUT_SCHEME = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(:\d{1,5})?([/?#].*)?", re.DOTALL)
"""A URL without a scheme, such as ``example.com/page``."""


class Fetch:
    """The tools, the prompt and the resources.

    Args:
        resolver: Resolves names to addresses; by default that of the operating system.
    """

    def __init__(self, config: Config | None = None, *, resolver: Resolver | None = None) -> None:
        self._config = config or Config()
        self._resolver = resolver or SystemResolver()
        self._fetcher: PageFetcher | None = None
        self._opening = trio.Lock()

    @lifespan
    async def opened(self) -> AsyncGenerator[None]:
        """Close the connections when the server ends."""
        try:
            yield
        finally:
            fetcher, self._fetcher = self._fetcher, None
            if fetcher is not None:
                with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                    await fetcher.aclose()

    @tool(title="Fetch", read_only=True, destructive=False, idempotent=True, open_world=True)
    async def fetch(
        self,
        ctx: Context,
        url: str,
        offset: Annotated[int, Meta(ge=0, description="Character to start at.")] = 0,
        limit: Annotated[int, Meta(ge=1, description="Maximum characters.")] = 5000,
        raw: Annotated[bool, "Return the HTML or file unchanged."] = False,
    ) -> CallToolResult:
        """Fetch a URL: HTML and documents as Markdown, in pieces; images and audio as files."""
        url = _with_scheme(url)
        fetcher = await self._open_fetcher()
        request = PageRequest(url=url)
        page, rendered = await fetcher.read(request, raw=raw, continues=offset > 0, report=ctx.report_progress)
        if rendered is None:
            return media_result(url, page, INSTALL_ADVICE if page.kind == "pdf" and not raw else "")
        return text_result(url, page, rendered, start=offset, limit=min(limit, self._config.max_chars))

    @tool(title="Fetch Links", read_only=True, destructive=False, idempotent=True, open_world=True, text=links_text)
    async def fetch_links(
        self,
        ctx: Context,
        url: str,
        limit: Annotated[int, Meta(ge=1)] = 100,
        cursor: str = "",
    ) -> Links:
        """List all links of a page with their texts, including those of menus, which {tool:fetch} omits."""
        url = _with_scheme(url)
        start = _start_of(cursor)
        fetcher = await self._open_fetcher()
        page, links = await fetcher.links(PageRequest(url=url), continues=start > 0, report=ctx.report_progress)
        end = start + min(limit, self._config.max_links)
        return Links(
            url=url,
            final_url=page.url,
            items=links[start:end],
            total=len(links),
            truncated=end < len(links),
            next_cursor=str(end) if end < len(links) else None,
        )

    @tool(title="Fetch Head", read_only=True, destructive=False, idempotent=True, open_world=True, text=head_text)
    async def fetch_head(self, url: str) -> PageHead:
        """Send a HEAD request; returns status, redirects, content type, size and modification time."""
        url = _with_scheme(url)
        fetcher = await self._open_fetcher()
        page = await fetcher.head(PageRequest(url=url))
        return PageHead(
            url=url,
            final_url=page.url,
            status=page.status,
            content_type=page.content_type,
            length=page.length,
            etag=page.etag,
            last_modified=page.last_modified,
            redirects=list(page.redirects),
        )

    @prompt(name="fetch", title="Fetch")
    async def fetch_prompt(self, ctx: Context, url: Annotated[str, "URL to fetch"]) -> str:
        """Fetch a URL and extract its contents as markdown"""
        url = _with_scheme(url)
        fetcher = await self._open_fetcher()
        try:
            page, rendered = await fetcher.read(PageRequest(url=url, by_user=True), report=ctx.report_progress)
        except ToolError as error:
            # The user sees the message in place of the page.
            return str(error)
        if rendered is None:
            return f"{url} is {page.content_type or page.kind}, {len(page.body)} bytes; the fetch tool shows it"
        return rendered.prefix + text_with_notes(rendered, self._config.max_chars)

    @resource(TEMPLATE, name="pages", title="PageFetcher pages")
    async def page(self, ctx: Context, url: str) -> TextResourceContents | BlobResourceContents:
        """A web page or document as Markdown, other text unchanged, images and sounds as bytes. In the URL, encode
        percent-encoded parts once more (``%2520``), or encode all of it (``https%3A%2F%2F…``)."""
        fetcher = await self._open_fetcher()
        page, rendered = await fetcher.read(PageRequest(url=url), report=ctx.report_progress)
        uri = "fetch://" + quote(url, safe=_UNENCODED)  # the requested URI
        if rendered is None:
            return contents_of(page, uri)
        kind = page.content_type or "text/plain" if page.kind == "text" else "text/markdown"
        text = text_with_notes(rendered, self._config.max_chars)
        return TextResourceContents(uri=uri, mime_type=kind, text=text)

    async def _open_fetcher(self) -> PageFetcher:
        async with self._opening:
            if self._fetcher is None:
                # Importing the HTTP client takes 100 ms or more, so it runs in a thread, at the first use.
                self._fetcher = await trio.to_thread.run_sync(self._new_fetcher)
            return self._fetcher

    def _new_fetcher(self) -> PageFetcher:
        from .page_fetcher import PageFetcher  # see _open_fetcher

        return PageFetcher(self._config, self._resolver)


def _with_scheme(url: str) -> str:
    # Checked here, because the limit in the schemas of three tools would cost tokens.
    if len(url) > _MAX_URL_CHARS:
        raise ToolError(f"expected a URL of at most {_MAX_URL_CHARS} characters at `url`, got {len(url)}")
    return f"https://{url}" if _URL_WITHOUT_SCHEME.fullmatch(url) else url


def _start_of(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _MAX_CURSOR_DIGITS):
        raise ToolError(f"expected the next_cursor of a previous result, got {printable(cursor)!r} at `cursor`")
    return int(cursor)
