"""Calls of author's code that return its exceptions as values.

Used wherever a function of a plugin, or a callback of a client or host, is called. ``trio.Cancelled`` belongs to Trio
alone: an exception that left a cancel scope together with it would end the nursery, and all other requests in it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Generic, TypeVar, TypeVarTuple

import trio
from attrs import frozen

from mcptrio.errors import MCPTrioError
from mcptrio.ground.tracebacks import single

__all__ = ["Done", "Failure", "run_guarded", "run_guarded_sync"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("mcptrio.guarded")


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
    except BaseException as error:  # noqa: ASYNC103 - a plain call is no place where Cancelled comes up
        return Failure(_unwrap(error))  # noqa: ASYNC104


def _plugin_error(error: BaseException) -> BaseException:
    """Return the part that the author's code has raised itself, unwrapped from groups of one.

    Raises:
        trio.Cancelled, KeyboardInterrupt: those parts of it.
    """
    if isinstance(error, BaseExceptionGroup):
        passing, failed = error.split(_passes)
        if passing is not None:
            if failed is not None:
                # The cancellation wins, but the failure must not disappear.
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
