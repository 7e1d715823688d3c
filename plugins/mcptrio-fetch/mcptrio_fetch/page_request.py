"""The key of a cached page: its URL, and whether a user or a model requested it.

The tools create it. The requester is part of the key because only requests of a model obey robots.txt: a cached page is
returned only to a caller who could have downloaded it.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["PageRequest"]


@frozen(kw_only=True)
class PageRequest:
    """A page and its requester."""

    url: str
    by_user: bool = False
    """True if a user requested this page. Requests of a model obey robots.txt."""
