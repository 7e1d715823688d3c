"""A page as text for a model.

The renderer creates it, ``PageFetcher`` caches it with the page, and the results of the tools contain pieces of it.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["RenderedPage"]


@frozen(kw_only=True)
class RenderedPage:
    """The text of a page, and notes on it."""

    text: str
    prefix: str = ""
    """A note before the text."""
    title: str | None = None
    notes: tuple[str, ...] = ()
    """Omissions, such as an end of the page that was not read."""
