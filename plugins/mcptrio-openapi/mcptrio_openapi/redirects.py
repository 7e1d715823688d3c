"""Decides whether a redirect may be followed.

Calls and the download of documents use it. The target of a redirect must have the same origin, or one that the operator
allows. http and https URLs of a host have different origins.

Source: RFC 9110, 15.4 and 10.2.2.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urldefrag, urljoin

from .origins import check_base_url, origin_of

__all__ = ["MAX_REDIRECTS", "RedirectRefused", "is_redirect", "next_url"]

MAX_REDIRECTS = 5
"""Maximum number of redirects that are followed for one request."""


class RedirectRefused(ValueError):
    """The redirect must not be followed. The message has the origin of its target, without path and query."""


def is_redirect(status: int, location: str | None) -> bool:
    return status in (301, 302, 303, 307, 308) and bool(location)


def next_url(url: str, location: str, allowed_origins: Collection[str] = ()) -> tuple[str, bool]:
    """Return the target of a redirect, and True if it has the same origin.

    Args:
        allowed_origins: Other origins that are allowed.

    Raises:
        RedirectRefused: The redirect must not be followed.
    """
    # Encoded characters stay encoded; characters that must not be sent raw are encoded now.
    safe = "".join(chr(code) for code in range(33, 127) if chr(code) not in '"<>\\^`{|}')
    target = urldefrag(urljoin(url, quote(location, safe=safe))).url
    try:
        origin = origin_of(target)
        check_base_url(target.partition("?")[0], "Location")
    except ValueError as error:
        raise RedirectRefused("redirected to something that is not a usable http or https URL") from error
    if origin == origin_of(url):
        return target, True
    if origin in {origin_of(each) for each in allowed_origins}:
        return target, False
    raise RedirectRefused(f"redirected to another origin, {origin}, which is not allowed")
