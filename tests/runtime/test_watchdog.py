"""The watchdog names the code that blocks the event loop."""

from __future__ import annotations

import logging
import threading
import time
from math import inf

import pytest
import trio
import trio.testing

import mcptrio
from mcptrio import Server, tool
from mcptrio.runtime.watchdog import watch_loop
from mcptrio.serving import ServerSettings, Timeouts

__all__: list[str] = []


class Sleepy:
    @tool
    async def doze(self, seconds: float) -> str:
        time.sleep(seconds)  # noqa: ASYNC251 - the fault that is tested
        return "awake"


async def test_plugin_that_blocks_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(plugins=[Sleepy()], settings=ServerSettings(timeouts=Timeouts(blocked=0.2)))
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("doze", {"seconds": 0.01})
        with trio.fail_after(60):
            # Others are named too, where a busy machine holds the loop up.
            while len(named := [each for each in told(caplog) if "Sleepy" in each]) < 2:
                # Longer than the time between two looks and the patience together.
                await client.call_tool("doze", {"seconds": 1.5})
                await trio.sleep(1)
    first, second = named[:2]
    assert first.startswith("the event loop has been blocked for ")
    assert second.startswith("the event loop was blocked for ")
    for said in (first, second):
        assert "by plugin Sleepy, in Sleepy.doze (" in said
        assert "test_watchdog.py:" in said


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "mcptrio.watchdog"]


async def test_waiting_requests_do_not_block_others(caplog: pytest.LogCaptureFixture) -> None:
    async with watch_loop(2, lambda path: None):
        await trio.sleep(3)
    assert told(caplog) == []


async def test_without_a_limit_the_watchdog_does_not_run() -> None:
    async with watch_loop(inf, lambda path: None):
        assert watchers() == 0
    async with watch_loop(1, lambda path: None):
        assert watchers() == 1
    await gone()


def watchers() -> int:
    """How many threads look."""
    return sum(thread.name == "mcptrio watchdog" for thread in threading.enumerate())


async def gone() -> None:
    """Wait until no task watches."""
    with trio.fail_after(30):
        while watchers():  # noqa: ASYNC110 - it is a thread that ends
            await trio.sleep(0.01)


async def test_code_without_a_plugin_is_shown_by_its_place(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    place = "test_code_without_a_plugin_is_shown_by_its_place ("
    async with watch_loop(0.1, lambda path: None):
        await trio.sleep(0.1)
        with trio.fail_after(60):
            # Something else is named too, where a busy machine holds the loop up.
            while not any(place in each for each in told(caplog)):
                time.sleep(1.2)  # noqa: ASYNC251 - the fault that is tested
                await trio.sleep(0.6)


async def test_loop_that_ends_in_the_middle_of_a_look_is_not_held_up() -> None:
    async with watch_loop(60, lambda path: None):
        time.sleep(0.7)  # noqa: ASYNC251 - so that it has asked, and there is no answer
        began = time.monotonic()
    assert time.monotonic() - began < 30  # half of what it waits for an answer
    await gone()


async def test_time_that_jumps_is_left_alone(autojump_clock: trio.testing.MockClock) -> None:
    async with watch_loop(1, lambda path: None):
        assert watchers() == 0
    # Longer than between two signs of life, which would keep the clock from ever jumping.
    autojump_clock.autojump_threshold = 0.7
    async with Server(plugins=[Sleepy()]).open():
        await trio.sleep(3600)
