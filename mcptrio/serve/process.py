"""A process of which serving is all there is to do: signals turned into an orderly end.

Called by the command line.
The one rule: the first signal asks for an end, which is bounded; the second one is the end.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import trio

__all__ = ["Ready", "run"]

_log = logging.getLogger("mcptrio.serve")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(serve: Callable[[trio.Event], Awaitable[None]]) -> None:
    """Run ``serve`` until it returns; the first signal sets the event it is given."""
    trio.run(partial(_until_signalled, serve))


class Ready(trio.TaskStatus[list[str]]):
    """Calls a function where a nursery's ``start`` would return."""

    def __init__(self, ready: Callable[[list[str]], None]) -> None:
        self._ready = ready

    def started(self, value: list[str] | None = None) -> None:
        self._ready(value or [])


async def _until_signalled(serve: Callable[[trio.Event], Awaitable[None]]) -> None:
    stop = trio.Event()
    with _stopped_by_signals(stop):
        await serve(stop)


@contextmanager
def _stopped_by_signals(stop: trio.Event) -> Iterator[None]:
    """The first signal sets ``stop``.

    Trio's own receiver hears a signal when the event loop gets round to it. The second one is there for the case that
    it does not: a plugin that blocks it, or an end that hangs in a shielded wait.
    """
    token = trio.lowlevel.current_trio_token()
    asked: list[int] = []

    def receive(number: int, _frame: object) -> None:
        if asked:
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
