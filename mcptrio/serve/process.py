"""A process of which serving is all there is to do: signals turned into an orderly end.

Called by the command line.
The one rule: the first signal asks for an end, which is bounded; the second one is the end. SIGHUP asks for something
else, where somebody wants to hear it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import trio

__all__ = ["Hangups", "Ready", "run"]

_log = logging.getLogger("mcptrio.serve")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(
    serve: Callable[[trio.Event], Awaitable[None]],
    *,
    hangups: Hangups | None = None,
    at_once: Callable[[], None] = lambda: None,
) -> None:
    """Run ``serve`` until it returns; the first signal sets the event it is given.

    Args:
        hangups: told of each SIGHUP; without, that one ends the process.
        at_once: called by the second signal, in the middle of anything, before the process ends.
    """
    trio.run(partial(_until_signalled, serve, hangups, at_once))


class Hangups:
    """The SIGHUPs of this process, for one task that waits for them. Several at once count as one."""

    def __init__(self) -> None:
        self._came = trio.Event()

    def came(self) -> None:
        self._came.set()

    async def wait(self) -> None:
        """Wait for one that nobody has waited for."""
        await self._came.wait()
        self._came = trio.Event()


class Ready(trio.TaskStatus[list[str]]):
    """Calls a function where a nursery's ``start`` would return."""

    def __init__(self, ready: Callable[[list[str]], None]) -> None:
        self._ready = ready

    def started(self, value: list[str] | None = None) -> None:
        self._ready(value or [])


async def _until_signalled(
    serve: Callable[[trio.Event], Awaitable[None]], hangups: Hangups | None, at_once: Callable[[], None]
) -> None:
    stop = trio.Event()
    with _stopped_by_signals(stop, at_once), _heard(hangups):
        await serve(stop)


@contextmanager
def _heard(hangups: Hangups | None) -> Iterator[None]:
    if hangups is None or sys.platform == "win32":
        yield
        return
    token = trio.lowlevel.current_trio_token()
    heard = hangups.came
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: token.run_sync_soon(heard))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def _stopped_by_signals(stop: trio.Event, at_once: Callable[[], None]) -> Iterator[None]:
    """The first signal sets ``stop``.

    Trio's own receiver hears a signal when the event loop gets round to it. The second one is there for the case that
    it does not: a plugin that blocks it, or an end that hangs in a shielded wait.
    """
    token = trio.lowlevel.current_trio_token()
    asked: list[int] = []

    def receive(number: int, _frame: object) -> None:
        if asked:
            at_once()
            os._exit(128 + number)
        asked.append(number)
        token.run_sync_soon(ask, number)

    def ask(number: int) -> None:
        _log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    before = {number: signal.signal(number, receive) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
