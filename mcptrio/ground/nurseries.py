"""Nurseries that callers do not notice, and the check that Trio runs.

Used by context managers that open a nursery around the caller's block. An exception of the block is raised unchanged,
not in a group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from mcptrio.ground.tracebacks import raise_single

__all__ = ["first_of", "open_hidden_nursery", "outlasting", "raised_alone", "require_trio"]


@asynccontextmanager
async def open_hidden_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery that raises a single exception without a group; several are raised in a group.

    For tasks that serve the body: they are cancelled when the body ends or raises.
    """
    with raised_alone():
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()


@contextmanager
def raised_alone() -> Iterator[None]:
    """Raise an exception in groups of one without the groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise_single(group)


def require_trio(what: str) -> None:
    """Check that the caller runs in a Trio task.

    Raises:
        RuntimeError: Trio does not run this code: asyncio does, or a thread, or nothing.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            f"{what} must be called in a Trio task, started by trio.run; an asyncio program runs Trio in a thread:"
            " asyncio.to_thread(trio.run, main)"
        )


@asynccontextmanager
async def outlasting(seconds: float) -> AsyncIterator[None]:
    """Give the body ``seconds`` more when the caller is cancelled, for work that must not stop half-way.

    The cancellation is raised at the end of the body, or inside it when the time is up.
    """
    async with open_hidden_nursery() as nursery:
        scope = trio.CancelScope(shield=True)
        nursery.start_soon(_bound, scope, seconds)
        with scope:
            yield


async def _bound(scope: trio.CancelScope, seconds: float) -> None:
    try:
        await trio.sleep_forever()
    # This task is not shielded, so it is the one that notices the cancellation.
    finally:
        scope.deadline = trio.current_time() + seconds


def first_of(error: BaseException) -> BaseException:
    """Return the exception, or the first one of a group whose exceptions would be reported in the same way."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
