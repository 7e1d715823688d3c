"""Access to the event loop of a server from any thread.

Sync functions of plugins run in threads, and may call sync methods: add a tool, report a changed resource, write to the
log. Trio's objects belong to the event loop, so these methods use this class for their work.
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
    """The event loop in which :meth:`enter` is called. Before that, functions run in the caller's thread."""

    def __init__(self) -> None:
        self._token: trio.lowlevel.TrioToken | None = None

    def enter(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def hand_over(self, work: Callable[[], object]) -> None:
        """Run a function in the event loop: immediately if the caller is in it, otherwise soon. Does not block.

        An exception of the function reaches a caller in the event loop; otherwise it is logged. After the event loop
        has ended, the function is not run.
        """
        token = self._elsewhere()
        if token is None:
            work()
            return
        try:
            token.run_sync_soon(_run_guarded, work)
        except trio.RunFinishedError:
            pass  # A daemon thread can outlive the event loop.

    def call(self, work: Callable[[], T]) -> T:
        """Run a function in the event loop and return its result; another thread waits for it."""
        token = self._elsewhere()
        if token is not None:
            try:
                return trio.from_thread.run_sync(work, trio_token=token)
            except trio.RunFinishedError:
                pass  # The event loop has ended, so nothing runs concurrently.
        return work()

    def _elsewhere(self) -> trio.lowlevel.TrioToken | None:
        """The event loop, if the caller is not in it."""
        try:
            return None if trio.lowlevel.current_trio_token() is self._token else self._token
        # Trio does not run in this thread.
        except RuntimeError:
            return self._token


def _run_guarded(work: Callable[[], object]) -> None:
    # An exception in run_sync_soon() would end all of Trio.
    outcome = run_guarded_sync(work)
    if isinstance(outcome, Failure):
        _log.error("what a thread handed over failed", exc_info=outcome.error)
