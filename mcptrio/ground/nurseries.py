"""Helpers for context managers that open a nursery around the caller's block, and the check that Trio runs.

Trio would raise an exception of the block in a group. The caller does not know of the nursery, so these helpers raise
the exception without the group.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from mcptrio.ground.tracebacks import raise_single

__all__ = ["delay_cancellation", "first_exception", "open_hidden_nursery", "require_trio", "unwrap_single_exceptions"]


@asynccontextmanager
async def open_hidden_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery that raises a single exception without a group; several are raised in a group.

    Its tasks serve the body: they are cancelled when the body ends or raises.
    """
    with unwrap_single_exceptions():
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()


@contextmanager
def unwrap_single_exceptions() -> Iterator[None]:
    """Raise the exception inside nested groups of one without the groups. Other groups are raised unchanged."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise_single(group)


def require_trio(what: str) -> None:
    """Check that the caller runs in a Trio task.

    Args:
        what: The function that needs Trio, for the error.

    Raises:
        RuntimeError: The caller runs under asyncio, in a thread, or without an event loop.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            f"{what} must be called in a Trio task, started by trio.run; an asyncio program runs Trio in a thread:"
            " asyncio.to_thread(trio.run, main)"
        )


@asynccontextmanager
async def delay_cancellation(seconds: float) -> AsyncIterator[None]:
    """When the caller is cancelled, give the body up to ``seconds`` to finish, for work that must not stop half-way.

    Cancelled is raised at the end of the body, or inside it after ``seconds``.
    """
    async with open_hidden_nursery() as nursery:
        scope = trio.CancelScope(shield=True)
        nursery.start_soon(_limit_after_cancellation, scope, seconds)
        with scope:
            yield


async def _limit_after_cancellation(scope: trio.CancelScope, seconds: float) -> None:
    try:
        await trio.sleep_forever()
    # The body is shielded and this task is not, so only this task notices the cancellation.
    finally:
        scope.deadline = trio.current_time() + seconds


def first_exception(error: BaseException) -> BaseException:
    """Return the first exception of a group, at any depth; an exception that is not a group is returned unchanged."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
