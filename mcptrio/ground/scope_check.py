"""Containment of author's code that enters a nursery or a cancel scope by hand and leaves it open.

Used around every async function, async generator, middleware and ASGI application of an author. Trio's state belongs to
the task, and tasks serve one request after another: a scope that one function leaves open would cancel the next
requests at its deadline, and end the server with itself.

Source: Trio 0.31 to 0.35, ``trio._core._run``, "Cancel scope misnesting", whose own recovery ends the nursery around.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import trio

__all__ = ["well_nested"]

T = TypeVar("T")

_CANCEL_TIMEOUT: Final = 1.0
"""Seconds for left-over tasks to end after their cancellation."""
_POLL_INTERVAL: Final = 0.001
"""Seconds between two checks whether they have ended."""


async def well_nested(work: Callable[..., Awaitable[T]], *args: Any, **values: Any) -> T:
    """Call a function, and close the nurseries and cancel scopes that it has left open.

    Raises:
        RuntimeError: it has left something open; its tasks are cancelled, and the error names it.
    """
    task = trio.lowlevel.current_task()
    status, nurseries = task._cancel_status, len(task.child_nurseries)
    what: str | None = None
    returned = False
    try:
        result = await work(*args, **values)
        returned = True
    finally:
        # Compared by identity: a scope that was opened and closed restores the very same status.
        if task._cancel_status is not status or len(task.child_nurseries) != nurseries:
            left = task.child_nurseries[nurseries:]
            what = "a nursery" if left else "a cancel scope"
            # Shielded, since the task may be cancelled itself and its nurseries must be empty before they are removed.
            with trio.move_on_after(_CANCEL_TIMEOUT, shield=True):
                await _emptied(left)
            _put_back(task, status, left)
    # An exception of the work says more than ours.
    if returned and what is not None:
        raise RuntimeError(f"{what} was still open when the function returned; open it with `with` or `async with`")
    return result


async def _emptied(left: Sequence[trio.Nursery]) -> None:
    """Cancel the tasks that were left behind, and wait for their end."""
    for nursery in left:
        nursery.cancel_scope.cancel()
    while any(nursery.child_tasks for nursery in left):  # noqa: ASYNC110 - there is no event for it
        await trio.sleep(_POLL_INTERVAL)


def _put_back(task: trio.lowlevel.Task, status: Any, left: Sequence[trio.Nursery]) -> None:
    """Restore the cancel status of the task."""
    for nursery in left:
        task._child_nurseries.remove(nursery)
    inner: Any = task._cancel_status
    # Trio then recalculates whether the task is cancelled.
    task._activate_cancel_status(status)
    while inner is not None and inner is not status:
        outer = inner.parent
        inner.close()
        inner = outer
