"""The tools, the prompt and the resources, which the plugin registers.

Requests of a model respect robots.txt; requests of a user through the prompt need not.

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
from .documents import INSTALL
from .errors import printable
from .page_request import PageRequest
from .resolving import Resolver, SystemResolver
from .results import Links, PageHead, answer_media, answer_text, contents_of, head_text, links_text, whole_text

if TYPE_CHECKING:
    from .web import Web

__all__ = ["TEMPLATE", "Fetch"]

TEMPLATE = "fetch://{+url}"

_AS_IT_IS = ":/?#[]@!$&'()*+,;=~"
"""Characters that ``{+url}`` does not encode (RFC 6570, 3.2.3)."""

_CURSOR = 15
"""Digits of a cursor at most."""

_CLOSE_TIMEOUT = 1.0
"""Seconds to close idle connections."""

_MAX_URL_CHARS = 8192

_BARE = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(:\d{1,5})?([/?#].*)?", re.DOTALL)
"""A URL as people write it, without a scheme."""


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

    @tool(title="Fetch", read_only=True, destructive=False, idempotent=True, open_world=True)
    async def fetch(
        self,
        ctx: Context,
        url: str,
        offset: Annotated[int, Meta(ge=0, description="First character.")] = 0,
        limit: Annotated[int, Meta(ge=1, description="Characters at most.")] = 5000,
        raw: Annotated[bool, "Return the HTML or file unchanged."] = False,
    ) -> CallToolResult:
        """Fetch a URL: HTML and documents as Markdown, in pieces; images and audio as files."""
        url = _with_scheme(url)
        web = await self._use()
        request = PageRequest(url=url)
        page, rendered = await web.read(request, raw=raw, continues=offset > 0, report=ctx.report_progress)
        if rendered is None:
            return answer_media(url, page, INSTALL if page.kind == "pdf" and not raw else "")
        return answer_text(url, page, rendered, start=offset, most=min(limit, self._config.max_chars))

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

    @tool(title="Fetch Head", read_only=True, destructive=False, idempotent=True, open_world=True, text=head_text)
    async def fetch_head(self, url: str) -> PageHead:
        """Send a HEAD request; returns status, redirects, content type, size and modification time."""
        url = _with_scheme(url)
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
        url = _with_scheme(url)
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
        """A web page or document as Markdown, other text unchanged, images and sounds as bytes. In the URL, encode
        percent-encoded parts once more (``%2520``), or encode all of it (``https%3A%2F%2F…``)."""
        web = await self._use()
        page, rendered = await web.read(PageRequest(url=url), report=ctx.report_progress)
        uri = "fetch://" + quote(url, safe=_AS_IT_IS)  # as it was asked for
        if rendered is None:
            return contents_of(page, uri)
        kind = page.content_type or "text/plain" if page.kind == "text" else "text/markdown"
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


def _with_scheme(url: str) -> str:
    # Here and not in the schema, where three tools would show it to the model.
    if len(url) > _MAX_URL_CHARS:
        raise ToolError(f"expected a URL of at most {_MAX_URL_CHARS} characters at `url`, got {len(url)}")
    return f"https://{url}" if _BARE.fullmatch(url) else url


def _position(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR):
        raise ToolError(f"expected the next_cursor of a previous result, got {printable(cursor)!r} at `cursor`")
    return int(cursor)
