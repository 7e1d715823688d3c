"""After any concurrent actions, each plugin ends in one state, and its entries match the state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import trio
import trio.testing
from attrs import define
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mcptrio
from mcptrio import PluginSetup, Server, hookimpl
from mcptrio.serving import Plugin, PluginManager, ServerSettings, Timeouts

__all__: list[str] = []

Action: TypeAlias = Literal["enable", "disable", "quarantine", "renew", "fail", "refuse", "accept"]
Step: TypeAlias = tuple[Action, int, float, float | None]
"""The action, the plugin, the seconds before it, and the seconds until its caller is cancelled."""

LONG = 1000.0
"""Seconds after which every started action has ended."""


@define(eq=False)
class Part:
    """A plugin that starts and stops slowly.

    Args:
        entering, leaving: Seconds that its lifespan takes to start and to stop.
    """

    number: int
    entering: float
    leaving: float
    refuses: bool = False
    """Whether its lifespan fails at the start."""
    open: int = 0
    working: int = 0
    broken: trio.Event | None = None
    """Set to make the lifespan fail."""

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_background(self.work)
        server.add_tool(self.show, name=f"show{self.number}")

    async def work(self) -> None:
        self.working += 1
        try:
            await trio.sleep_forever()
        finally:
            self.working -= 1

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        await trio.sleep(self.entering)
        if self.refuses:
            raise RuntimeError("not now")
        self.open += 1
        self.broken = trio.Event()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.fail_when_broken, self.broken)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self.open -= 1
            with trio.CancelScope(shield=True):
                await trio.sleep(self.leaving)

    @staticmethod
    async def fail_when_broken(broken: trio.Event) -> None:
        await broken.wait()
        raise RuntimeError("broken")

    async def show(self) -> str:
        """Show a value."""
        return "shown"


async def act(server: Server, action: Action, part: Part, plugin: Plugin) -> None:
    if action == "enable":
        await server.enable_plugin(plugin.name)
    elif action == "disable":
        await server.disable_plugin(plugin.name)
    elif action == "renew":
        await server.renew_plugins(
            {plugin.name: {"timeout": 3 + trio.current_time() % 7}}, lambda each: isinstance(each.object, Part)
        )
    elif action == "quarantine":
        server.running_plugins.quarantine(plugin, "for the test")
    elif action == "fail" and part.broken is not None:
        part.broken.set()
    elif action in ("refuse", "accept"):
        part.refuses = action == "refuse"


async def later(seconds: float, limit: float | None, work: Callable[[], Awaitable[None]]) -> None:
    await trio.sleep(seconds)
    with trio.move_on_after(limit if limit is not None else LONG):
        await work()


async def run(parts: list[Part], steps: list[Step]) -> None:
    manager = PluginManager()
    plugins = [manager.register(part, f"part{part.number}") for part in parts]
    server = Server(plugins=manager, settings=ServerSettings(timeouts=Timeouts(start=2.0, shutdown=1.0)))
    # The clock needs a time to jump to if all tasks wait for ever.
    with trio.fail_after(10 * LONG):
        await run_steps(server, parts, plugins, steps)
    assert [(part.open, part.working) for part in parts] == [(0, 0)] * len(parts)


async def run_steps(server: Server, parts: list[Part], plugins: list[Plugin], steps: list[Step]) -> None:
    async with server.open(), trio.open_nursery() as nursery:
        for action, index, seconds, limit in steps:
            part, plugin = parts[index], plugins[index]

            async def work(action: Action = action, part: Part = part, plugin: Plugin = plugin) -> None:
                await act(server, action, part, plugin)

            nursery.start_soon(later, seconds, limit, work)
        await trio.sleep(LONG)
        async with mcptrio.connect(server) as client:
            names = {each.name async for each in client.tools()}
        for part, plugin in zip(parts, plugins, strict=True):
            assert plugin.state in ("running", "quarantined", "disabled")
            is_running = plugin.state == "running"
            assert (part.open, part.working) == (is_running, is_running)
        assert names == {
            f"show{part.number}" for part, plugin in zip(parts, plugins, strict=True) if plugin.state == "running"
        }


# Exact in binary, so that their sums are exact too: a jump of the clock by a rounding error would not move it.
TIMES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 3.0])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enable", "disable", "quarantine", "renew", "fail", "refuse", "accept"]),
        st.integers(0, 1),
        TIMES,
        st.sampled_from([None, 0.125, 0.5]),
    ),
    max_size=10,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, entering=TIMES, leaving=st.sampled_from([0.0, 0.5, 5.0]))
@example(
    # A lifespan that takes long to fail, while its plugin already has another one.
    steps=[("fail", 0, 1.5, None), ("renew", 0, 3.0, None)],
    entering=0.0,
    leaving=5.0,
)
@example(
    steps=[("disable", 0, 0.0, None), ("enable", 0, 0.5, None), ("quarantine", 0, 0.75, None)],
    entering=1.0,
    leaving=0.0,
)
def test_entries_of_a_plugin_match_its_state(steps: list[Step], entering: float, leaving: float) -> None:
    parts = [Part(0, entering, leaving), Part(1, 0.0, leaving)]

    trio.run(run, parts, steps, clock=trio.testing.MockClock(autojump_threshold=0))
