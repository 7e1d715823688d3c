"""Runs code of plugin authors: returns its exceptions as values, and closes the scopes that it has left open.

Used wherever a function of a plugin, or a callback of a client or host, is called. ``trio.Cancelled`` belongs to Trio
alone: an exception that left a cancel scope together with it would end the nursery, and all other requests in it.

Trio's state belongs to the task, and tasks serve one request after another. If a function enters
a nursery or a cancel scope by hand and leaves it open, its deadline would cancel later requests of the task, and its
end would end the server.

Source: Trio 0.31 to 0.35, ``trio._core._run``, "Cancel scope misnesting", whose own recovery ends the nursery around.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any, Final, Generic, TypeVar, TypeVarTuple

import trio
from attrs import frozen

from mcptrio.errors import MCPTrioError
from mcptrio.ground.tracebacks import single

__all__ = ["Done", "Failure", "run_guarded", "run_guarded_sync", "well_nested"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("mcptrio.guarded")

_CANCEL_TIMEOUT: Final = 1.0
"""Seconds for left-over tasks to end after their cancellation."""
_POLL_INTERVAL: Final = 0.001
"""Seconds between two checks whether they have ended."""


@frozen
class Failure:
    """The exception that the code raised, unwrapped from groups of one."""

    error: BaseException


@frozen
class Done(Generic[T]):
    value: T


async def run_guarded(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> Done[T] | Failure:
    """Run author's code and return its exception as a value, also ``SystemExit``.

    Cancellation passes through, and so does KeyboardInterrupt, which is the user's.
    """
    try:
        return Done(await function(*args))
    except BaseException as error:  # noqa: ASYNC103 - _plugin_error lets Cancelled through
        return Failure(_plugin_error(error))  # noqa: ASYNC104


def run_guarded_sync(function: Callable[[*Ts], T], *args: *Ts) -> Done[T] | Failure:
    """Call an author's sync function and return its exception as a value."""
    try:
        return Done(function(*args))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: ASYNC103 - a plain call is not a place where Cancelled comes up
        return Failure(_unwrap(error))  # noqa: ASYNC104


async def well_nested(work: Callable[..., Awaitable[T]], /, *args: Any, **values: Any) -> T:
    """Call an async function of an author, and close the nurseries and cancel scopes that it has left open.

    Raises:
        RuntimeError: It has left something open; its tasks are cancelled, and the error names it.
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


def _plugin_error(error: BaseException) -> BaseException:
    """Return the part that the author's code has raised itself, unwrapped from groups of one.

    Raises:
        trio.Cancelled, KeyboardInterrupt: Those parts of it.
    """
    if isinstance(error, BaseExceptionGroup):
        passing, failed = error.split(_passes)
        if passing is not None:
            if failed is not None:
                # The cancellation is raised, and the failure is logged so that it is not lost.
                _log.error("failed while it was cancelled", exc_info=failed)
            raise passing
    elif _passes(error):
        raise error
    error = _unwrap(error)
    if isinstance(error, trio.Cancelled):
        stray = RuntimeError("trio.Cancelled was raised where nothing is cancelled")
        stray.__cause__ = error
        return stray
    return error


def _passes(error: BaseException) -> bool:
    """Return whether this is a cancellation from outside, or Ctrl-C.

    An author can store a Cancelled and raise it later. If nothing is cancelled, it would reach the nursery of all
    requests and end it silently.
    """
    if isinstance(error, trio.Cancelled):
        # -inf means that a scope around this task has been cancelled.
        return trio.current_effective_deadline() == -inf
    return isinstance(error, KeyboardInterrupt)


def _unwrap(error: BaseException) -> BaseException:
    """Return the single error of a group: errors from the author's own nursery arrive in groups."""
    error = single(error)
    if isinstance(error, BaseExceptionGroup):
        # An error meant for the client keeps its meaning, whatever else failed.
        ours = [each for each in error.exceptions if isinstance(each, MCPTrioError)]
        if len(ours) == 1:
            return ours[0]
    return error


async def _emptied(left: Sequence[trio.Nursery]) -> None:
    """Cancel the tasks that were left behind, and wait for their end."""
    for nursery in left:
        nursery.cancel_scope.cancel()
    while any(nursery.child_tasks for nursery in left):  # noqa: ASYNC110 - there is no event for it
        await trio.sleep(_POLL_INTERVAL)


def _put_back(task: trio.lowlevel.Task, status: Any, left: Sequence[trio.Nursery]) -> None:
    """Restore the cancel status that the task had before the call."""
    for nursery in left:
        task._child_nurseries.remove(nursery)
    inner: Any = task._cancel_status
    # Trio then recalculates whether the task is cancelled.
    task._activate_cancel_status(status)
    while inner is not None and inner is not status:
        outer = inner.parent
        inner.close()
        inner = outer
