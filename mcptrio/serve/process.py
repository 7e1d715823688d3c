"""A process of which serving is all there is to do: signals turned into an orderly end.

Called by the command line.
The one rule: the first signal asks for an end, which is bounded; the second one is the end. SIGHUP makes the process
read its configuration again where it can, and asks for an end otherwise. SIGUSR1 and SIGUSR2, which tools for log files
send to all daemons, are logged and change nothing.
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
_HARMLESS = ("SIGUSR1", "SIGUSR2")


def run(
    serve: Callable[[trio.Event], Awaitable[None]],
    *,
    hangups: Hangups | None = None,
    renew: Callable[[], Awaitable[None]] | None = None,
    at_once: Callable[[], None] = lambda: None,
) -> None:
    """Run ``serve`` until it returns; the first signal sets the event it is given.

    Args:
        hangups: told of each SIGHUP. Without it and ``renew`` that one asks for an end too.
        renew: called for each SIGHUP, one call at a time.
        at_once: called by the second signal, in the middle of anything, before the process ends.
    """
    trio.run(partial(_until_signalled, serve, hangups, renew, at_once))


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


class ReadyStatus(trio.TaskStatus[list[str]]):
    """Calls a function where a nursery's ``start`` would return."""

    def __init__(self, ready: Callable[[list[str]], None]) -> None:
        self._ready = ready

    def started(self, value: list[str] | None = None) -> None:
        self._ready(value or [])


async def _until_signalled(
    serve: Callable[[trio.Event], Awaitable[None]],
    hangups: Hangups | None,
    renew: Callable[[], Awaitable[None]] | None,
    at_once: Callable[[], None],
) -> None:
    stop = trio.Event()
    if hangups is None and renew is not None:
        hangups = Hangups()
    with _signals_handled(stop, hangups, at_once):
        async with open_hidden_nursery() as nursery:
            if hangups is not None and renew is not None:
                nursery.start_soon(_renew_at, hangups, renew)
            await serve(stop)


async def _renew_at(hangups: Hangups, renew: Callable[[], Awaitable[None]]) -> None:
    while True:
        await hangups.wait()
        await renew()


@contextmanager
def _signals_handled(stop: trio.Event, hangups: Hangups | None, at_once: Callable[[], None]) -> Iterator[None]:
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
    # Windows has few of them.
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
