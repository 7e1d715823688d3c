"""Asking the user for authorization when the credentials of a request do not suffice.

Used by the client around everything it sends, so that the user is asked outside of all deadlines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mcptrio.errors import ConsentNeeded

__all__ = ["with_consent"]

T = TypeVar("T")

MAX_CONSENTS = 3
"""Times that the user is asked for one connection or one request; each time it is for something else."""


async def with_consent(work: Callable[[], Awaitable[T]]) -> T:
    """Do some work, and again after the user has authorized it.

    ConsentNeeded means that the server has not served the request. After it has, the link asks the user instead.
    """
    for _ in range(MAX_CONSENTS):
        try:
            return await work()
        except ConsentNeeded as needed:
            await needed.ask()
    return await work()
