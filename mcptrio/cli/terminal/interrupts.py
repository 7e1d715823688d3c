"""Ctrl-C: the first one cancels, the second one exits.

:mod:`mcptrio.cli.client.running` installs it, and the shell adds each of its calls. After the first one, everything
ends cleanly, within its own timeouts. The second one exits at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import trio

__all__ = ["Interrupts"]

_SIGNALS = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)


class Interrupts:
    """Cancels the innermost scope at the first Ctrl-C, and exits at the second."""

    def __init__(self) -> None:
        # The innermost scope is last.
        self._scopes: list[trio.CancelScope] = []
        self._interrupt_count = 0
        """Signals since the last one that was handled."""
        self.number: int | None = None
        """The number of the signal that ended the command."""
        self.restore: Callable[[], None] | None = None
        """Restores the terminal; called before an immediate exit."""

    @contextmanager
    def cancelling(self, scope: trio.CancelScope) -> Iterator[None]:
        """Let Ctrl-C cancel this scope during the block."""
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.remove(scope)
            # The block has ended, so the next Ctrl-C is again a first one.
            self._interrupt_count = 0

    def interrupt(self) -> None:
        """Handle a Ctrl-C that arrived as a key."""
        self._count(signal.SIGINT)
        self._cancel(signal.SIGINT)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals during the block."""
        # Not trio.open_signal_receiver: it delivers a signal only when the event loop runs, so a second Ctrl-C could
        # not end a command whose event loop is blocked.
        token = trio.lowlevel.current_trio_token()

        def receive(number: int, _frame: object) -> None:
            self._count(number)
            # A signal handler may interrupt Trio anywhere. run_sync_soon is one of the few functions that it may call.
            token.run_sync_soon(self._cancel, number)

        handlers = {}
        for number in _SIGNALS:
            # nohup ignores SIGHUP, and a shell script ignores SIGINT for its background jobs. They stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                handlers[number] = signal.signal(number, receive)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    # Private

    def _count(self, number: int) -> None:
        self._interrupt_count += 1
        if self._interrupt_count > 1:
            # os._exit runs no finally block, so the terminal is restored here.
            if self.restore is not None:
                with suppress(OSError):
                    self.restore()
            # Shells report a death by signal as 128 plus its number. Exiting normally would wait for tasks and threads.
            os._exit(128 + number)

    def _cancel(self, number: int) -> None:
        # Ctrl-C concerns the current action; other signals concern the process.
        is_interrupt = number == signal.SIGINT
        if not self._scopes:
            return
        # Cancelling the last scope ends the command, so its exit code names the signal.
        if not is_interrupt or len(self._scopes) == 1:
            self.number = number
        self._scopes[-1 if is_interrupt else 0].cancel()
