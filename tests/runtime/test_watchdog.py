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


async def test_plugin_that_blocks_the_event_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(plugins=[Sleepy()], settings=ServerSettings(timeouts=Timeouts(blocked=0.2)))
    async with server.open(), mcptrio.connect(server) as client:
        await client.call_tool("doze", {"seconds": 0.01})
        with trio.fail_after(60):
            # Other code is named too if a busy machine delays the loop.
            while len(named := [each for each in told(caplog) if "Sleepy" in each]) < 2:
                # Longer than the check interval and the timeout together.
                await client.call_tool("doze", {"seconds": 1.5})
                await trio.sleep(1)
    first, second = named[:2]
    assert first.startswith("the event loop has been blocked for ")
    assert first.endswith("; run blocking code in a thread, with trio.to_thread.run_sync")
    assert second.startswith("the event loop was blocked for ")
    for message in (first, second):
        assert "by plugin Sleepy, in Sleepy.doze (" in message
        assert "test_watchdog.py:" in message


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "mcptrio.watchdog"]


async def test_waiting_requests_do_not_block_others(caplog: pytest.LogCaptureFixture) -> None:
    async with watch_loop(2, lambda path: None):
        await trio.sleep(3)
    assert told(caplog) == []


async def test_watchdog_does_not_run_without_a_limit() -> None:
    async with watch_loop(inf, lambda path: None):
        assert watchers() == 0
    async with watch_loop(1, lambda path: None):
        assert watchers() == 1
    await gone()


def watchers() -> int:
    """Count the watchdog threads."""
    return sum(thread.name == "mcptrio watchdog" for thread in threading.enumerate())


async def gone() -> None:
    """Wait until no watchdog thread is left."""
    with trio.fail_after(30):
        while watchers():  # noqa: ASYNC110 - a thread sets no Trio event
            await trio.sleep(0.01)


async def test_blocking_code_outside_plugins_is_shown_by_its_location(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    place = "test_blocking_code_outside_plugins_is_shown_by_its_location ("
    async with watch_loop(0.1, lambda path: None):
        await trio.sleep(0.1)
        with trio.fail_after(60):
            # Other code is named too if a busy machine delays the loop.
            while not any(place in each for each in told(caplog)):
                time.sleep(1.2)  # noqa: ASYNC251 - the fault that is tested
                await trio.sleep(0.6)


async def test_end_of_the_loop_during_a_check_is_not_delayed() -> None:
    async with watch_loop(60, lambda path: None):
        time.sleep(0.7)  # noqa: ASYNC251 - so that it has asked, and there is no answer
        began = time.monotonic()
    assert time.monotonic() - began < 30  # half of the time that it waits for a response
    await gone()


async def test_watchdog_does_not_run_on_a_clock_that_jumps(autojump_clock: trio.testing.MockClock) -> None:
    async with watch_loop(1, lambda path: None):
        assert watchers() == 0
    # Longer than the interval of the checks, which would keep the clock from ever jumping.
    autojump_clock.autojump_threshold = 0.7
    async with Server(plugins=[Sleepy()]).open():
        await trio.sleep(3600)
