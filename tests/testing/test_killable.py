"""``mcp_tasks``: the state that a killed server leaves, and its use by the next one."""

from __future__ import annotations

import pytest
import trio

from mcptrio import Context, MCPError, tool
from mcptrio.errors import ConfigError
from mcptrio.testing import KillableServer, Script, ServerSpec, cases_of, open_killable, run_jumping

__all__: list[str] = []


class RecordingPlugin:
    """A plugin that notes what it has done."""

    def __init__(self) -> None:
        self.paid = 0
        self.begun = 0

    @tool(task="required", resumable=True)
    async def pay(self, ctx: Context, repeatable: bool) -> str:
        """Pay, which takes an hour."""
        await ctx.once(self._pay, repeatable=repeatable)
        return "paid"

    async def _pay(self) -> None:
        self.begun += 1
        await trio.sleep(1000)
        self.paid += 1

    @tool(task="required", resumable=True)
    async def ask(self, ctx: Context) -> str:
        """Ask twice."""
        first = await ctx.ask("First?", str)
        await trio.sleep(1000)
        second = await ctx.ask("Second?", str)
        return f"{first}, {second}"

    @tool(task="required")
    async def wait(self) -> str:
        """Wait."""
        await trio.sleep(1000)
        return "waited"

    @tool(task="required", ttl=2000)
    async def wait_forever(self) -> str:
        """Wait longer than the task lives."""
        await trio.sleep_forever()
        raise AssertionError


@pytest.fixture
def works() -> RecordingPlugin:
    return RecordingPlugin()


@pytest.fixture
def mcp_plugins(works: RecordingPlugin) -> list[object]:
    return [works]


pytestmark = pytest.mark.mcp(autojump=True)


async def begin(tasks: KillableServer, name: str, **arguments: object) -> str:
    async with tasks.client.start_tool(name, arguments) as call:
        id = await call.detach()
    assert id is not None
    return id


async def test_unknown_effect_is_repeated_only_if_it_may_be(mcp_tasks: KillableServer, works: RecordingPlugin) -> None:
    once = await begin(mcp_tasks, "pay", repeatable=False)
    again = await begin(mcp_tasks, "pay", repeatable=True)
    await trio.sleep(500)
    await mcp_tasks.kill()
    assert works.paid == 0

    client = await mcp_tasks.resume()

    assert (await client.task(again).result()).text == "paid"
    with pytest.raises(MCPError, match="whether the side effect has happened is not known"):
        await client.task(once).result()
    assert (works.begun, works.paid) == (3, 1)


async def test_answer_is_kept(mcp_tasks: KillableServer, mcp_script: Script) -> None:
    mcp_script.elicit({"value": "one"}, about="First").elicit({"value": "two"}, about="Second")
    async with mcp_tasks.client.start_tool("ask") as call:
        await trio.sleep(500)
        id = await call.detach()
    assert id is not None
    await mcp_tasks.kill()

    client = await mcp_tasks.resume()

    assert (await client.task(id).result()).text == "one, two"


async def test_task_that_cannot_be_resumed_fails(mcp_tasks: KillableServer) -> None:
    id = await begin(mcp_tasks, "wait")
    await trio.sleep(500)
    await mcp_tasks.kill()
    # Nothing runs meanwhile, so it stays as it was.
    await trio.sleep(1000)

    client = await mcp_tasks.resume()

    with pytest.raises(MCPError, match="the process that ran this task has ended"):
        await client.task(id).result()


async def test_life_of_a_task_passes_at_once(mcp_tasks: KillableServer) -> None:
    id = await begin(mcp_tasks, "wait_forever")
    await trio.sleep(2010)

    assert (await mcp_tasks.client.task(id).state()).status == "failed"


async def test_kill_and_resume_take_turns(mcp_tasks: KillableServer) -> None:
    before = trio.current_time()
    with pytest.raises(RuntimeError, match=r"call kill\(\) first"):
        await mcp_tasks.resume()
    await mcp_tasks.kill()
    assert trio.current_time() == before
    with pytest.raises(RuntimeError, match=r"call resume\(\) first"):
        await mcp_tasks.kill()


def test_other_transports_are_refused() -> None:
    with pytest.raises(ConfigError, match="mcp_tasks: only in memory, but the test runs over http"):
        cases_of([{"transports": ["http"]}], everywhere=False, fixtures=["mcp_tasks"])


def test_without_pytest() -> None:
    async def main() -> None:
        async with open_killable(ServerSpec(plugins=[RecordingPlugin()])) as tasks:
            id = await begin(tasks, "ask")
            await tasks.kill()
            assert (await (await tasks.resume()).task(id).state()).id == id

    run_jumping(main)
