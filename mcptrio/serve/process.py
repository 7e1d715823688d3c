"""A process that only serves: signals start an orderly shutdown.

The command line runs it. The first SIGTERM, SIGINT or SIGQUIT starts the shutdown, which is bounded; the second ends
the process. SIGHUP reloads the configuration if the command supports it, otherwise it starts the shutdown.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import trio

from mcptrio.ground.nurseries import open_hidden_nursery

__all__ = ["Hangups", "ReadyStatus", "run"]

_log = logging.getLogger("mcptrio.serve")

_ENDING = ("SIGTERM", "SIGINT", "SIGQUIT")
# Log rotation tools send these to all daemons: they are logged and ignored.
_HARMLESS = ("SIGUSR1", "SIGUSR2")


def run(
    serve: Callable[[trio.Event], Awaitable[None]],
    *,
    hangups: Hangups | None = None,
    renew: Callable[[], Awaitable[None]] | None = None,
    at_once: Callable[[], None] = lambda: None,
    beside: Callable[..., Awaitable[None]] | None = None,
) -> None:
    """Run ``serve`` until it returns; the first signal sets its event.

    Args:
        serve: A function called with the event.
        hangups: Notified of each SIGHUP. Without it and ``renew``, SIGHUP starts the shutdown too.
        renew: A function called for each SIGHUP, one call at a time.
        at_once: A function called by the second signal before the process ends, from a signal handler.
        beside: Runs until ``serve`` has returned; ``serve`` begins when it has started.
    """
    trio.run(partial(_until_signalled, serve, hangups, renew, at_once, beside))


class Hangups:
    """The SIGHUPs of this process, for one waiting task. Several that arrive together count as one."""

    def __init__(self) -> None:
        self._came = trio.Event()

    def came(self) -> None:
        self._came.set()

    async def wait(self) -> None:
        """Wait for the next SIGHUP."""
        await self._came.wait()
        self._came = trio.Event()


class ReadyStatus(trio.TaskStatus[list[str]]):
    """A ``task_status`` that calls a function."""

    def __init__(self, ready: Callable[[list[str]], None]) -> None:
        self._ready = ready

    def started(self, value: list[str] | None = None) -> None:
        self._ready(value or [])


async def _until_signalled(
    serve: Callable[[trio.Event], Awaitable[None]],
    hangups: Hangups | None,
    renew: Callable[[], Awaitable[None]] | None,
    at_once: Callable[[], None],
    beside: Callable[..., Awaitable[None]] | None,
) -> None:
    stop = trio.Event()
    if hangups is None and renew is not None:
        hangups = Hangups()
    with _signals_handled(stop, hangups, at_once):
        async with open_hidden_nursery() as nursery:
            if hangups is not None and renew is not None:
                nursery.start_soon(_renew_at, hangups, renew)
            if beside is not None:
                await nursery.start(beside)
            await serve(stop)
            nursery.cancel_scope.cancel()


async def _renew_at(hangups: Hangups, renew: Callable[[], Awaitable[None]]) -> None:
    while True:
        await hangups.wait()
        await renew()


@contextmanager
def _signals_handled(stop: trio.Event, hangups: Hangups | None, at_once: Callable[[], None]) -> Iterator[None]:
    """Set ``stop`` at the first signal; end the process at the second."""
    # Handlers of the system, because Trio's signal receiver needs a responsive event loop. The second signal has to
    # work if a plugin blocks the loop, or if the shutdown hangs in a shielded wait.
    token = trio.lowlevel.current_trio_token()
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        if received:
            at_once()
            os._exit(128 + number)
        received.append(number)
        token.run_sync_soon(ask, number)

    def ask(number: int) -> None:
        _log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    def pass_over(number: int, _frame: object) -> None:
        token.run_sync_soon(_log.info, "%s: ignored", signal.Signals(number).name)

    def hang_up(_number: int, _frame: object) -> None:
        if hangups is not None:
            token.run_sync_soon(hangups.came)

    handlers = {
        **dict.fromkeys(_ENDING, receive),
        **dict.fromkeys(_HARMLESS, pass_over),
        "SIGHUP": receive if hangups is None else hang_up,
    }
    # Windows lacks most of these signals.
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
