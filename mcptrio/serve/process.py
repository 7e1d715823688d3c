"""Runs a function that serves until a signal arrives.

The command line uses it. The first SIGTERM, SIGINT or SIGQUIT starts the shutdown, which is bounded; the second ends
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

_SHUTDOWN_SIGNALS = ("SIGTERM", "SIGINT", "SIGQUIT")
# Log rotation tools send these to all daemons: they are logged and ignored.
_IGNORED_SIGNALS = ("SIGUSR1", "SIGUSR2")


def run(
    serve: Callable[[trio.Event], Awaitable[None]],
    *,
    hangups: Hangups | None = None,
    renew: Callable[[], Awaitable[None]] | None = None,
    before_exit: Callable[[], None] = lambda: None,
    background: Callable[..., Awaitable[None]] | None = None,
) -> None:
    """Run ``serve`` until it returns; the first signal sets its event.

    Args:
        serve: A function called with an event, which the first signal sets.
        hangups: Notified of each SIGHUP. If neither ``hangups`` nor ``renew`` is given, SIGHUP starts the shutdown too.
        renew: A function called for each SIGHUP, one call at a time.
        before_exit: A function that the handler of the second signal calls before it ends the process.
        background: Runs until ``serve`` has returned. ``serve`` begins after ``background`` has called
            ``task_status.started()``.
    """
    trio.run(partial(_serve_until_signalled, serve, hangups, renew, before_exit, background))


class Hangups:
    """The SIGHUPs of this process, for one task that waits for them. Several before the next wait count as one."""

    def __init__(self) -> None:
        self._notified = trio.Event()

    def notify(self) -> None:
        self._notified.set()

    async def wait(self) -> None:
        """Wait for the next SIGHUP."""
        await self._notified.wait()
        self._notified = trio.Event()


class ReadyStatus(trio.TaskStatus[list[str]]):
    """A ``task_status`` that calls a function."""

    def __init__(self, ready: Callable[[list[str]], None]) -> None:
        self._ready = ready

    def started(self, value: list[str] | None = None) -> None:
        self._ready(value or [])


async def _serve_until_signalled(
    serve: Callable[[trio.Event], Awaitable[None]],
    hangups: Hangups | None,
    renew: Callable[[], Awaitable[None]] | None,
    before_exit: Callable[[], None],
    background: Callable[..., Awaitable[None]] | None,
) -> None:
    stop = trio.Event()
    if hangups is None and renew is not None:
        hangups = Hangups()
    with _handle_signals(stop, hangups, before_exit):
        async with open_hidden_nursery() as nursery:
            if hangups is not None and renew is not None:
                nursery.start_soon(_renew_at, hangups, renew)
            if background is not None:
                await nursery.start(background)
            await serve(stop)
            nursery.cancel_scope.cancel()


async def _renew_at(hangups: Hangups, renew: Callable[[], Awaitable[None]]) -> None:
    while True:
        await hangups.wait()
        await renew()


@contextmanager
def _handle_signals(stop: trio.Event, hangups: Hangups | None, before_exit: Callable[[], None]) -> Iterator[None]:
    """Set ``stop`` at the first signal; end the process at the second."""
    # signal.signal(), because Trio's signal receiver needs a responsive event loop. The second signal has to work even
    # if a plugin blocks the loop, or if the shutdown hangs in a shielded wait.
    token = trio.lowlevel.current_trio_token()
    received: list[int] = []

    def receive(number: int, _frame: object) -> None:
        if received:
            before_exit()
            os._exit(128 + number)
        received.append(number)
        token.run_sync_soon(shut_down, number)

    def shut_down(number: int) -> None:
        _log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    def ignore(number: int, _frame: object) -> None:
        token.run_sync_soon(_log.info, "%s: ignored", signal.Signals(number).name)

    def hang_up(_number: int, _frame: object) -> None:
        if hangups is not None:
            token.run_sync_soon(hangups.notify)

    handlers = {
        **dict.fromkeys(_SHUTDOWN_SIGNALS, receive),
        **dict.fromkeys(_IGNORED_SIGNALS, ignore),
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
