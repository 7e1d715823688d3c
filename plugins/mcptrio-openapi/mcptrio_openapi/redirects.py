"""Decides whether a redirect may be followed.

Calls and the fetching of documents use it. Only the same origin and the operator's origins are allowed; never a step
from https to http, which is another origin.

Source: RFC 9110, 15.4 and 10.2.2.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urldefrag, urljoin

from .origins import check_base_url, origin_of

__all__ = ["HOPS", "RedirectRefused", "is_redirect", "next_url"]

HOPS = 5
"""Redirects that are followed for one request."""


class RedirectRefused(ValueError):
    """A redirect that is not followed; the message names its target without path and query."""


def is_redirect(status: int, location: str | None) -> bool:
    return status in (301, 302, 303, 307, 308) and bool(location)


def next_url(url: str, location: str, also: Collection[str] = ()) -> tuple[str, bool]:
    """Where a redirect leads, and whether that is the same origin.

    Args:
        also: other origins that are allowed.

    Raises:
        Refused: it may not be followed.
    """
    # Encoded characters stay encoded; characters that must not be sent raw are encoded now.
    safe = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"<>\\^`{|}')
    target = urldefrag(urljoin(url, quote(location, safe=safe))).url
    try:
        origin = origin_of(target)
        check_base_url(target.partition("?")[0], "Location")
    except ValueError as error:
        raise RedirectRefused("redirected to something that is no usable http or https URL") from error
    if origin == origin_of(url):
        return target, True
    if origin in {origin_of(each) for each in also}:
        return target, False
    raise RedirectRefused(f"redirected to another origin, {origin}, which is not allowed")
