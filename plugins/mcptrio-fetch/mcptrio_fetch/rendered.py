"""A page as a model reads it.

Made by the renderer, kept beside the page, cut into pieces by the answers.
"""

from __future__ import annotations

from attrs import frozen

__all__ = ["Rendered"]


@frozen(kw_only=True)
class Rendered:
    text: str
    prefix: str = ""
    """What is to be said before the text."""
    title: str | None = None
    is_whole: bool = True
    """False where the end of the page was left out."""
