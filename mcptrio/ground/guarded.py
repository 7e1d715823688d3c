"""Runs code of plugin authors: returns its exceptions as values, and closes the scopes that it has left open.

Used wherever a function of a plugin, or a callback of a client or host, is called. A cancellation passes through: if
an author's exception left a cancel scope together with ``trio.Cancelled``, the group would end the nursery around it
with all other requests.

A task serves one request after another, and open nurseries and cancel scopes belong to the task. If a function enters
one by hand and leaves it open, its deadline would cancel later requests of the task, and Trio would end the server when
it notices the misnesting.

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

__all__ = ["Done", "Failure", "call_with_scope_check", "run_guarded", "run_guarded_sync"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("mcptrio.guarded")

_CANCEL_TIMEOUT: Final = 1.0
"""Seconds for left-over tasks to end after their cancellation."""
_POLL_INTERVAL: Final = 0.001
"""Seconds between two checks whether the left-over tasks have ended."""


@frozen
class Failure:
    """The exception that the code raised, unwrapped from groups of one."""

    error: BaseException


@frozen
class Done(Generic[T]):
    """The value that the code returned."""

    value: T


async def run_guarded(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> Done[T] | Failure:
    """Await an author's async function, and return its exception as a value, even ``SystemExit``.

    Raises:
        trio.Cancelled: The task was cancelled from outside.
        KeyboardInterrupt: The user pressed Ctrl-C.
    """
    try:
        return Done(await function(*args))
    except BaseException as error:  # noqa: ASYNC103 - _plugin_error lets Cancelled through
        return Failure(_plugin_error(error))  # noqa: ASYNC104


def run_guarded_sync(function: Callable[[*Ts], T], *args: *Ts) -> Done[T] | Failure:
    """Call an author's sync function, and return its exception as a value. KeyboardInterrupt is raised."""
    try:
        return Done(function(*args))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: ASYNC103 - no checkpoint in a sync call, so no Cancelled of Trio's
        return Failure(_unwrap(error))  # noqa: ASYNC104


async def call_with_scope_check(work: Callable[..., Awaitable[T]], /, *args: Any, **values: Any) -> T:
    """Call an async function of an author, and close the nurseries and cancel scopes that it has left open.

    Raises:
        RuntimeError: The function has left a nursery or a cancel scope open. The tasks of the nursery are cancelled.
    """
    task = trio.lowlevel.current_task()
    status, nurseries = task._cancel_status, len(task.child_nurseries)
    left_open: str | None = None
    returned = False
    try:
        result = await work(*args, **values)
        returned = True
    finally:
        # Compared by identity: a scope that was opened and closed restores the very same status.
        if task._cancel_status is not status or len(task.child_nurseries) != nurseries:
            left = task.child_nurseries[nurseries:]
            left_open = "a nursery" if left else "a cancel scope"
            # Shielded, since the task may be cancelled itself and its nurseries must be empty before they are removed.
            with trio.move_on_after(_CANCEL_TIMEOUT, shield=True):
                await _cancel_tasks(left)
            _restore_cancel_status(task, status, left)
    # If the function raised, its own exception is more useful than this one.
    if returned and left_open is not None:
        raise RuntimeError(
            f"{left_open} was still open when the function returned; open it with `with` or `async with`"
        )
    return result


def _plugin_error(error: BaseException) -> BaseException:
    """Return the exception that the author's code has raised itself, unwrapped from groups of one.

    Raises:
        trio.Cancelled, KeyboardInterrupt: These parts of ``error`` are raised.
    """
    if isinstance(error, BaseExceptionGroup):
        passing, failed = error.split(_must_propagate)
        if passing is not None:
            if failed is not None:
                # The cancellation is raised, and the failure is logged so that it is not lost.
                _log.error("exception raised during cancellation", exc_info=failed)
            raise passing
    elif _must_propagate(error):
        raise error
    error = _unwrap(error)
    if isinstance(error, trio.Cancelled):
        stray = RuntimeError("trio.Cancelled was raised where nothing is cancelled")
        stray.__cause__ = error
        return stray
    return error


def _must_propagate(error: BaseException) -> bool:
    """Return whether this is a cancellation from outside, or Ctrl-C.

    An author can store a Cancelled and raise it later, when nothing is cancelled. Such an exception must not propagate:
    it would end the nursery of all requests silently.
    """
    if isinstance(error, trio.Cancelled):
        # -inf means that a scope around this task has been cancelled.
        return trio.current_effective_deadline() == -inf
    return isinstance(error, KeyboardInterrupt)


def _unwrap(error: BaseException) -> BaseException:
    """Return the single exception of a group, or its only MCPTrioError. An author's nursery raises groups."""
    error = single(error)
    if isinstance(error, BaseExceptionGroup):
        # An error that was meant for the client must reach it, even if other tasks failed too.
        ours = [each for each in error.exceptions if isinstance(each, MCPTrioError)]
        if len(ours) == 1:
            return ours[0]
    return error


async def _cancel_tasks(left: Sequence[trio.Nursery]) -> None:
    """Cancel the tasks of the nurseries that were left open, and wait until they have ended."""
    for nursery in left:
        nursery.cancel_scope.cancel()
    while any(nursery.child_tasks for nursery in left):  # noqa: ASYNC110 - Trio has no event for it
        await trio.sleep(_POLL_INTERVAL)


def _restore_cancel_status(task: trio.lowlevel.Task, status: Any, left: Sequence[trio.Nursery]) -> None:
    """Restore the cancel status that the task had before the call, and remove the nurseries that were left open."""
    for nursery in left:
        task._child_nurseries.remove(nursery)
    inner: Any = task._cancel_status
    # This also recalculates whether the task is cancelled.
    task._activate_cancel_status(status)
    while inner is not None and inner is not status:
        outer = inner.parent
        inner.close()
        inner = outer
