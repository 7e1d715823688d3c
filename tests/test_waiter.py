"""A task's wait for one result, in every order of result, cancellation and waiting."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.ground.waiter import Waiter

__all__: list[str] = []

STEPS: dict[str, Callable[[Waiter[int], trio.CancelScope], object]] = {
    "answer": lambda waiter, scope: waiter.set(1),
    "another answer": lambda waiter, scope: waiter.set(2),
    "give up": lambda waiter, scope: waiter.fail(trio.TooSlowError()),
    "close": lambda waiter, scope: waiter.fail(ConnectionError("closed")),
    "cancel": lambda waiter, scope: scope.cancel(),
}
ENDS = {"answer": 1, "another answer": 2, "give up": "TooSlowError", "close": "ConnectionError", "cancel": "cancelled"}


async def test_result_of_the_waiter_is_returned() -> None:
    waiter: Waiter[str] = Waiter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.lowlevel.checkpoint)
        assert waiter.set("here")
        assert await waiter.wait() == "here"
    assert waiter.is_done


async def test_error_of_the_waiter_is_raised() -> None:
    waiter: Waiter[str] = Waiter()
    assert waiter.fail(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        await waiter.wait()


async def test_result_for_a_cancelled_task_is_refused() -> None:
    """The result comes in the same turn of the event loop, before the cancelled task runs again."""
    waiter: Waiter[int] = Waiter()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter.wait)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            assert waiter.is_done
            assert not waiter.set(1)


@given(st.permutations(sorted(STEPS)), st.integers(0, 5))
def test_first_step_determines_the_outcome(steps: list[str], begun: int) -> None:
    """Later steps in the same turn, and whether the task already waits, make no difference."""

    async def play() -> object:
        waiter: Waiter[int] = Waiter()
        scope = trio.CancelScope()
        end: object = "cancelled"

        async def wait() -> None:
            nonlocal end
            with scope:
                try:
                    end = await waiter.wait()
                except (trio.TooSlowError, ConnectionError) as error:
                    end = type(error).__name__

        async with trio.open_nursery() as nursery:
            for number, step in enumerate(steps):
                if number == begun:
                    nursery.start_soon(wait)
                    await trio.testing.wait_all_tasks_blocked()
                STEPS[step](waiter, scope)
            if begun >= len(steps):
                nursery.start_soon(wait)
        return end

    end = trio.run(play)
    # A result that is there before the task waits needs no checkpoint, so that a cancellation before it is not seen.
    before = [step for step in steps[:begun] if step != "cancel"]
    assert end == ENDS[before[0] if before else steps[0]]
