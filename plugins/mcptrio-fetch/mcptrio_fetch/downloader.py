"""Downloads a page with redirects, limits and a deadline.

``PageFetcher`` uses it for pages, for their headers and for robots.txt. Each hop (the first request and each redirect)
is checked by the gate and the caller's ``check_hop``, and waits for the limits of its host.

Source: RFC 9110, 15.4 (redirects), 13.1 (conditional requests); RFC 9111, 5.2 (Cache-Control).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Literal, TypeAlias

import httpx2
from attrs import evolve, frozen

from mcptrio import ToolError

from .config import Config
from .errors import FetchRefused, Unreachable, printable
from .gate import AddressGate
from .host_limits import HostLimits
from .page import FetchedPage
from .transport import FAILURES, FetchTransport, describe_failure

__all__ = ["Download", "Downloader", "HopCheck", "Report", "parse_url"]

HopCheck: TypeAlias = "Callable[[httpx2.URL], Awaitable[None]]"
"""Raises an error if a hop must not be requested."""
Report: TypeAlias = Callable[[int, int | None], Awaitable[None]]
"""Called with the number of received bytes, and with the total if it is known."""

_MAX_URL_CHARS = 8192
_REDIRECTS = (301, 302, 303, 307, 308)
_CODINGS = ("", "identity", "gzip", "x-gzip", "deflate")
_ACCEPT = "text/html,application/xhtml+xml,text/markdown,text/plain,application/json;q=0.9,*/*;q=0.5"
_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(\d{1,9})")


@frozen(kw_only=True)
class Download:
    """The parameters of a download."""

    url: str
    user_agent: str
    method: Literal["GET", "HEAD"] = "GET"
    limit: Callable[[FetchedPage], int]
    """Returns the maximum bytes of the decompressed body. It is called after the headers, and again with the first
    bytes, which show the kind of a page without a type. An exception ends the download."""
    known: FetchedPage | None = None
    """The cached page. It is the result if the site answers that the page has not changed."""
    check_hop: HopCheck | None = None
    report: Report | None = None


class Downloader:
    """Downloads within the limits of a configuration."""

    def __init__(self, config: Config, gate: AddressGate, transport: FetchTransport) -> None:
        self._config = config
        self._gate = gate
        self._transport = transport
        self._hosts = HostLimits(config.host_concurrency, config.requests_per_second)

    async def download(self, download: Download) -> FetchedPage:
        """Download a page. The status of the result may be an error.

        Raises:
            FetchRefused: One of the hops is not allowed.
            Unreachable: The site does not answer, or not in HTTP.
            ToolError: There are too many redirects, or ``limit`` refused the content.
        """
        url = parse_url(download.url)
        redirects: list[str] = []
        while True:
            host = url.raw_host.decode("ascii")
            self._gate.check(scheme=url.scheme, host=host, port=url.port, has_user=bool(url.userinfo))
            if download.check_hop is not None:
                await download.check_hop(url)
            async with self._hosts.enter(f"{host}:{url.port}"):
                response = await self._request(download, url, tuple(redirects))
            if isinstance(response, FetchedPage):
                return response
            redirects.append(str(url))
            if len(redirects) > self._config.max_redirects:
                raise ToolError(
                    f"Failed to fetch {printable(download.url)}: more than {self._config.max_redirects} redirects, "
                    f"the last one to {printable(str(response))}"
                )
            url = response

    async def _request(
        self, download: Download, url: httpx2.URL, redirects: tuple[str, ...]
    ) -> FetchedPage | httpx2.URL:
        """Request one hop. Return the page, or the target of a redirect."""
        known = download.known if download.known is not None and download.known.url == str(url) else None
        headers = {"User-Agent": download.user_agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}
        if known is not None and known.etag:
            headers["If-None-Match"] = known.etag
        elif known is not None and known.last_modified:
            headers["If-Modified-Since"] = known.last_modified
        try:
            response = await self._transport.send(download.method, url, headers)
            try:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    return _target(url, response.headers["location"])
                if response.status_code == 304 and known is not None:
                    fresh_for = _fresh_for(response.headers)
                    return evolve(
                        known, fresh_for=known.fresh_for if fresh_for is None else fresh_for, redirects=redirects
                    )
                page = evolve(_page_without_body(url, response), redirects=redirects)
                return page if download.method == "HEAD" else await self._read(download, response, page)
            finally:
                # Closing the connection discards the unread rest.
                await response.aclose()
        except FAILURES as error:
            raise describe_failure(error, str(url)) from error

    async def _read(self, download: Download, response: httpx2.Response, page: FetchedPage) -> FetchedPage:
        coding = response.headers.get("content-encoding", "").strip().lower()
        if coding not in _CODINGS:
            raise Unreachable(
                f"Failed to fetch {printable(page.url)}: expected gzip or deflate, "
                f"got the Content-Encoding {printable(coding, 50)}"
            )
        limit = download.limit(page)
        body = bytearray()
        # httpx2 decompresses at most 1 MiB at a time, so a decompression bomb ends at the limit.
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                if not body:
                    limit = download.limit(evolve(page, body=chunk))
                body += chunk
                if len(body) > limit:
                    return evolve(page, body=bytes(body[:limit]), is_complete=False)
                if download.report is not None:
                    await download.report(response.num_bytes_downloaded, page.length)
        return evolve(page, body=bytes(body))


def parse_url(text: str) -> httpx2.URL:
    """Parse a URL. The result has no fragment, and its host is in ASCII.

    Raises:
        FetchRefused: The text is not a URL.
    """
    if len(text) > _MAX_URL_CHARS:
        raise FetchRefused(f"expected a URL of at most {_MAX_URL_CHARS} characters, got {len(text)}")
    try:
        url = httpx2.URL(text.strip()).copy_with(fragment=None)
    except (httpx2.InvalidURL, ValueError) as error:
        raise FetchRefused(f"expected a URL such as https://example.com/, got {printable(text)}: {error}") from error
    if not url.scheme or not url.host:
        raise FetchRefused(f"expected a URL such as https://example.com/, got {printable(text)}")
    return url


def _target(url: httpx2.URL, location: str) -> httpx2.URL:
    try:
        target = url.join(location).copy_with(fragment=None)
    except (httpx2.InvalidURL, ValueError) as error:
        raise ToolError(
            f"Failed to fetch {printable(str(url))}: redirected to {printable(location)}, which is not a URL"
        ) from error
    if len(str(target)) > _MAX_URL_CHARS:
        raise ToolError(f"Failed to fetch {printable(str(url))}: redirected to a URL that is too long")
    return target


def _page_without_body(url: httpx2.URL, response: httpx2.Response) -> FetchedPage:
    headers = response.headers
    content_type, _, parameters = headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", parameters, re.IGNORECASE | re.ASCII)
    length = headers.get("content-length", "")
    return FetchedPage(
        url=str(url),
        status=response.status_code,
        content_type=printable(content_type.strip().lower(), 100),
        charset=charset[1] if charset else None,
        length=int(length) if re.fullmatch(r"[0-9]{1,15}", length) else None,
        etag=_short_validator(headers.get("etag")),
        last_modified=_short_validator(headers.get("last-modified")),
        fresh_for=_fresh_for(headers),
    )


def _short_validator(text: str | None) -> str | None:
    """Return a validator (an ETag or a time) unless it is too long to be stored."""
    return text if text and len(text) <= 200 else None


def _fresh_for(headers: httpx2.Headers) -> float | None:
    directives = headers.get("cache-control", "").lower()
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    match = _MAX_AGE.search(directives)
    if match is None:
        return None
    age = headers.get("age", "")
    return max(0.0, float(match[1]) - (float(age) if re.fullmatch(r"[0-9]{1,9}", age) else 0.0))
