"""Nurseries that a caller need not know of.

Used by what opens a nursery of its own around somebody else's ``async with`` body.
The one rule: what the body raises comes out as it was raised, as if there were no nursery.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcptrio.tracebacks import single

__all__ = ["first_of", "open_hidden_nursery", "outlasting"]


@asynccontextmanager
async def open_hidden_nursery() -> AsyncIterator[trio.Nursery]:
    """A nursery out of which one exception comes alone; several still come in a group.

    For tasks that do not fail: when the body is done, or has raised, they are cancelled.
    """
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = single(group)
        if error is group:
            raise
        # Its own cause stays; the group it travelled in is no part of the story.
        raise error from error.__cause__  # noqa: ASYNC123 - it keeps its own


@asynccontextmanager
async def outlasting(seconds: float) -> AsyncIterator[None]:
    """Give the body ``seconds`` more when the caller is cancelled: for work that must not stop half way.

    The cancellation is raised at the end of the body, or where the body is when the seconds are over.
    """
    async with open_hidden_nursery() as nursery:
        with trio.CancelScope(shield=True) as scope:
            nursery.start_soon(_bound, scope, seconds)
            yield


async def _bound(scope: trio.CancelScope, seconds: float) -> None:
    try:
        await trio.sleep_forever()
    finally:
        scope.deadline = trio.current_time() + seconds


def first_of(error: BaseException) -> BaseException:
    """The exception itself, or the first one of the group, where all of them would be told alike."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
