"""robots.txt: whether a site allows a program to fetch a page.

The downloader calls ``Robots.check`` before each hop of a model's request. If robots.txt cannot be read, the page is
refused; only a missing robots.txt allows everything. The status codes 401 and 403 refuse, as in the reference server,
although RFC 9309 would allow.

Source: RFC 9309, 2.2 (matching, by Protego), 2.3.1 (results), 2.4 (caching), 2.5 (limits).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import httpx2
import trio
from attrs import define, frozen
from protego import Protego

from mcptrio import ToolError

from .byte_cache import ByteCache
from .errors import FetchRefused, printable
from .page import FetchedPage

__all__ = ["MAX_ROBOTS_BYTES", "Robots"]

MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a robots.txt that are read (RFC 9309, 2.5); the rest is ignored."""

_CACHE_BYTES = 4 * 1024 * 1024
"""Bytes of robots.txt whose rules are cached. The parsed rules take about ten times as much memory."""
_ENTRY_WEIGHT = 2048
_FAILURE_SECONDS = 30.0
"""Seconds after which a robots.txt that could not be downloaded is requested again."""

_AGENT_LINE = re.compile(r"[ \t]*user[ -]?agent[ \t]*[: \t][ \t]*([^#]*)", re.IGNORECASE)
_PROMPT_ADVICE = "The user can fetch the page by using the fetch prompt."


class Robots:
    """The cached rules of sites.

    Args:
        fetch: Downloads a robots.txt by its URL, following redirects.
        token: The product token that selects rules, such as ``mcptrio-fetch``.
        max_age: Seconds for which the rules of a site are reused.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[FetchedPage]], *, token: str, max_age: float) -> None:
        self._fetch = fetch
        self._token = token.lower()
        self._cache: ByteCache[str, _SiteRules] = ByteCache(_CACHE_BYTES, max_age)
        self._pending: dict[str, _PendingDownload] = {}

    async def check(self, url: httpx2.URL) -> None:
        """Check that the robots.txt of a site allows a URL.

        Raises:
            FetchRefused: The robots.txt forbids it, or cannot be read.
        """
        robots_url = str(url.copy_with(raw_path=b"/robots.txt", fragment=None))
        answer = self._find(robots_url) or await self._load(robots_url)
        if answer.refusal is not None:
            raise FetchRefused(answer.refusal)
        if answer.rules is not None and not answer.rules.can_fetch(str(url), self._token):
            raise FetchRefused(
                f"The site's robots.txt ({printable(robots_url)}) specifies that autonomous fetching of "
                f"{printable(str(url))} is not allowed for {self._token}. {_PROMPT_ADVICE}"
            )

    def _find(self, robots_url: str) -> _SiteRules | None:
        answer = self._cache.get(robots_url)
        return answer if answer is not None and trio.current_time() < answer.until else None

    async def _load(self, robots_url: str) -> _SiteRules:
        # One call downloads, the others wait for it. If it is cancelled, the next one downloads.
        pending = self._pending.setdefault(robots_url, _PendingDownload(trio.Lock()))
        pending.users += 1
        try:
            async with pending.lock:
                answer = self._find(robots_url)
                if answer is None:
                    answer, weight = await self._download(robots_url)
                    self._cache.put(robots_url, answer, weight + _ENTRY_WEIGHT)
                return answer
        finally:
            pending.users -= 1
            if not pending.users:
                del self._pending[robots_url]

    async def _download(self, robots_url: str) -> tuple[_SiteRules, int]:
        url_text = printable(robots_url)
        try:
            page = await self._fetch(robots_url)
        except FetchRefused:
            # The gate refuses the host, and so would refuse the page.
            raise
        except ToolError as error:
            reason = f"Failed to fetch robots.txt ({url_text}), so autonomous fetching is not allowed: {error}"
            return _SiteRules(refusal=reason, until=trio.current_time() + _FAILURE_SECONDS), len(reason)
        if page.status in (401, 403):
            reason = (
                f"When fetching robots.txt ({url_text}), received status {page.status}, "
                f"so autonomous fetching is not allowed. {_PROMPT_ADVICE}"
            )
            return _SiteRules(refusal=reason), len(reason)
        if 400 <= page.status < 500:
            return _SiteRules(), 0
        if not 200 <= page.status < 300:
            reason = (
                f"robots.txt ({url_text}) has status {page.status}, "
                f"so autonomous fetching is not allowed. {_PROMPT_ADVICE}"
            )
            return _SiteRules(refusal=reason, until=trio.current_time() + _FAILURE_SECONDS), len(reason)
        rules = await trio.to_thread.run_sync(self._parse, page.body)
        return _SiteRules(rules=rules), len(page.body)

    def _parse(self, body: bytes) -> Protego:
        text = body.decode("utf-8-sig", "replace")
        return Protego.parse("\n".join(self._simplify_agent(line) for line in text.splitlines()))

    def _simplify_agent(self, line: str) -> str:
        """Return a line with the names of all other agents replaced by one name.

        Protego stores each rule once for each agent of its group, so half a megabyte with many agents and rules would
        take gigabytes.
        """
        match = _AGENT_LINE.match(line)
        if match is None:
            return line
        name = match[1].strip().lower()
        if name == "*":
            return "user-agent: *"
        # RFC 9309, 2.2.1 has no wildcards or versions in names, but sites use them.
        is_ours = name.partition("/")[0].replace("*", "").strip() == self._token
        return f"user-agent: {self._token if is_ours else '-'}"


@frozen(kw_only=True)
class _SiteRules:
    rules: Protego | None = None
    """``None`` allows everything that ``refusal`` does not forbid."""
    refusal: str | None = None
    until: float = float("inf")
    """Trio clock time until which the rules are used."""


@define
class _PendingDownload:
    lock: trio.Lock
    users: int = 0
