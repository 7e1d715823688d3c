"""Fetches, renders and caches pages for the tools.

``Fetch`` makes it with the first call, and the server closes it. It is imported then, because it imports the HTTP
client. A page is downloaded once for all its pieces: later pieces use the cached page whatever its age, while a new
reading uses it only if it is fresh, and asks the site otherwise.
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
from .documents import DOCUMENTS, INSTALL
from .downloader import Download, Downloader, Permit, Report, parse_url
from .errors import Unreachable, printable
from .gate import AddressGate
from .page import FetchedPage
from .page_request import PageRequest
from .rendered import Rendered
from .rendering import Renderer
from .resolving import Resolver
from .results import PageLink
from .robots import MAX_ROBOTS_BYTES, Robots
from .transport import FetchTransport

__all__ = ["Web"]

_PRODUCT: Final = "mcptrio-fetch"
_VERSION: Final = "0.1"
_KEEP_SECONDS = 3600.0
"""Maximum seconds for which a page is stored, to be revalidated with its ETag."""
_ENTRY_WEIGHT = 2048
_TEXTS: Final = ("html", "text")
_MEDIA: Final = ("image", "audio")


class Web:
    """
    Args:
        resolver: from names to addresses.
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
        self._kept: ByteCache[PageRequest, _Kept] = ByteCache(config.cache_bytes, _KEEP_SECONDS)
        self._calls = trio.CapacityLimiter(config.max_downloads)

    async def aclose(self) -> None:
        """Close the idle connections."""
        await self._transport.aclose()

    async def page(self, request: PageRequest, *, continues: bool = False, report: Report | None = None) -> FetchedPage:
        """Get a page whose status is no error.

        Args:
            continues: an earlier part of it has been read.

        Raises:
            ToolError: it cannot be fetched; the message has the reason.
        """
        request = evolve(request, url=str(parse_url(request.url)))
        return (await self._keep(request, continues=continues, report=report)).page

    async def read(
        self, request: PageRequest, *, raw: bool = False, continues: bool = False, report: Report | None = None
    ) -> tuple[FetchedPage, Rendered | None]:
        """Return a page and its text; no text for an image, a sound, or a document that is not converted.

        Args:
            raw: do not convert HTML or documents.
            continues: whether an earlier piece has been read.

        Raises:
            ToolError: the page cannot be fetched or read.
        """
        request = evolve(request, url=str(parse_url(request.url)))
        kept = await self._keep(request, continues=continues, report=report)
        is_document = kept.page.kind in DOCUMENTS
        if kept.page.kind in _MEDIA or (is_document and (raw or not self._renderer.documents.is_installed)):
            # It may have been downloaded to be converted, with a higher limit.
            self._check_size(kept.page, self._config.max_media_bytes)
            return kept.page, None
        rendered = kept.texts.get(raw)
        if rendered is None:
            rendered = await self._renderer.render(kept.page, raw=raw)
            if self._kept.get(request) is kept:
                self._put(request, evolve(kept, texts={**kept.texts, raw: rendered}))
        return kept.page, rendered

    async def links(
        self, request: PageRequest, *, continues: bool, report: Report | None = None
    ) -> tuple[FetchedPage, list[PageLink]]:
        """Get a page and the links in it.

        Raises:
            ToolError: it cannot be had, or is not HTML.
        """
        page = await self.page(request, continues=continues, report=report)
        if page.kind != "html":
            raise ToolError(f"expected an HTML page, got {page.content_type or page.kind}: {printable(page.url)}")
        return page, await self._renderer.links(page)

    async def head(self, request: PageRequest) -> FetchedPage:
        """Request the headers of a page, with any status.

        Raises:
            ToolError: the site does not answer.
        """
        download = Download(
            url=request.url,
            method="HEAD",
            user_agent=self._user_agent(request),
            limit=_nothing,
            permit=self._permit(request),
        )
        return await self._download(download)

    async def _keep(self, request: PageRequest, *, continues: bool, report: Report | None) -> _Kept:
        kept = self._kept.get(request)
        now = trio.current_time()
        if kept is not None and (continues or now < kept.fresh_until):
            return kept
        known = kept.page if kept is not None else None
        page = await self._download(
            Download(
                url=request.url,
                user_agent=self._user_agent(request),
                limit=self._limit,
                known=known,
                permit=self._permit(request),
                report=report,
            )
        )
        if page.status >= 400 or page.status == 304:
            self._kept.drop(request)
            raise ToolError(f"Failed to fetch {printable(request.url)} - status code {page.status}")
        limit = self._max_bytes(page)
        if page.kind not in _TEXTS:
            self._check_size(page, limit)
        is_same = kept is not None and known is not None and page.body is known.body
        fresh_for = min(
            self._config.cache_seconds, self._config.cache_seconds if page.fresh_for is None else page.fresh_for
        )
        fresh = _Kept(
            page=page, texts=kept.texts if is_same and kept else {}, fresh_until=trio.current_time() + fresh_for
        )
        self._put(request, fresh)
        return fresh

    def _put(self, request: PageRequest, kept: _Kept) -> None:
        texts = sum(len(rendered.text) for rendered in kept.texts.values())
        # A character takes one to four bytes, in most pages one or two.
        self._kept.put(request, kept, _ENTRY_WEIGHT + len(request.url) + len(kept.page.body) + 2 * texts)

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
        # Within the call that needs it: its deadline and its place among the calls are used.
        return await self._downloader.download(
            Download(
                url=url, user_agent=self._user_agent(PageRequest(url=url)), limit=partial(_always, MAX_ROBOTS_BYTES)
            )
        )

    def _permit(self, request: PageRequest) -> Permit | None:
        return self._robots.check if self._config.robots and not request.by_user else None

    def _user_agent(self, request: PageRequest) -> str:
        who = "user-specified" if request.by_user else "autonomous"
        return self._config.user_agent or f"{_PRODUCT}/{_VERSION} (Model Context Protocol; {who})"

    def _limit(self, page: FetchedPage) -> int:
        """Return how much of a page to read. Called when its headers have arrived, and again with its first bytes."""
        if page.status >= 400:
            return 0
        limit = self._max_bytes(page)
        if page.kind not in _TEXTS and page.length is not None and page.length > limit:
            self._refuse_size(page, str(page.length), limit)
        return limit

    def _max_bytes(self, page: FetchedPage) -> int:
        """
        Raises:
            ToolError: a page of this kind cannot be read.
        """
        kind = page.kind
        if kind in _TEXTS:
            return self._config.max_bytes
        if kind in DOCUMENTS and self._renderer.documents.is_installed:
            return self._config.max_document_bytes
        if kind == "pdf" or kind in _MEDIA:
            return self._config.max_media_bytes
        got = page.content_type if page.has_type else "binary data of another kind"
        advice = f"; {INSTALL}" if kind in DOCUMENTS else ""
        raise ToolError(f"expected a page, an image, audio or a PDF, got {got}: {printable(page.url)}{advice}")

    def _check_size(self, page: FetchedPage, limit: int) -> None:
        if not page.is_whole or len(page.body) > limit:
            self._refuse_size(page, str(len(page.body)) if page.is_whole else "more", limit)

    def _refuse_size(self, page: FetchedPage, size: str, limit: int) -> NoReturn:
        raise ToolError(
            f"expected at most {limit} bytes of {page.content_type or page.kind}, got {size}: {printable(page.url)}"
        )


@frozen(kw_only=True)
class _Kept:
    page: FetchedPage
    texts: dict[bool, Rendered]
    """The page as text: raw under ``True``, as Markdown under ``False``."""
    fresh_until: float
    """Trio time."""


def _token(user_agent: str | None) -> str | None:
    """The product token of a User-Agent (RFC 9309, 2.2.1): its first letters, ``-`` and ``_``."""
    found = re.match(r"[A-Za-z_-]+", user_agent or "")
    return found[0] if found else None


def _always(limit: int, page: FetchedPage) -> int:
    return limit


def _nothing(page: FetchedPage) -> int:
    return 0
