"""Asks the user for authorization when a request lacks credentials.

The client sends every message through :func:`with_consent`, so that no deadline runs while the user decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcptrio.errors import ConsentNeeded

__all__ = ["with_consent"]

T = TypeVar("T")

MAX_CONSENTS = 3
"""Questions to the user for one connection attempt or request. Each question is about another grant."""


async def with_consent(work: Callable[[], Awaitable[T]]) -> T:
    """Run ``work``, and run it again after the user has authorized it.

    After a ConsentNeeded exception, the server has not served the request, so repeating it is safe.
    """
    for _ in range(MAX_CONSENTS):
        try:
            return await work()
        except ConsentNeeded as needed:
            await needed.ask()
    return await work()
