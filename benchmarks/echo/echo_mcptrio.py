"""The echo tool for mcptrio: ``mcptrio serve --plugin echo_mcptrio.py``."""

from __future__ import annotations

from mcptrio import tool

__all__ = ["echo"]


@tool
async def echo(text: str) -> str:
    """Return the text."""
    return text
