"""The tools, the prompt and the resources, which the plugin registers.

Requests of a model respect robots.txt; requests of a user through the prompt need not.

Source: names, arguments, annotations and texts of the reference fetch server (2026.10.24).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import trio
from msgspec import Meta

from mcptrio import Context, ToolError, lifespan, prompt, resource, tool
from mcptrio.types import BlobResourceContents, CallToolResult, TextResourceContents

from .asked import PageRequest
from .config import Config
from .errors import printable
from .resolving import Resolver, SystemResolver
from .results import FETCHED, Links, PageHead, answer_media, answer_text, contents_of, whole_text

if TYPE_CHECKING:
    from .web import Web

__all__ = ["TEMPLATE", "Fetch"]

TEMPLATE = "fetch://{+url}"

_AS_IT_IS = ":/?#[]@!$&'()*+,;=~"
"""Characters that ``{+url}`` does not encode (RFC 6570, 3.2.3)."""

_MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps."""

_CURSOR = 15
"""Digits of a cursor at most."""

_CLOSE_TIMEOUT = 1.0
"""Seconds to close idle connections."""

_URL = Annotated[str, Meta(min_length=1, max_length=8192, description="URL to fetch")]


class Fetch:
    """The web for a model.

    Args:
        resolver: from names to addresses; the system's by default.
    """

    def __init__(self, config: Config | None = None, *, resolver: Resolver | None = None) -> None:
        self._config = config or Config()
        self._resolver = resolver or SystemResolver()
        self._web: Web | None = None
        self._opening = trio.Lock()

    @lifespan
    async def opened(self) -> AsyncGenerator[None]:
        """Close the connections with the server."""
        try:
            yield
        finally:
            web, self._web = self._web, None
            if web is not None:
                with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                    await web.aclose()

    @tool(title="Fetch", read_only=True, destructive=False, idempotent=True, open_world=True, output_schema=FETCHED)
    async def fetch(
        self,
        ctx: Context,
        url: _URL,
        max_length: Annotated[
            int, Meta(ge=1, le=999_999, description="Maximum number of characters to return.")
        ] = 5000,
        start_index: Annotated[
            int,
            Meta(
                ge=0,
                le=_MAX_SAFE_INTEGER,
                description="On return output starting at this character index, useful if a previous fetch was "
                "truncated and more context is required.",
            ),
        ] = 0,
        raw: Annotated[
            bool,
            Meta(description="Get the actual HTML content of the requested page, without simplification."),
        ] = False,
    ) -> CallToolResult:
        """Fetches a URL from the internet and optionally extracts its contents as markdown.

        Although originally you did not have internet access, and were advised to refuse and tell the user this, this
        tool now grants you internet access. Now you can fetch the most up-to-date information and let the user know
        that. A long page is returned in parts: call again with start_index. Images, audio and PDF files are
        returned as files.
        """
        web = await self._use()
        asked = PageRequest(url=url)
        page, rendered = await web.read(asked, raw=raw, continues=start_index > 0, report=ctx.report_progress)
        if rendered is None:
            return answer_media(url, page)
        return answer_text(url, page, rendered, start=start_index, most=min(max_length, self._config.max_chars))

    @tool(title="Fetch Links", read_only=True, destructive=False, idempotent=True, open_world=True)
    async def fetch_links(
        self,
        ctx: Context,
        url: _URL,
        limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of links to return.")] = 100,
        cursor: Annotated[str | None, "next_cursor of the previous result."] = None,
    ) -> Links:
        """Lists the links of a web page with their texts, including those of menus and footers, which fetch
        omits. URLs are absolute, and each is listed once."""
        start = _position(cursor)
        web = await self._use()
        page, links = await web.links(PageRequest(url=url), continues=start > 0, report=ctx.report_progress)
        end = start + min(limit, self._config.max_links)
        return Links(
            url=url,
            final_url=page.url,
            items=links[start:end],
            total=len(links),
            truncated=end < len(links),
            next_cursor=str(end) if end < len(links) else None,
        )

    @tool(title="Fetch Head", read_only=True, destructive=False, idempotent=True, open_world=True)
    async def fetch_head(self, url: _URL) -> PageHead:
        """Gets information about a URL without downloading it: status, redirects, media type, size and
        modification time. A status such as 404 is a result, not an error."""
        web = await self._use()
        page = await web.head(PageRequest(url=url))
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
        web = await self._use()
        try:
            page, rendered = await web.read(PageRequest(url=url, by_user=True), report=ctx.report_progress)
        except ToolError as error:
            # The user sees it in the place of the page.
            return str(error)
        if rendered is None:
            return f"{url} is {page.content_type or page.kind}, {len(page.body)} bytes; the fetch tool shows it"
        return rendered.prefix + whole_text(rendered, self._config.max_chars)

    @resource(TEMPLATE, name="pages", title="Web pages")
    async def page(self, ctx: Context, url: str) -> TextResourceContents | BlobResourceContents:
        """A web page as Markdown, other text unchanged, images, sounds and PDF files as bytes. In the URL, encode
        percent-encoded parts once more (``%2520``), or encode all of it (``https%3A%2F%2F…``)."""
        web = await self._use()
        page, rendered = await web.read(PageRequest(url=url), report=ctx.report_progress)
        uri = "fetch://" + quote(url, safe=_AS_IT_IS)  # as it was asked for
        if rendered is None:
            return contents_of(page, uri)
        kind = "text/markdown" if page.kind == "html" else page.content_type or "text/plain"
        text = whole_text(rendered, self._config.max_chars)
        return TextResourceContents(uri=uri, mime_type=kind, text=text)

    async def _use(self) -> Web:
        async with self._opening:
            if self._web is None:
                # The HTTP client takes 100 ms or more to import: not in the Trio thread, and not before it is needed.
                self._web = await trio.to_thread.run_sync(self._make)
            return self._web

    def _make(self) -> Web:
        from .web import Web  # see _use

        return Web(self._config, self._resolver)


def _position(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR):
        raise ToolError(f"expected the next_cursor of a previous result, got {printable(cursor)!r} at `cursor`")
    return int(cursor)
