"""What is asked for, and on whose behalf.

Made by the tools; the pages that are kept are found by it.
The one rule: who gets a page of the shelf was allowed to download it, so whether robots.txt was asked is part of it.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["PageRequest"]


@frozen(kw_only=True)
class PageRequest:
    url: str
    by_user: bool = False
    """A user asked for this page by name; a model did otherwise, and robots.txt is for those."""
