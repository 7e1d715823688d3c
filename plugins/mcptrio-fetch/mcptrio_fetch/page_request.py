"""The key of a page: its URL, and on whose behalf it was requested.

The tools make it, and cached pages are found by it. Whether robots.txt was checked is part of the key, so that a cached
page is given only to a caller who could have downloaded it.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["PageRequest"]


@frozen(kw_only=True)
class PageRequest:
    url: str
    by_user: bool = False
    """True if a user requested this page. Requests of a model obey robots.txt."""
