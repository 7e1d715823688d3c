"""Runs work in its own ``contextvars`` context, in a task that runs one piece of work after another.

Worker tasks use this: a variable that one request sets is not visible to the next.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any

__all__ = ["ContextRunner"]


class ContextRunner(Generator[Any, Any, None]):
    """Awaitable that runs a coroutine in its own context, in the current task."""

    def __init__(self, context: Context, work: Coroutine[Any, Any, None]) -> None:
        self._context = context
        self._work = work

    def __await__(self) -> Generator[Any, Any, None]:
        return self

    def send(self, value: Any) -> Any:
        # Entered for each step, because a context cannot stay entered while the task is suspended.
        return self._context.run(self._work.send, value)

    def throw(self, *error: Any) -> Any:
        return self._context.run(self._work.throw, *error)

    def close(self) -> None:
        self._context.run(self._work.close)
