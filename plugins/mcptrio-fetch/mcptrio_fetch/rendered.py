"""A page as text for a model.

The renderer makes it; it is cached with the page, and the answers contain pieces of it.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["Rendered"]


@frozen(kw_only=True)
class Rendered:
    text: str
    prefix: str = ""
    """A note before the text."""
    title: str | None = None
    is_whole: bool = True
    """False if the end of the page was left out."""
