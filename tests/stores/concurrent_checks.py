"""Runs several checks concurrently, because most of them only wait. Each has its own data.

The tests of the stores in Redis and PostgreSQL use it, because the clocks of these engines cannot be moved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from types import ModuleType
from typing import Any, TypeVar

import pytest
import trio

__all__ = ["Check", "contract_of", "entered", "run_concurrently"]

T = TypeVar("T")

Check = Callable[[], Awaitable[None]]


def contract_of(module: ModuleType) -> dict[str, Callable[..., Awaitable[None]]]:
    """Return the tests that a module offers to others, by name."""
    exported: dict[str, Any] = {name: getattr(module, name) for name in module.__all__}
    return {name: each for name, each in exported.items() if name.startswith("test_")}


@asynccontextmanager
async def entered(context: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a context manager in threads, so that other checks run while it blocks."""
    value = await trio.to_thread.run_sync(context.__enter__)
    try:
        yield value
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(context.__exit__, None, None, None)


async def run_concurrently(checks: Mapping[str, Check], subtests: pytest.Subtests) -> None:
    """Run checks by their names. Each one is a subtest, and does not end the others when it fails."""
    failures: dict[str, BaseException] = {}

    async def run(name: str, check: Check) -> None:
        try:
            await check()
        except (Exception, pytest.fail.Exception) as error:
            failures[name] = error

    async with trio.open_nursery() as nursery:
        for name, check in checks.items():
            nursery.start_soon(run, name, check)
    for name in checks:
        with subtests.test(name):
            if name in failures:
                raise failures[name]
