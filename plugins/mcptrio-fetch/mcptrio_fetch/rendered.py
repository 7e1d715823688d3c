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
    notes: tuple[str, ...] = ()
    """Omissions, such as an end of the page that was not read."""
