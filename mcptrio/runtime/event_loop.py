"""Runs functions in the event loop of a server, called from any thread.

Sync functions of plugins run in threads, and may call sync methods of the server: add a tool, report a changed
resource, write to the log. Trio's objects must be used in the event loop only, so these methods use this class.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import trio

from mcptrio.ground.guarded import Failure, run_guarded_sync

__all__ = ["EventLoop"]

_log = logging.getLogger("mcptrio.runtime")

T = TypeVar("T")


class EventLoop:
    """The event loop of a server. Before :meth:`enter` is called in it, functions run in the caller's thread."""

    def __init__(self) -> None:
        self._token: trio.lowlevel.TrioToken | None = None

    def enter(self) -> None:
        """Note that this is the event loop of the server."""
        self._token = trio.lowlevel.current_trio_token()

    def hand_over(self, work: Callable[[], object]) -> None:
        """Run a function in the event loop: immediately if the caller is in it, otherwise soon. Does not block.

        An exception of the function reaches a caller in the event loop; otherwise it is logged. After the event loop
        has ended, the function is not run.
        """
        token = self._foreign_token()
        if token is None:
            work()
            return
        try:
            token.run_sync_soon(_run_guarded, work)
        except trio.RunFinishedError:
            pass  # A daemon thread can outlive the event loop.

    def call(self, work: Callable[[], T]) -> T:
        """Run a function in the event loop and return its result; another thread waits for it."""
        token = self._foreign_token()
        if token is not None:
            try:
                return trio.from_thread.run_sync(work, trio_token=token)
            except trio.RunFinishedError:
                pass  # The event loop has ended, so nothing runs concurrently.
        return work()

    def _foreign_token(self) -> trio.lowlevel.TrioToken | None:
        """Return the token of the event loop if the caller is outside of it, otherwise ``None``."""
        try:
            return None if trio.lowlevel.current_trio_token() is self._token else self._token
        except RuntimeError:
            # Trio does not run in this thread.
            return self._token


def _run_guarded(work: Callable[[], object]) -> None:
    # An exception in run_sync_soon() would end all of Trio.
    outcome = run_guarded_sync(work)
    if isinstance(outcome, Failure):
        _log.error("a function that a thread passed to the event loop failed", exc_info=outcome.error)
