"""Ctrl-C: the first one cancels, the second one exits.

:mod:`mcptrio.cli.client.running` installs it, and the shell adds each of its calls. After the first one, everything
ends in order, within its own timeouts. The second one exits at once.
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
    """The cancel scopes, the innermost last."""

    def __init__(self) -> None:
        self._scopes: list[trio.CancelScope] = []
        self._asked = 0
        """Signals since the last one that was handled."""
        self.number: int | None = None
        """The number of the signal that ended the command."""
        self.restore: Callable[[], None] | None = None
        """Restores the terminal; called before an immediate exit."""

    @contextmanager
    def taking_back(self, scope: trio.CancelScope) -> Iterator[None]:
        """Let Ctrl-C cancel this scope during the block."""
        self._scopes.append(scope)
        try:
            yield
        finally:
            self._scopes.remove(scope)
            self._asked = 0

    def interrupt(self) -> None:
        """Handle a Ctrl-C that arrived as a key."""
        self._count(signal.SIGINT)
        self._take_back(signal.SIGINT)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive signals during the block.

        Trio's own receiver gets a signal when the event loop runs. The second signal handler is for a blocked loop, and
        for an end that takes too long.
        """
        token = trio.lowlevel.current_trio_token()

        def receive(number: int, _frame: object) -> None:
            self._count(number)
            token.run_sync_soon(self._take_back, number)

        before = {}
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                before[number] = signal.signal(number, receive)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # Private

    def _count(self, number: int) -> None:
        self._asked += 1
        if self._asked > 1:
            if self.restore is not None:
                with suppress(OSError):
                    self.restore()
            os._exit(128 + number)

    def _take_back(self, number: int) -> None:
        # Ctrl-C concerns the current action; other signals concern the process.
        innermost = number == signal.SIGINT
        if not self._scopes:
            return
        if not innermost or len(self._scopes) == 1:
            self.number = number
        self._scopes[-1 if innermost else 0].cancel()
