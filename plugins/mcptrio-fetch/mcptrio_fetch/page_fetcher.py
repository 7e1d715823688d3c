"""Fetches, renders and caches pages for the tools.

``Fetch`` imports and creates it with the first call, because importing the HTTP client is slow, and closes it when the
server ends. A page is downloaded once for all its pieces: a call for a later piece uses the cached page of any age,
while a call for the beginning revalidates a page that is not fresh.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final, NoReturn

import trio
from attrs import evolve, frozen

from mcptrio import ToolError

from .byte_cache import ByteCache
from .config import Config
from .documents import DOCUMENT_KINDS, INSTALL_ADVICE
from .downloader import Download, Downloader, HopCheck, Report, parse_url
from .errors import Unreachable, printable
from .gate import AddressGate
from .page import FetchedPage
from .page_request import PageRequest
from .rendered_page import RenderedPage
from .renderer import Renderer
from .resolver import Resolver
from .results import PageLink
from .robots import MAX_ROBOTS_BYTES, Robots
from .transport import FetchTransport

__all__ = ["PageFetcher"]

_PRODUCT: Final = "mcptrio-fetch"
_VERSION: Final = "0.1"
_KEEP_SECONDS = 3600.0
"""Seconds for which a page is cached. When it is no longer fresh, its ETag revalidates it."""
_ENTRY_WEIGHT = 2048
_TEXT_KINDS: Final = ("html", "text")
_MEDIA_KINDS: Final = ("image", "audio")


class PageFetcher:
    """Downloads and cached pages.

    Args:
        resolver: Resolves names to addresses.
    """

    def __init__(self, config: Config, resolver: Resolver) -> None:
        self._config = config
        gate = AddressGate(config, resolver)
        self._transport = FetchTransport(config, gate)
        self._downloader = Downloader(config, gate, self._transport)
        self._robots = Robots(
            self._fetch_robots,
            token=_token(config.user_agent) or _PRODUCT,
            max_age=min(config.robots_seconds, 86_400.0),
        )
        self._renderer = Renderer(config)
        self._cache: ByteCache[PageRequest, _CachedPage] = ByteCache(config.cache_bytes, _KEEP_SECONDS)
        self._calls = trio.CapacityLimiter(config.max_downloads)

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._transport.aclose()

    async def page(self, request: PageRequest, *, continues: bool = False, report: Report | None = None) -> FetchedPage:
        """Return a page whose status is not an error.

        Args:
            continues: True if an earlier piece of the page has been read.

        Raises:
            ToolError: The page cannot be fetched; the message has the reason.
        """
        request = evolve(request, url=str(parse_url(request.url)))
        return (await self._load(request, continues=continues, report=report)).page

    async def read(
        self, request: PageRequest, *, raw: bool = False, continues: bool = False, report: Report | None = None
    ) -> tuple[FetchedPage, RenderedPage | None]:
        """Return a page and its text. Images, sounds, and documents that are not converted have no text.

        Args:
            raw: Do not convert HTML or documents.
            continues: True if an earlier piece of the page has been read.

        Raises:
            ToolError: The page cannot be fetched or read.
        """
        request = evolve(request, url=str(parse_url(request.url)))
        cached = await self._load(request, continues=continues, report=report)
        is_document = cached.page.kind in DOCUMENT_KINDS
        if cached.page.kind in _MEDIA_KINDS or (is_document and (raw or not self._renderer.documents.is_installed)):
            # It may have been downloaded for a conversion, which has a higher limit.
            self._check_size(cached.page, self._config.max_media_bytes)
            return cached.page, None
        rendered = cached.texts.get(raw)
        if rendered is None:
            rendered = await self._renderer.render(cached.page, raw=raw)
            if self._cache.get(request) is cached:
                self._store(request, evolve(cached, texts={**cached.texts, raw: rendered}))
        return cached.page, rendered

    async def links(
        self, request: PageRequest, *, continues: bool, report: Report | None = None
    ) -> tuple[FetchedPage, list[PageLink]]:
        """Return a page and its links.

        Raises:
            ToolError: The page cannot be fetched, or is not HTML.
        """
        page = await self.page(request, continues=continues, report=report)
        if page.kind != "html":
            raise ToolError(f"expected an HTML page, got {page.content_type or page.kind}: {printable(page.url)}")
        return page, await self._renderer.links(page)

    async def head(self, request: PageRequest) -> FetchedPage:
        """Request the headers of a page, with any status.

        Raises:
            ToolError: The site does not answer.
        """
        download = Download(
            url=request.url,
            method="HEAD",
            user_agent=self._user_agent(request),
            limit=_no_bytes,
            check_hop=self._hop_check(request),
        )
        return await self._download(download)

    async def _load(self, request: PageRequest, *, continues: bool, report: Report | None) -> _CachedPage:
        cached = self._cache.get(request)
        now = trio.current_time()
        if cached is not None and (continues or now < cached.fresh_until):
            return cached
        known = cached.page if cached is not None else None
        page = await self._download(
            Download(
                url=request.url,
                user_agent=self._user_agent(request),
                limit=self._limit,
                known=known,
                check_hop=self._hop_check(request),
                report=report,
            )
        )
        if page.status >= 400 or page.status == 304:
            self._cache.drop(request)
            raise ToolError(f"Failed to fetch {printable(request.url)} - status code {page.status}")
        limit = self._max_bytes(page)
        if page.kind not in _TEXT_KINDS:
            self._check_size(page, limit)
        is_same = cached is not None and known is not None and page.body is known.body
        fresh_for = min(
            self._config.cache_seconds, self._config.cache_seconds if page.fresh_for is None else page.fresh_for
        )
        fresh = _CachedPage(
            page=page, texts=cached.texts if is_same and cached else {}, fresh_until=trio.current_time() + fresh_for
        )
        self._store(request, fresh)
        return fresh

    def _store(self, request: PageRequest, cached: _CachedPage) -> None:
        texts = sum(len(rendered.text) for rendered in cached.texts.values())
        # A character takes one to four bytes, in most pages one or two.
        self._cache.put(request, cached, _ENTRY_WEIGHT + len(request.url) + len(cached.page.body) + 2 * texts)

    async def _download(self, download: Download) -> FetchedPage:
        timeout = self._config.request_timeout
        try:
            with trio.fail_after(timeout):
                async with self._calls:
                    return await self._downloader.download(download)
        except trio.TooSlowError as error:
            raise Unreachable(
                f"Failed to fetch {printable(download.url)}: it took longer than {timeout:g} seconds"
            ) from error

    async def _fetch_robots(self, url: str) -> FetchedPage:
        # It runs within a call, so the deadline and the slot of that call apply.
        return await self._downloader.download(
            Download(
                url=url,
                user_agent=self._user_agent(PageRequest(url=url)),
                limit=partial(_fixed_limit, MAX_ROBOTS_BYTES),
            )
        )

    def _hop_check(self, request: PageRequest) -> HopCheck | None:
        return self._robots.check if self._config.robots and not request.by_user else None

    def _user_agent(self, request: PageRequest) -> str:
        requester = "user-specified" if request.by_user else "autonomous"
        return self._config.user_agent or f"{_PRODUCT}/{_VERSION} (Model Context Protocol; {requester})"

    def _limit(self, page: FetchedPage) -> int:
        """Return the maximum bytes to read of a page. Called after the headers, and again with the first bytes."""
        if page.status >= 400:
            return 0
        limit = self._max_bytes(page)
        if page.kind not in _TEXT_KINDS and page.length is not None and page.length > limit:
            self._refuse_size(page, str(page.length), limit)
        return limit

    def _max_bytes(self, page: FetchedPage) -> int:
        """Return the limit for the kind of a page.

        Raises:
            ToolError: A page of this kind cannot be read.
        """
        kind = page.kind
        if kind in _TEXT_KINDS:
            return self._config.max_bytes
        if kind in DOCUMENT_KINDS and self._renderer.documents.is_installed:
            return self._config.max_document_bytes
        if kind == "pdf" or kind in _MEDIA_KINDS:
            return self._config.max_media_bytes
        actual = page.content_type if page.has_type else "binary data of another kind"
        advice = f"; {INSTALL_ADVICE}" if kind in DOCUMENT_KINDS else ""
        raise ToolError(f"expected a page, an image, audio or a PDF, got {actual}: {printable(page.url)}{advice}")

    def _check_size(self, page: FetchedPage, limit: int) -> None:
        if not page.is_complete or len(page.body) > limit:
            self._refuse_size(page, str(len(page.body)) if page.is_complete else "more", limit)

    def _refuse_size(self, page: FetchedPage, size: str, limit: int) -> NoReturn:
        raise ToolError(
            f"expected at most {limit} bytes of {page.content_type or page.kind}, got {size}: {printable(page.url)}"
        )


@frozen(kw_only=True)
class _CachedPage:
    page: FetchedPage
    texts: dict[bool, RenderedPage]
    """The page as text: raw under ``True``, as Markdown under ``False``."""
    fresh_until: float
    """Trio clock time until which the page is used without a new request."""


def _token(user_agent: str | None) -> str | None:
    """Return the product token of a User-Agent (RFC 9309, 2.2.1): the leading letters, ``-`` and ``_``."""
    match = re.match(r"[A-Za-z_-]+", user_agent or "")
    return match[0] if match else None


def _fixed_limit(limit: int, page: FetchedPage) -> int:
    return limit


def _no_bytes(page: FetchedPage) -> int:
    return 0
