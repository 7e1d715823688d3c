"""robots.txt: whether a site allows a program to fetch a page.

The downloader asks it before each hop of a request that no user has made. Without a clear answer the page is refused;
only a missing robots.txt allows everything. 401 and 403 refuse, as in the reference server, where RFC 9309 would allow.

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
"""Bytes of robots.txt that are remembered; parsed they take about ten times as much."""
_ENTRY_WEIGHT = 2048
_FAILURE_SECONDS = 30.0
"""How long a site whose robots.txt could not be had is not asked again."""

_AGENT_LINE = re.compile(r"[ \t]*user[ -]?agent[ \t]*[: \t][ \t]*([^#]*)", re.IGNORECASE)
_MANUALLY = "The user can fetch the page by using the fetch prompt."


class Robots:
    """
    Args:
        fetch: gets a robots.txt by its URL, following redirects.
        token: the product token by which rules are found, such as ``mcptrio-fetch``.
        max_age: seconds for which an answer is used again.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[FetchedPage]], *, token: str, max_age: float) -> None:
        self._fetch = fetch
        self._token = token.lower()
        self._known: ByteCache[str, _Answer] = ByteCache(_CACHE_BYTES, max_age)
        self._asking: dict[str, _Turn] = {}

    async def check(self, url: httpx2.URL) -> None:
        """
        Raises:
            Refused: the site does not want it, or does not say.
        """
        place = str(url.copy_with(raw_path=b"/robots.txt", fragment=None))
        answer = self._find(place) or await self._ask(place)
        if answer.refusal is not None:
            raise FetchRefused(answer.refusal)
        if answer.rules is not None and not answer.rules.can_fetch(str(url), self._token):
            raise FetchRefused(
                f"The site's robots.txt ({printable(place)}) specifies that autonomous fetching of "
                f"{printable(str(url))} is not allowed for {self._token}. {_MANUALLY}"
            )

    def _find(self, place: str) -> _Answer | None:
        answer = self._known.get(place)
        return answer if answer is not None and trio.current_time() < answer.until else None

    async def _ask(self, place: str) -> _Answer:
        # One asks, the others wait for that; if the one is cancelled, the next one asks.
        turn = self._asking.setdefault(place, _Turn(trio.Lock()))
        turn.users += 1
        try:
            async with turn.lock:
                answer = self._find(place)
                if answer is None:
                    answer, weight = await self._download(place)
                    self._known.put(place, answer, weight + _ENTRY_WEIGHT)
                return answer
        finally:
            turn.users -= 1
            if not turn.users:
                del self._asking[place]

    async def _download(self, place: str) -> tuple[_Answer, int]:
        shown = printable(place)
        try:
            page = await self._fetch(place)
        except FetchRefused:
            # By the gate; the page, which is at the same address, would be refused as well.
            raise
        except ToolError as error:
            why = f"Failed to fetch robots.txt ({shown}), so autonomous fetching is not allowed: {error}"
            return _Answer(refusal=why, until=trio.current_time() + _FAILURE_SECONDS), len(why)
        if page.status in (401, 403):
            why = (
                f"When fetching robots.txt ({shown}), received status {page.status}, "
                f"so autonomous fetching is not allowed. {_MANUALLY}"
            )
            return _Answer(refusal=why), len(why)
        if 400 <= page.status < 500:
            return _Answer(), 0
        if not 200 <= page.status < 300:
            why = f"robots.txt ({shown}) has status {page.status}, so autonomous fetching is not allowed. {_MANUALLY}"
            return _Answer(refusal=why, until=trio.current_time() + _FAILURE_SECONDS), len(why)
        rules = await trio.to_thread.run_sync(self._parse, page.body)
        return _Answer(rules=rules), len(page.body)

    def _parse(self, body: bytes) -> Protego:
        text = body.decode("utf-8-sig", "replace")
        return Protego.parse("\n".join(self._narrow(line) for line in text.splitlines()))

    def _narrow(self, line: str) -> str:
        """A line, with a stranger's name in the place of every other agent's.

        Protego keeps each rule for each agent of its group: half a megabyte with many of both would be gigabytes.
        """
        found = _AGENT_LINE.match(line)
        if found is None:
            return line
        name = found[1].strip().lower()
        if name == "*":
            return "user-agent: *"
        # Wildcards and versions in names are no more than a habit (RFC 9309, 2.2.1 has neither).
        is_ours = name.partition("/")[0].replace("*", "").strip() == self._token
        return f"user-agent: {self._token if is_ours else '-'}"


@frozen(kw_only=True)
class _Answer:
    rules: Protego | None = None
    """``None`` allows everything that ``refusal`` does not forbid."""
    refusal: str | None = None
    until: float = float("inf")
    """Trio time."""


@define
class _Turn:
    lock: trio.Lock
    users: int = 0
